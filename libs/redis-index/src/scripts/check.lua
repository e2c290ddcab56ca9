-- Compares the counts of a part of a product with what it counts, and may repair them.
-- KEYS: the product's totals.
-- ARGV:
-- - '1' to repair
-- - the part: a key's name behind the product. The totals and the open block are one part, the keys of a node another
-- - members of a block that are no comments of their score.
--
-- Returns right, wrong, or stray for a part that no other key names.
--
-- A repair begins with the root. Then come each group, its blocks and the group again, and at the end the open block with
-- the totals. So each part is right before it is counted.
local is_repaired, part, bound = ARGV[1] == '1', string.match(ARGV[2], '^([^/]*)/?(.*)$')
local product = describe(KEYS[1])
-- Whether languages without counts of their own are compared one by one, which takes their blocks, or together.
local is_exact = is_repaired or part == 'totals'
local root = root_of(product)
local languages = closed.languages_of(root)

local function are_equal(a, b)
  for language in pairs(a) do
    if pack(a[language]) ~= pack(b[language]) then return false end
  end
  for language in pairs(b) do
    if not a[language] and pack(b[language]) ~= pack(nil) then return false end
  end
  return true
end

-- Whether all children of a node have counts in every language, and only the languages that the root says.
local function is_whole(node)
  local width, has_any = redis.call('ZCARD', node.bounds) * CHILD_BYTES, false
  for language, counts in pairs(closed.all_counts(node)) do
    if #counts ~= width or closed.field_of(languages, language) ~= language then return false end
    has_any = has_any or language == ANY
  end
  return has_any or width == 0
end

