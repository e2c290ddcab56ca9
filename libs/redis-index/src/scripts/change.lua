-- Changes of blocks and their counts.
--
-- A member is counted where ZADD or ZREM says that something changed. A script first reads what it needs, then writes.
-- Among its writes, only the creation of a key can fail: while a slot moves, the server that gives it away creates none.
-- So a block is cut by creating the new block first. If that fails, nothing has changed, and the caller tries again.

local function pack(numbers)
  local bytes = {}
  for rating = 1, 5 do
    local number = numbers and numbers[rating] or 0
    bytes[2 * rating - 1], bytes[2 * rating] = math.floor(number / 256), number % 256
  end
  return string.char(unpack(bytes))
end

-- The counts of a node's children, by language.
local function all_counts(node)
  local found, by_language = redis.call('HGETALL', node.counts), {}
  for at = 1, #found, 2 do by_language[found[at]] = found[at + 1] end
  return by_language
end

-- A language without comments has no field.
local function store_counts(node, language, counts)
  if string.find(counts, '[^%z]') or (language == ANY and counts ~= '') then
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
  for language, counts in pairs(all_counts(node)) do child[language] = child_of(counts, number) end
  return child
end

-- Adds numbers by language and rating to a child's.
local function add_counts(node, number, counts, sign)
  local sums = counts_of_child(node, number)
  for language, numbers in pairs(counts) do
    sums[language] = sums[language] or { 0, 0, 0, 0, 0 }
    for rating = 1, 5 do sums[language][rating] = sums[language][rating] + sign * numbers[rating] end
  end
  splice(node, number, 1, { sums })
end

-- What a node's children have together, by language and rating.
local function sums_of(node)
  local sums = {}
  for language, counts in pairs(all_counts(node)) do
    sums[language] = { 0, 0, 0, 0, 0 }
    for number = 0, #counts / CHILD_BYTES - 1 do
      for rating, count in ipairs(child_of(counts, number)) do sums[language][rating] = sums[language][rating] + count end
    end
  end
  return sums
end

-- The numbers of members by language and rating. What is no comment does not count.
local function count_members(members, step)
  local found = {}
  for at = 1, #members, step do
    local _, language, rating = parts_of(members[at])
    for _, counted in ipairs(rating and { ANY, language } or {}) do
      found[counted] = found[counted] or { 0, 0, 0, 0, 0 }
      found[counted][tonumber(rating)] = found[counted][tonumber(rating)] + 1
    end
  end
  return found
end

local function add_to_child(node, number, language, rating, delta)
  for _, counted in ipairs({ ANY, language }) do
    local counts = counts_of(node, counted) or string.rep('\0', size_of(node) * CHILD_BYTES)
    local numbers = child_of(counts, number)
    numbers[rating] = numbers[rating] + delta
    local before, behind = string.sub(counts, 1, number * CHILD_BYTES), string.sub(counts, (number + 1) * CHILD_BYTES + 1)
    store_counts(node, counted, before .. pack(numbers) .. behind)
  end
end

local function add_to_totals(product, field, delta)
  if redis.call('HINCRBY', product.totals, field, delta) == 0 then redis.call('HDEL', product.totals, field) end
end

-- Counts a member that was added to a block or removed from it.
local function count(product, at, member, delta)
  local _, language, rating = parts_of(member)
  if at.group then
    add_to_child(at.group, at.block_number, language, tonumber(rating), delta)
    add_to_child(at.root, at.group_number, language, tonumber(rating), delta)
    add_to_totals(product, '#', delta)
    product.closed_size = product.closed_size + delta
  else
    product.open_size = product.open_size + delta
  end
  product.size = product.size + delta
  add_to_totals(product, language .. '/' .. rating, delta)
  add_to_totals(product, ANY .. '/' .. rating, delta)
end

-- Creates a sorted set of elements, which come with their scores. A key of this name is not in use.
local function create(key, elements)
  redis.call('UNLINK', key)
  local arguments = {}
  for at = 1, #elements, 2 do arguments[at], arguments[at + 1] = elements[at + 1], elements[at] end
  redis.call('ZADD', key, unpack(arguments))
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

local function bound_of(elements) return parts_of(elements[1]) .. ',' .. elements[2] end

