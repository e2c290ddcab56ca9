-- Compares the counts of a part of a product with what it counts, and may repair them.
-- KEYS: the product's totals.
-- ARGV:
-- - '1' to repair
-- - the part: a key's name behind the product. The totals include the open block and the root
-- - members of a block that are no comments of their score
-- Returns right, wrong, or stray for a part that no other key names.
local is_repaired, part, bound = ARGV[1] == '1', string.match(ARGV[2], '^([^/]*)/?(.*)$')
local product = describe(KEYS[1])
local root = root_of(product)

local function are_equal(a, b)
  for language in pairs(a) do
    if pack(a[language]) ~= pack(b[language]) then return false end
  end
  for language in pairs(b) do
    if not a[language] and pack(b[language]) ~= pack(nil) then return false end
  end
  return true
end

-- Whether all children of a node have counts, in every language.
local function is_whole(node)
  local width, has_any = redis.call('ZCARD', node.bounds) * CHILD_BYTES, false
  for language, counts in pairs(all_counts(node)) do
    if #counts ~= width then return false end
    has_any = has_any or language == ANY
  end
  return has_any or width == 0
end

-- Counts what a node has without its own counts: `counted` counts a child, which has a bound.
local function recount(node, counted)
  redis.call('UNLINK', node.counts)
  local children = {}
  for _, child in ipairs(redis.call('ZRANGE', node.bounds, 0, -1)) do children[#children + 1] = counted(child) end
  splice(node, 0, 0, children)
end

local function sums_in(group) return sums_of(node(product, 'group/' .. group, 'counts/' .. group)) end

local function counts_in(block) return count_members(redis.call('ZRANGE', product.stem .. 'block/' .. block, 0, -1), 1) end

local function check_totals()
  local is_right = is_whole(root)
  if not is_right and is_repaired then recount(root, sums_in) end
  local expected, closed = {}, sums_of(root)
  for _, counts in ipairs({ closed, count_members(redis.call('ZRANGE', product.open, 0, -1), 1) }) do
    for language, numbers in pairs(counts) do
      for rating, number in ipairs(numbers) do
        local field = language .. '/' .. rating
        expected[field] = (expected[field] or 0) + number
      end
    end
  end
  expected['#'] = sum(closed[ANY] or {})
  local found = redis.call('HGETALL', product.totals)
  for at = 1, #found, 2 do
    local field, number = found[at], expected[found[at]] or 0
    if tonumber(found[at + 1]) ~= number or number == 0 then
      is_right = false
      if is_repaired then redis.call('HDEL', product.totals, field) end
    else
      expected[field] = nil
    end
  end
  for field, number in pairs(expected) do
    if number > 0 then
      is_right = false
      if is_repaired then redis.call('HSET', product.totals, field, number) end
    end
  end
  if redis.call('EXISTS', product.open) == 0 and sum(closed[ANY] or {}) > 0 then
    is_right = false
    product = describe(KEYS[1])
    if is_repaired then reopen(product) end
  end
  return is_right
end

local function check_group()
  local number = redis.call('ZRANK', root.bounds, bound)
  local group = node(product, 'group/' .. bound, 'counts/' .. bound)
  if not number then return redis.call('EXISTS', group.bounds, group.counts) == 0, true end
  if not is_whole(root) then return false end
  local blocks, is_right = redis.call('ZRANGE', group.bounds, 0, -1), is_whole(group)
  for _, block in ipairs(blocks) do
    if block ~= FIRST and redis.call('EXISTS', product.stem .. 'block/' .. block) == 0 then
      is_right = false
      if is_repaired then redis.call('ZREM', group.bounds, block) end
    end
  end
  if not is_right and is_repaired then recount(group, counts_in) end
  local sums = sums_of(group)
  if not are_equal(sums, counts_of_child(root, number)) then is_right = false end
  if not is_right and is_repaired then
    local left = { sums }
    if redis.call('EXISTS', group.bounds) == 0 then
      redis.call('ZREM', root.bounds, bound)
      left = {}
    end
    splice(root, number, 1, left)
  end
  return is_right
end

-- Whether a member is where its time and id lead. What is in a closed block is not in the open one.
local function is_placed(block, member, time)
  if block ~= product.open then return find(product, place_of(time, (parts_of(member)))).block == block end
  if product.closed_size == 0 then return true end
  local group = group_at(product, root, redis.call('ZCARD', root.bounds) - 1)
  local newest = redis.call('ZREVRANGE', block_at(product, group, redis.call('ZCARD', group.bounds) - 1), 0, 0, 'WITHSCORES')
  if #newest == 0 or tonumber(newest[2]) < tonumber(time) then return true end
  return newest[2] == time and sorts_after(member, newest[1])
end

-- Whether a block's members are comments in their place. Removes those that are not. Members have an order, so if the first
-- and the last one are in place, all are.
local function check_members(block)
  local no_comments, is_right, are_placed = {}, true, true
  for at = 3, #ARGV do no_comments[ARGV[at]] = true end
  local members = redis.call('ZRANGE', block, 0, -1, 'WITHSCORES')
  for _, at in ipairs(#members > 0 and { 1, #members - 1 } or {}) do
    are_placed = are_placed and parts_of(members[at]) and is_placed(block, members[at], members[at + 1])
  end
  for at = 1, #members, 2 do
    local member = members[at]
    local is_here = are_placed or parts_of(member) and is_placed(block, member, members[at + 1])
    if no_comments[member] or not is_here then
      is_right = false
      if is_repaired then redis.call('ZREM', block, member) end
    end
  end
  return is_right
end

local function check_block()
  local block, time = product.stem .. 'block/' .. bound, string.match(bound, ',(.+)$')
  local is_right = check_members(block)
  local at = { root = root, group_number = child_at(root, place_of(time, string.match(bound, '^[^,]*'))) }
  at.group = group_at(product, root, at.group_number)
  at.block_number = redis.call('ZRANK', at.group.bounds, bound)
  if not at.block_number then return redis.call('EXISTS', block) == 0, true end
  if not is_whole(at.group) then return false end
  local counts = counts_in(bound)
  if are_equal(counts, counts_of_child(at.group, at.block_number)) then return is_right end
  if is_repaired then splice(at.group, at.block_number, 1, { counts }) end
  return false
end

local is_right, is_unlisted = true, false
if part == 'block' then
  is_right, is_unlisted = check_block()
elseif part == 'group' or (part == 'counts' and bound ~= '') then
  is_right, is_unlisted = check_group()
elseif ARGV[2] == 'open' or ARGV[2] == 'totals' then
  is_right = check_totals()
  if is_repaired then product = describe(KEYS[1]) end
  is_right = check_members(product.open) and is_right
elseif ARGV[2] ~= 'groups' and ARGV[2] ~= 'counts' then
  is_right, is_unlisted = false, true
end
return is_right and 'right' or is_unlisted and 'stray' or 'wrong'