-- Counts what a node has without its own counts: `counted` counts a child, which has a bound.
local function recount(node, counted)
  redis.call('UNLINK', node.counts)
  local children = {}
  for _, child in ipairs(redis.call('ZRANGE', node.bounds, 0, -1)) do children[#children + 1] = counted(child) end
  closed.splice(node, 0, 0, children)
end

local function sums_in(group)
  return closed.by_field(languages, closed.sums_of(node(product, 'group/' .. group, 'counts/' .. group)))
end

local function counts_in(block)
  return closed.by_field(languages, count_members(redis.call('ZRANGE', product.stem .. 'block/' .. block, 0, -1), 1))
end

local function exists(...) return redis.call('EXISTS', ...) > 0 end

local function time_of(bound) return string.match(bound, ',(.+)$') end

-- Whether a node's first child is what it must be. A repair lists it.
local function check_first(node, first)
  if redis.call('ZRANGE', node.bounds, 0, 0)[1] == first then return true end
  if is_repaired then redis.call('ZADD', node.bounds, time_of(first), first) end
  return false
end

-- Whether all keys of all groups are there.
local function are_groups_there()
  for _, group in ipairs(redis.call('ZRANGE', root.bounds, 0, -1)) do
    if redis.call('EXISTS', product.stem .. 'group/' .. group, product.stem .. 'counts/' .. group) < 2 then return false end
  end
  return true
end

local function check_root()
  if product.closed_size == 0 and not exists(root.bounds, root.counts) then return true end
  local is_right = check_first(root, FIRST)
  is_right = is_whole(root) and are_groups_there() and is_right
  if not is_right and is_repaired then
    languages = { own = {}, number = 0 }
    recount(root, sums_in)
  end
  return is_right
end

-- How many of a group's blocks there are, and whether these are all: only the first may be empty.
local function present_blocks(group, has_counts)
  local blocks, present, is_right = redis.call('ZRANGE', group.bounds, 0, -1), 0, true
  for number, block in ipairs(blocks) do
    if exists(product.stem .. 'block/' .. block) then
      present = present + 1
    elseif number > 1 then
      is_right = false
      if is_repaired then redis.call('ZREM', group.bounds, block) end
    elseif has_counts and sum(closed.counts_of_child(group, 0)[ANY] or {}) > 0 then
      is_right = false
    end
  end
  return present, is_right
end

local function check_group()
  local number = redis.call('ZRANK', root.bounds, bound)
  local group = node(product, 'group/' .. bound, 'counts/' .. bound)
  if not number then return not exists(group.bounds, group.counts), true end
  if not is_whole(root) then return false end
  local is_right = is_whole(group)
  is_right = check_first(group, bound) and is_right
  local present, are_present = present_blocks(group, is_right)
  is_right = is_right and are_present
  if not is_right and is_repaired then recount(group, counts_in) end
  local is_left = present > 0 or number == 0
  local sums = closed.sums_of(group)
  is_right = is_right and is_left and are_equal(sums, closed.counts_of_child(root, number))
  if not is_right and is_repaired then
    if not is_left then
      redis.call('UNLINK', group.bounds, group.counts)
      redis.call('ZREM', root.bounds, bound)
    end
    closed.splice(root, number, 1, is_left and { sums } or {})
  end
  return is_right
end

-- Whether a member is where its time and id lead. What is in a closed block is not in the open one.
local function is_placed(block, member, time)
  if block ~= product.open then return find_closed(product, place_of(time, (parts_of(member)))).block == block end
  if not exists(root.bounds) then return true end
  local newest = redis.call('ZREVRANGE', closed.newest_closed(product).block, 0, 0, 'WITHSCORES')
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
  local block = product.stem .. 'block/' .. bound
  if not exists(root.bounds) then return not exists(block), true end
  local at = { group_number = child_at(root, place_of(time_of(bound), string.match(bound, '^[^,]*'))) }
  at.group = group_at(product, root, at.group_number)
  at.block_number = redis.call('ZRANK', at.group.bounds, bound)
  if not at.block_number then return not exists(block), true end
  if not is_whole(at.group) then return false end
  local is_right = check_members(block)
  local counts = counts_in(bound)
  if are_equal(counts, closed.counts_of_child(at.group, at.block_number)) then return is_right end
  if is_repaired then closed.splice(at.group, at.block_number, 1, { counts }) end
  return false
end

-- The numbers of closed comments by language and rating, from the blocks for languages without counts of their own.
local function closed_by_language()
  local sums = closed.sums_of(root)
  sums[OTHERS] = nil
  for _, group_number in ipairs(children_with_others(root)) do
    local group = group_at(product, root, group_number)
    for _, number in ipairs(children_with_others(group)) do
      local members = redis.call('ZRANGE', block_at(product, group, number), 0, -1)
      for language, numbers in pairs(count_members(members, 1)) do
        if closed.field_of(languages, language) == OTHERS then add_numbers(sums, language, numbers) end
      end
    end
  end
  return sums
end

-- What the totals should be, by the fields that are compared.
local function expected_totals()
  local sums = is_exact and closed_by_language() or closed.sums_of(root)
  local closed_size = sum(sums[ANY] or {})
  local expected = { ['#'] = closed_size > 0 and closed_size or nil }
  local of_open = count_members(redis.call('ZRANGE', product.open, 0, -1), 1)
  for language, numbers in pairs(is_exact and of_open or closed.by_field(languages, of_open)) do
    add_numbers(sums, language, numbers)
  end
  for language, numbers in pairs(sums) do
    for rating, number in ipairs(numbers) do
      if number > 0 then expected[language .. '/' .. rating] = number end
    end
  end
  return expected
end

-- The field with which a field of the totals is compared.
local function compared_field(field)
  local language, rating = string.match(field, '^([^/]+)/([1-5])$')
  if is_exact or not language then return field end
  return closed.field_of(languages, language) .. '/' .. rating
end

local function check_totals()
  local is_right, expected, found = true, expected_totals(), {}
  local totals = redis.call('HGETALL', product.totals)
  for at = 1, #totals, 2 do
    local field, number = compared_field(totals[at]), tonumber(totals[at + 1]) or 0
    if number == 0 then is_right = false end
    found[field] = (found[field] or 0) + number
    expected[field] = expected[field] or 0
  end
  for field, number in pairs(expected) do
    if number ~= (found[field] or 0) or (number == 0 and found[field]) then
      is_right = false
      if is_repaired and number > 0 then redis.call('HSET', product.totals, field, number) end
      if is_repaired and number == 0 then redis.call('HDEL', product.totals, field) end
    end
  end
  return is_right
end

-- Removes the nodes of a product without closed comments.
local function remove_nodes()
  for _, group in ipairs(redis.call('ZRANGE', root.bounds, 0, -1)) do
    redis.call('UNLINK', product.stem .. 'group/' .. group, product.stem .. 'counts/' .. group)
  end
  redis.call('UNLINK', root.bounds, root.counts)
end

-- The open block, the totals, and whether both fit the root.
local function check_open()
  local is_right = check_members(product.open)
  is_right = check_root() and is_right
  is_right = check_totals() and is_right
  local of_any = redis.call('HGET', root.counts, ANY) or ''
  local is_closed_empty = not string.find(of_any, '[^%z]')
  if is_closed_empty and exists(root.bounds, root.counts) then
    is_right = false
    if is_repaired then remove_nodes() end
  elseif not is_closed_empty and not exists(product.open) then
    is_right = false
    if is_repaired then closed.reopen(describe(KEYS[1])) end
  end
  return is_right
end

local function check()
  if part == 'block' then return check_block() end
  if part == 'group' or (part == 'counts' and bound ~= '') then return check_group() end
  if ARGV[2] == 'groups' or ARGV[2] == 'counts' then return check_root() end
  if ARGV[2] == 'open' or ARGV[2] == 'totals' then return check_open() end
  return false, true
end

local has_ended, is_right, is_unlisted = pcall(check)
if not has_ended then
  -- Some servers give the text of an error, others a table.
  local failure = type(is_right) == 'table' and is_right.err or is_right
  if string.find(failure, '^DAMAGED') then return 'wrong' end
  error({ err = failure })
end
return is_right and 'right' or is_unlisted and 'stray' or 'wrong'