-- Moves the oldest members of the open block into a closed one.
local function close(product)
  local moved = redis.call('ZRANGE', product.open, 0, CLOSED_SIZE - 1, 'WITHSCORES')
  local bound, time, counts = bound_of(moved), moved[2], count_members(moved, 2)
  local root = root_of(product)
  local at, groups = { root = root }, product.closed_size > 0 and redis.call('ZCARD', root.bounds) or 0
  if groups > 0 then
    at.group_number = groups - 1
    at.group = group_at(product, root, at.group_number)
    at.block_number = size_of(at.group)
  end
  if at.group then
    create(product.stem .. 'block/' .. bound, moved)
    add_counts(root, at.group_number, counts, 1)
    list_block(product, at, bound, time, counts)
  else
    create(product.stem .. 'block/' .. FIRST, moved)
    for _, created in ipairs({ root, node(product, 'group/' .. FIRST, 'counts/' .. FIRST) }) do
      create(created.bounds, { FIRST, '-inf' })
      redis.call('UNLINK', created.counts)
      splice(created, 0, 0, { counts })
    end
  end
  redis.call('ZREMRANGEBYRANK', product.open, 0, CLOSED_SIZE - 1)
  redis.call('HINCRBY', product.totals, '#', CLOSED_SIZE)
  product.closed_size, product.open_size = product.closed_size + CLOSED_SIZE, product.open_size - CLOSED_SIZE
  product.oldest_open = nil
end

-- Moves the newer half of a closed block into a new one.
local function cut_block(product, at)
  local half = math.floor(redis.call('ZCARD', at.block) / 2)
  local moved = redis.call('ZRANGE', at.block, half, -1, 'WITHSCORES')
  local counts, kept = count_members(moved, 2), count_members(redis.call('ZRANGE', at.block, 0, half - 1), 1)
  create(product.stem .. 'block/' .. bound_of(moved), moved)
  redis.call('ZREMRANGEBYRANK', at.block, half, -1)
  splice(at.group, at.block_number, 1, { kept })
  at.block_number = at.block_number + 1
  list_block(product, at, bound_of(moved), moved[2], counts)
end

-- Forgets a block that the root counts no more, and a group without blocks.
local function unlist_block(product, at)
  if product.closed_size == 0 then
    for _, emptied in ipairs({ at.root, at.group, node(product, 'group/' .. FIRST, 'counts/' .. FIRST) }) do
      redis.call('UNLINK', emptied.bounds)
      redis.call('UNLINK', emptied.counts)
    end
    return
  end
  if at.group_number == 0 and at.block_number == 0 then return end
  redis.call('ZREMRANGEBYRANK', at.group.bounds, at.block_number, at.block_number)
  splice(at.group, at.block_number, 1, {})
  if redis.call('EXISTS', at.group.bounds) == 1 then return end
  redis.call('ZREMRANGEBYRANK', at.root.bounds, at.group_number, at.group_number)
  splice(at.root, at.group_number, 1, {})
end

-- Makes the newest closed block the open one, which has a single member.
local function reopen(product)
  local at = { root = root_of(product) }
  at.group_number = size_of(at.root) - 1
  at.group = group_at(product, at.root, at.group_number)
  at.block_number = size_of(at.group) - 1
  at.block = block_at(product, at.group, at.block_number)
  local moved = redis.call('ZRANGE', at.block, 0, -1, 'WITHSCORES')
  if #moved == 0 then damaged(at.block) end
  for from = 1, #moved, 2 do redis.call('ZADD', product.open, moved[from + 1], moved[from]) end
  redis.call('UNLINK', at.block)
  add_to_totals(product, '#', -#moved / 2)
  product.closed_size, product.open_size = product.closed_size - #moved / 2, product.open_size + #moved / 2
  product.oldest_open = nil
  add_counts(at.root, at.group_number, count_members(moved, 2), -1)
  unlist_block(product, at)
end

-- A full block is cut before, because a server never makes it compact again after one more member.
local function add(product, time, id, member)
  local place = place_of(time, id)
  local at = locate(product, place)
  if (at.group and redis.call('ZCARD', at.block) or product.open_size) >= BLOCK_MAX then
    if at.group then cut_block(product, at) else close(product) end
    at = locate(product, place)
  end
  if redis.call('ZADD', at.block, time, member) == 1 then count(product, at, member, 1) end
end

local function remove(product, at, member)
  if not at.group and product.open_size == 1 and product.closed_size > 0 then reopen(product) end
  if redis.call('ZREM', at.block, member) == 0 then return end
  product.oldest_open = nil
  count(product, at, member, -1)
  if at.group and redis.call('EXISTS', at.block) == 0 then unlist_block(product, at) end
end
