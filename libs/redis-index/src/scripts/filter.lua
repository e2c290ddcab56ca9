-- What a reader asks about the comments of a filter. A filter has a language, perhaps ANY, and ratings.

local function filter_of(product, language, ratings)
  if language == ANY and ratings == '12345' then
    return { language = ANY, ratings = { 1, 2, 3, 4, 5 }, by_rating = product.by_rating, size = product.size, matches_all = true }
  end
  local filter = { language = language, ratings = {}, tails = {}, size = 0, known = {} }
  filter.by_rating = language == ANY and product.by_rating or totals_of(product, language)
  -- The ends of the filter's members.
  local stem = language == ANY and '' or ',' .. language .. ','
  filter.tail_size = #stem + 1
  for digit in string.gmatch(ratings, '%d') do
    local rating = tonumber(digit)
    filter.ratings[#filter.ratings + 1] = rating
    filter.tails[stem .. digit] = true
    filter.size = filter.size + filter.by_rating[rating]
  end
  return filter
end

local function matches(filter, member)
  return filter.matches_all or filter.tails[string.sub(member, -filter.tail_size)]
end

local byte = string.byte

-- How many comments of a filter a child has.
local function count_in_child(filter, counts, number)
  local at, ratings, found = number * CHILD_BYTES, filter.ratings, 0
  if #ratings == 5 then
    local a, b, c, d, e, f, g, h, i, j = byte(counts, at + 1, at + CHILD_BYTES)
    return (a + c + e + g + i) * 256 + b + d + f + h + j
  end
  for index = 1, #ratings do
    local high, low = byte(counts, at + 2 * ratings[index] - 1, at + 2 * ratings[index])
    found = found + high * 256 + low
  end
  return found
end

-- The filter's members among the newest `number` of a block, or of all for 0, newest first. The same block may be asked
-- for again.
local function matching(filter, block, number)
  if number == 0 and filter.known[block] then return filter.known[block] end
  local found, tails, tail_size, sub = {}, filter.tails, filter.tail_size, string.sub
  local members = redis.call('ZREVRANGE', block, 0, number - 1)
  for at = 1, #members do
    if tails[sub(members[at], -tail_size)] then found[#found + 1] = members[at] end
  end
  if number == 0 then filter.known[block] = found end
  return found
end

local function count_among_newest(filter, block, number)
  if number == 0 or filter.matches_all then return number end
  return #matching(filter, block, number)
end

local function count_in_open(product, filter)
  return filter.matches_all and product.open_size or #matching(filter, product.open, 0)
end

-- Whether a language has counts of its own.
local function is_own(product, filter)
  if filter.is_own == nil then
    filter.is_own = counts_of(root_of(product), filter.language) ~= false
  end
  return filter.is_own
end

-- Several parts of an answer need the counts of the same nodes.
local known = {}
local known_counts

-- The numbers of a child's comments by rating, of a language without counts of its own.
local function count_among_others(product, filter, node, number)
  if not node.is_root then
    local numbers, stem = { 0, 0, 0, 0, 0 }, ',' .. filter.language .. ','
    local block = block_at(product, node, number)
    local members = redis.call('ZRANGE', block, 0, -1)
    if #members ~= sum(child_of(counts_of(node, ANY), number)) then damaged(block) end
    for _, member in ipairs(members) do
      local rating = string.sub(member, -#stem - 1, -2) == stem and tonumber(string.sub(member, -1))
      if rating then numbers[rating] = numbers[rating] + 1 end
    end
    return numbers
  end
  local of_blocks, sums = known_counts(product, filter, group_at(product, node, number)), {}
  for block_number = 0, #of_blocks / CHILD_BYTES - 1 do add_numbers(sums, 1, child_of(of_blocks, block_number)) end
  return sums[1]
end

-- The counts of a node's children for a filter's language: false without such comments.
function known_counts(product, filter, node)
  local key = node.counts .. filter.language
  if known[key] == nil then
    local counts = counts_of(node, filter.language)
    if not counts and not is_own(product, filter) then
      local packed = {}
      for number = 1, size_of(node) do packed[number] = pack() end
      for _, number in ipairs(children_with_others(node)) do
        packed[number + 1] = pack(count_among_others(product, filter, node, number))
      end
      counts = table.concat(packed)
    end
    known[key] = counts
  end
  return known[key]
end

-- How many comments the children after a child have.
local function count_after(product, filter, node, child)
  local counts = known_counts(product, filter, node)
  local found = 0
  if counts then
    for number = child + 1, #counts / CHILD_BYTES - 1 do found = found + count_in_child(filter, counts, number) end
  end
  return found
end

-- How many comments of a filter precede a place, newest first, and the block that holds the place.
local function count_preceding(product, filter, place)
  if filter.size == 0 then return 0 end
  local at = locate(product, place)
  local found = count_among_newest(filter, at.block, preceding(at.block, place))
  if at.group then
    found = found + count_in_open(product, filter) + count_after(product, filter, at.root, at.group_number)
    found = found + count_after(product, filter, at.group, at.block_number)
  end
  return found, at.block
end

-- How many of a comment's members are among a filter's: more than one while a redelivery is under way.
local function count_of_comment(filter, block, time, id)
  local found = 0
  if filter.size == 0 then return found end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', block, time, time)) do
    if string.sub(member, 1, #id + 1) == id .. ',' and matches(filter, member) then found = found + 1 end
  end
  return found
end

-- Appends members of a block, after the first `skip` ones, until `found` has `wanted` members. `size` is the number of the
-- filter's members of the block.
local function take(filter, block, size, skip, found, wanted)
  local last = math.min(size, skip + wanted - #found)
  if filter.matches_all then
    local some = redis.call('ZREVRANGE', block, skip, last - 1)
    if #some ~= last - skip then damaged(block) end
    for _, member in ipairs(some) do found[#found + 1] = member end
  else
    local of_block = matching(filter, block, 0)
    if #of_block ~= size then damaged(block) end
    for at = skip + 1, last do found[#found + 1] = of_block[at] end
  end
end

-- The members of `wanted` consecutive ranks, which must exist, newest first.
local function select(product, filter, rank, wanted)
  local found = {}
  local of_open = count_in_open(product, filter)
  local skip = rank - of_open
  if skip < 0 then
    take(filter, product.open, of_open, rank, found, wanted)
    skip = 0
  end
  if #found == wanted then return found end
  local root = root_of(product)
  local of_groups = known_counts(product, filter, root) or damaged(root.counts)
  for group_number = #of_groups / CHILD_BYTES - 1, 0, -1 do
    local of_group = count_in_child(filter, of_groups, group_number)
    if skip >= of_group then
      skip = skip - of_group
    else
      local group = group_at(product, root, group_number)
      local of_blocks = known_counts(product, filter, group) or damaged(group.counts)
      for block_number = #of_blocks / CHILD_BYTES - 1, 0, -1 do
        local of_block = count_in_child(filter, of_blocks, block_number)
        if skip >= of_block then
          skip = skip - of_block
        else
          take(filter, block_at(product, group, block_number), of_block, skip, found, wanted)
          if #found == wanted then return found end
          skip = 0
        end
      end
    end
  end
  damaged(root.counts)
end

-- The newest comment. Several parts of an answer need it.
local function newest(product, filter)
  filter.newest = filter.newest or filter.size > 0 and select(product, filter, 0, 1) or {}
  return filter.newest
end
