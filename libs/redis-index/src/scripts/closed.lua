-- Changes of closed blocks and their counts. Few edits need them, so this module's functions are made when
-- an edit first needs one.

local COUNT_MAX = 65535 -- two bytes

-- The counts of a node's children, by language.
local function all_counts(node)
  local found, by_language = redis.call('HGETALL', node.counts), {}
  for at = 1, #found, 2 do by_language[found[at]] = found[at + 1] end
  return by_language
end

-- Which languages have counts of their own.
local function languages_of(root)
  local languages = { own = {}, number = 0 }
  for _, language in ipairs(redis.call('HKEYS', root.counts)) do
    if language == OTHERS then
      languages.is_closed = true
    elseif language ~= ANY then
      languages.own[language], languages.number = true, languages.number + 1
    end
  end
  return languages
end

-- The field that counts a language. A new language gets a field of its own until one has got none.
local function field_of(languages, language)
  if language == ANY or language == OTHERS or languages.own[language] then return language end
  languages.is_closed = languages.is_closed or languages.number >= LANGUAGES_MAX
  if languages.is_closed then return OTHERS end
  languages.own[language], languages.number = true, languages.number + 1
  return language
end

local function field_at(at, language)
  if counts_of(at.root, language) then return language end
  -- A group has no more languages than the root.
  if counts_of(at.group, language) then damaged(at.root.counts) end
  return field_of(languages_of(at.root), language)
end

-- Numbers by language and rating, by the fields that count them.
local function by_field(languages, numbers_by_language)
  local sums = {}
  for language, numbers in pairs(numbers_by_language) do add_numbers(sums, field_of(languages, language), numbers) end
  return sums
end

-- A group has no field for a language without comments.
local function store_counts(node, language, counts)
  local is_kept = counts ~= '' and (language == ANY or node.is_root)
  if is_kept or string.find(counts, '[^%z]') then
    redis.call('HSET', node.counts, language, counts)
  else
    redis.call('HDEL', node.counts, language)
  end
end

-- Replaces `removed` children from `number` on by others, which have counts by language and rating.
local function splice(node, number, removed, inserted)
  local by_language = all_counts(node)
  by_language[ANY] = by_language[ANY] or ''
  local width = #by_language[ANY]
  for _, child in ipairs(inserted) do
    for language in pairs(child) do by_language[language] = by_language[language] or string.rep('\0', width) end
  end
  for language, counts in pairs(by_language) do
    local middle = ''
    for _, child in ipairs(inserted) do middle = middle .. pack(child[language]) end
    local before, behind = string.sub(counts, 1, number * CHILD_BYTES), string.sub(counts, (number + removed) * CHILD_BYTES + 1)
    store_counts(node, language, before .. middle .. behind)
  end
end

-- A child's numbers of comments by language and rating.
local function counts_of_child(node, number)
  local child = {}
  for language, counts in pairs(all_counts(node)) do
    if #counts < (number + 1) * CHILD_BYTES then damaged(node.counts) end
    child[language] = child_of(counts, number)
  end
  return child
end

-- A child's numbers after others are added or subtracted. Changes nothing.
local function sums_with(node, number, counts, sign)
  local sums = counts_of_child(node, number)
  for language, numbers in pairs(counts) do
    sums[language] = sums[language] or { 0, 0, 0, 0, 0 }
    for rating = 1, 5 do
      local sum_of_rating = sums[language][rating] + sign * numbers[rating]
      if sum_of_rating < 0 or sum_of_rating > COUNT_MAX then damaged(node.counts) end
      sums[language][rating] = sum_of_rating
    end
  end
  return sums
end

-- What a node's children have together, by language and rating.
local function sums_of(node)
  local sums = {}
  for language, counts in pairs(all_counts(node)) do
    local number = -1
    repeat
      local at = string.find(counts, '[^%z]', (number + 1) * CHILD_BYTES + 1)
      number = at and math.floor((at - 1) / CHILD_BYTES)
      local is_whole = at and #counts >= (number + 1) * CHILD_BYTES
      if is_whole then add_numbers(sums, language, child_of(counts, number)) end
    until not is_whole
  end
  return sums
end

-- A node's counts by language after a comment is added to a child or removed from it. Changes nothing.
local function counts_with(node, number, language, rating, delta)
  local changed = {}
  for _, counted in ipairs({ ANY, language }) do
    local counts = counts_of(node, counted) or string.rep('\0', node.children * CHILD_BYTES)
    if #counts ~= node.children * CHILD_BYTES then damaged(node.counts) end
    local numbers = child_of(counts, number)
    numbers[rating] = numbers[rating] + delta
    if numbers[rating] < 0 or numbers[rating] > COUNT_MAX then damaged(node.counts) end
    local before, behind = string.sub(counts, 1, number * CHILD_BYTES), string.sub(counts, (number + 1) * CHILD_BYTES + 1)
    changed[counted] = before .. pack(numbers) .. behind
  end
  return changed
