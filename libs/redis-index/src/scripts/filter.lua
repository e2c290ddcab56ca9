-- What a reader asks about the comments of a filter. A filter has a language, perhaps ANY, and ratings.

local function filter_of(product, language, ratings)
  local filter = { language = language, ratings = {}, digits = {}, tail = ',' .. language .. ',' }
  for digit in string.gmatch(ratings, '%d') do
    filter.ratings[#filter.ratings + 1] = tonumber(digit)
    filter.digits[string.byte(digit)] = true
  end
  filter.by_rating = language == ANY and product.by_rating or totals_of(product, language)
  filter.size = 0
  for _, rating in ipairs(filter.ratings) do filter.size = filter.size + filter.by_rating[rating] end
  filter.matches_all = language == ANY and #filter.ratings == 5
  return filter
end

local function matches(filter, member)
  return filter.digits[string.byte(member, -1)]
    and (filter.language == ANY or string.sub(member, -#filter.tail - 1, -2) == filter.tail)
end

-- How many comments of a filter a child has.
local function count_in_child(filter, counts, number)
  local at = number * CHILD_BYTES
  if #filter.ratings == 5 then
    local a, b, c, d, e, f, g, h, i, j = string.byte(counts, at + 1, at + CHILD_BYTES)
    return (a + c + e + g + i) * 256 + b + d + f + h + j
  end
  local found = 0
  for _, rating in ipairs(filter.ratings) do
    local high, low = string.byte(counts, at + 2 * rating - 1, at + 2 * rating)
    found = found + high * 256 + low
  end
  return found
end

-- The filter's members among the newest of a block, newest first.
local function matching(filter, block, number)
  local found = {}
  for _, member in ipairs(redis.call('ZREVRANGE', block, 0, number - 1)) do
    if matches(filter, member) then found[#found + 1] = member end
  end
  return found
end

local function count_among_newest(filter, block, number)
  if number == 0 or filter.matches_all then return number end
  return #matching(filter, block, number)
end

local function count_in_open(product, filter)
  if filter.matches_all then return product.open_size end
  filter.of_open = filter.of_open or matching(filter, product.open, product.open_size)
  return #filter.of_open
end

-- Several parts of an answer need the counts of the same nodes.
local known = {}
local function known_counts(node, language)
  local key = node.counts .. language
  if known[key] == nil then known[key] = counts_of(node, language) end
  return known[key]
end

-- How many comments the children after a child have.
local function count_after(filter, node, child)
  local counts = known_counts(node, filter.language)
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
    found = found + count_in_open(product, filter) + count_after(filter, at.root, at.group_number) + count_after(filter, at.group, at.block_number)
  end
  return found, at.block
end

-- Whether a comment is among a filter's.
local function has(filter, block, time, id)
  if filter.size == 0 then return false end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', block, time, time)) do
    if string.sub(member, 1, #id + 1) == id .. ',' and matches(filter, member) then return true end
  end
  return false
end

-- Appends members of a block, after the first `skip` ones, until `found` has `wanted` members and scores. `size` is the
-- number of the filter's members of the block. Scores take long to read, and are false where the ids hold them.
local function take(product, filter, block, size, skip, found, wanted)
  local last = math.min(size, skip + (wanted - #found) / 2)
  if filter.matches_all and product.has_times then
    local some = redis.call('ZREVRANGE', block, skip, last - 1, 'WITHSCORES')
    if #some ~= 2 * (last - skip) then damaged(block) end
    for _, text in ipairs(some) do found[#found + 1] = text end
    return
  end
  local some
  if filter.matches_all then
    some = redis.call('ZREVRANGE', block, skip, last - 1)
    if #some ~= last - skip then damaged(block) end
  else
    local of_block = matching(filter, block, 0)
    if #of_block ~= size then damaged(block) end
    some = { unpack(of_block, skip + 1, last) }
  end
  local scores = product.has_times and redis.call('ZMSCORE', block, unpack(some)) or {}
  for at, member in ipairs(some) do
    found[#found + 1] = member
    found[#found + 1] = scores[at] or false
  end
end

-- The comments of `number` consecutive ranks, which must exist, newest first: members and scores in turn.
local function select(product, filter, rank, number)
  local found, wanted = {}, 2 * number
  local of_open = count_in_open(product, filter)
  local skip = rank - of_open
  if skip < 0 then
    take(product, filter, product.open, of_open, rank, found, wanted)
    skip = 0
  end
  if #found == wanted then return found end
  local root = root_of(product)
  local of_groups = known_counts(root, filter.language) or damaged(root.counts)
  for group_number = #of_groups / CHILD_BYTES - 1, 0, -1 do
    local of_group = count_in_child(filter, of_groups, group_number)
    if skip >= of_group then
      skip = skip - of_group
    else
      local group = group_at(product, root, group_number)
      local of_blocks = known_counts(group, filter.language) or damaged(group.counts)
      for block_number = #of_blocks / CHILD_BYTES - 1, 0, -1 do
        local of_block = count_in_child(filter, of_blocks, block_number)
        if skip >= of_block then
          skip = skip - of_block
        else
          take(product, filter, block_at(product, group, block_number), of_block, skip, found, wanted)
          if #found == wanted then return found end
          skip = 0
        end
      end
    end
  end
  damaged(root.counts)
end

-- The newest comment: its member and its score.
local function newest(product, filter)
  return filter.size > 0 and select(product, filter, 0, 1) or {}
end