end

local function add_to_closed_size(product, delta)
  product.closed_size = product.closed_size + delta
  if redis.call('HINCRBY', product.totals, '#', delta) == 0 then redis.call('HDEL', product.totals, '#') end
end

-- The counts of a block's nodes after a member is added to it or removed from it. Changes nothing.
local function counts_of_nodes_with(at, language, rating, delta)
  local field = field_at(at, language)
  return {
    [at.group] = counts_with(at.group, at.block_number, field, rating, delta),
    [at.root] = counts_with(at.root, at.group_number, field, rating, delta),
  }
end

-- Stores the counts of a block's nodes after a member was added to it or removed from it.
local function store_counts_of_nodes(product, counts_of_nodes, delta)
  for changed, by_language in pairs(counts_of_nodes) do
    for language, counts in pairs(by_language) do store_counts(changed, language, counts) end
  end
  add_to_closed_size(product, delta)
end

-- Adds elements, which come with their scores, to a sorted set.
local function add_all(key, elements)
  local arguments = {}
  for at = 1, #elements, 2 do arguments[at], arguments[at + 1] = elements[at + 1], elements[at] end
  redis.call('ZADD', key, unpack(arguments))
end

-- Creates a sorted set. A key of this name is not in use.
local function create(key, elements)
  redis.call('UNLINK', key)
  add_all(key, elements)
end

-- Moves the blocks of a group from `number` on into a new group.
local function cut_group(product, root, group_number, number)
  local group = group_at(product, root, group_number)
  local moved = redis.call('ZRANGE', group.bounds, number, -1, 'WITHSCORES')
  local later = node(product, 'group/' .. moved[1], 'counts/' .. moved[1])
  create(later.bounds, moved)
  redis.call('UNLINK', later.counts)
  redis.call('ZREMRANGEBYRANK', group.bounds, number, -1)
  for language, counts in pairs(all_counts(group)) do
    store_counts(later, language, string.sub(counts, number * CHILD_BYTES + 1))
    store_counts(group, language, string.sub(counts, 1, number * CHILD_BYTES))
  end
  redis.call('ZADD', root.bounds, moved[2], moved[1])
  splice(root, group_number, 1, { sums_of(group), sums_of(later) })
end

-- Lists a new block as child `at.block_number` of a group, whose own counts in the root include it.
local function list_block(product, at, bound, time, counts)
  redis.call('ZADD', at.group.bounds, time, bound)
  splice(at.group, at.block_number, 0, { counts })
  local size = redis.call('ZCARD', at.group.bounds)
  if size <= GROUP_MAX then return end
  local is_newest = at.block_number == size - 1 and at.group_number == redis.call('ZCARD', at.root.bounds) - 1
  cut_group(product, at.root, at.group_number, is_newest and GROUP_MAX or GROUP_MAX / 2)
end

-- The bound of a block that begins with an element of another block.
local function bound_of(block, elements, at) return (parts_of(elements[at]) or damaged(block)) .. ',' .. elements[at + 1] end

-- How many of a block's oldest members can leave the others: at most `wanted`. The members of a comment stay together. 0 if
-- all of these are of one comment: then the block becomes larger than others.
local function separable(block, wanted)
  for number = wanted, 1, -1 do
    local neighbours = redis.call('ZRANGE', block, number - 1, number, 'WITHSCORES')
    if bound_of(block, neighbours, 1) ~= bound_of(block, neighbours, 3) then return number end
  end
  return 0
end

local function last_child(node)
  node.children = redis.call('ZCARD', node.bounds)
  whole_counts(node)
  return node.children - 1
end

local function newest_closed(product)
  local at = { root = root_of(product) }
  at.group_number = last_child(at.root)
  at.group = group_at(product, at.root, at.group_number)
  at.block_number = last_child(at.group)
  at.block = block_at(product, at.group, at.block_number)
  return at
end

-- Moves the oldest members of the open block into a closed one.
local function close(product)
  local number = separable(product.open, CLOSED_SIZE)
  if number == 0 then return end
  local moved = redis.call('ZRANGE', product.open, 0, number - 1, 'WITHSCORES')
  local counts = by_field(languages_of(root_of(product)), count_members(moved, 2))
  if product.closed_size > 0 then
    local at, bound = newest_closed(product), bound_of(product.open, moved, 1)
    local sums = sums_with(at.root, at.group_number, counts, 1)
    at.block_number = at.block_number + 1
    create(product.stem .. 'block/' .. bound, moved)
    splice(at.root, at.group_number, 1, { sums })
    list_block(product, at, bound, moved[2], counts)
  else
    create(product.stem .. 'block/' .. FIRST, moved)
    for _, created in ipairs({ root_of(product), node(product, 'group/' .. FIRST, 'counts/' .. FIRST) }) do
      create(created.bounds, { FIRST, '-inf' })
      redis.call('UNLINK', created.counts)
      splice(created, 0, 0, { counts })
    end
  end
  redis.call('ZREMRANGEBYRANK', product.open, 0, number - 1)
  add_to_closed_size(product, number)
  product.open_size = product.open_size - number
  product.oldest_open = nil
end

-- Moves the newer half of a closed block into a new one.
local function cut_block(product, at)
  local half = separable(at.block, math.floor(at.size / 2))
  if half == 0 then return end
  local moved = redis.call('ZRANGE', at.block, half, -1, 'WITHSCORES')
  local languages = languages_of(at.root)
  local counts = by_field(languages, count_members(moved, 2))
  local kept = by_field(languages, count_members(redis.call('ZRANGE', at.block, 0, half - 1), 1))
  local bound = bound_of(at.block, moved, 1)
  create(product.stem .. 'block/' .. bound, moved)
  redis.call('ZREMRANGEBYRANK', at.block, half, -1)
  splice(at.group, at.block_number, 1, { kept })
  at.block_number = at.block_number + 1
  list_block(product, at, bound, moved[2], counts)
end

-- All nodes of a product, if a change takes the last members of closed blocks from this place. Changes nothing.
local function nodes_without_blocks(product, at, leaving)
  if product.closed_size > leaving then return nil end
  local counts, nodes = whole_counts(at.root), { at.root }
  for number = 0, at.root.children - 1 do
    if number ~= at.group_number and sum(child_of(counts, number)) > 0 then damaged(product.totals) end
    nodes[number + 2] = group_at(product, at.root, number)
    last_child(nodes[number + 2])
  end
  return nodes
end

-- Forgets a block that the root counts no more, or all nodes when it was the last one.
local function unlist_block(at, nodes)
  if nodes then
    for _, emptied in ipairs(nodes) do redis.call('UNLINK', emptied.bounds, emptied.counts) end
    return
  end
  local is_first_group = at.group_number == 0
  local others = at.group.children - 1
  if at.block_number == 0 and (is_first_group or others > 0) then return end
  local only_first_left = others == 1 and sum(child_of(counts_of(at.group, ANY), 0)) == 0
  if others == 0 or (only_first_left and not is_first_group) then
    redis.call('UNLINK', at.group.bounds, at.group.counts)
    redis.call('ZREMRANGEBYRANK', at.root.bounds, at.group_number, at.group_number)
    splice(at.root, at.group_number, 1, {})
  else
    redis.call('ZREMRANGEBYRANK', at.group.bounds, at.block_number, at.block_number)
    splice(at.group, at.block_number, 1, {})
  end
end

-- Makes the newest closed block the open one. `leaving` is the open block's last member, if it has one. The open block is
-- never empty meanwhile, and never has more members than a block.
local function reopen(product, leaving)
  local at = newest_closed(product)
  local moved = redis.call('ZRANGE', at.block, 0, -1, 'WITHSCORES')
  local number = #moved / 2
  if number == 0 or number ~= sum(child_of(counts_of(at.group, ANY), at.block_number)) then damaged(at.block) end
  local counts = by_field(languages_of(at.root), count_members(moved, 2))
  local sums = sums_with(at.root, at.group_number, counts, -1)
  local nodes = nodes_without_blocks(product, at, number)
  redis.call('ZADD', product.open, moved[2], moved[1])
  if leaving then redis.call('ZREM', product.open, leaving) end
  add_all(product.open, moved)
  redis.call('UNLINK', at.block)
  splice(at.root, at.group_number, 1, { sums })
  unlist_block(at, nodes)
  add_to_closed_size(product, -number)
  product.open_size = product.open_size + number
  product.oldest_open = nil
end

return {
  all_counts = all_counts, languages_of = languages_of, field_of = field_of, by_field = by_field, splice = splice,
  counts_of_child = counts_of_child, sums_of = sums_of, counts_of_nodes_with = counts_of_nodes_with,
  store_counts_of_nodes = store_counts_of_nodes, newest_closed = newest_closed, close = close, cut_block = cut_block,
  nodes_without_blocks = nodes_without_blocks, unlist_block = unlist_block, reopen = reopen
}
