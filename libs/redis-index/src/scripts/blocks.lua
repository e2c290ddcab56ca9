-- A product's comments in counted blocks. Every script about a product begins with this file.
--
-- The newest comments are in the open block, all others in closed blocks. A block is a sorted set of members
-- `<id>,<language>,<rating>` by creation time. If the id is no ULID of that time, the member holds it in milliseconds:
-- `<id>,<time>,<language>,<rating>`. So a member says everything about its comment. A group lists blocks, and the root lists groups. Both are nodes: a sorted
-- set of bounds `<id>,<time>` by time, and a hash with the children's numbers of comments. A bound is the place of the
-- first comment that a child had. A child holds what is between its bound and the next one. The first child's bound is
-- before all others; this child stays when it is empty. `totals` says how many comments there are of each language and
-- rating, and how many of them are in closed blocks (`#`).
--
-- `totals` implies which other keys exist. So a script declares that key only, and finds the others. While a slot moves,
-- some of a product's keys may be on another server. The server that gives the slot away refuses access to such a key.
-- The one that gets the slot shows no key: what is not as `totals` implies ends the script, before its first write.
local BLOCK_MAX = 128 -- members of a block: every server's default settings store as many compactly
local CLOSED_SIZE = 112 -- members that leave the open block together
local GROUP_MAX = 128 -- blocks of a group
local CHILD_BYTES = 10 -- a child's counts: two bytes for each rating
local ANY = '~' -- any language
local LAST = '~' -- sorts after every member
local FIRST = ',-inf' -- the bound of the first block and of the first group

local function damaged(key)
  error({ err = 'DAMAGED ' .. key .. ' is not as the keys of its product imply' })
end

-- Whether text a sorts after text b by bytes. Lua's own < follows the server's locale.
local function sorts_after(a, b)
  if a == b then return false end
  for at = 1, math.min(#a, #b) do
    local x, y = string.byte(a, at), string.byte(b, at)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- A place in the order of comments. It sorts after the comment's own member and bound, before the next ones.
local function place_of(time, id) return { time = time, text = id .. ',' .. LAST } end

-- How many elements of a sorted set precede a place, newest first.
local function preceding(key, place)
  local low = redis.call('ZCOUNT', key, '(' .. place.time, '+inf')
  if place.text == LAST then return low end
  local high = redis.call('ZCOUNT', key, place.time, '+inf')
  while low < high do
    local middle = math.floor((low + high) / 2)
    if sorts_after(redis.call('ZREVRANGE', key, middle, middle)[1], place.text) then low = middle + 1 else high = middle end
  end
  return low
end

local function sum(numbers)
  local total = 0
  for _, number in ipairs(numbers) do total = total + number end
  return total
end

-- The numbers of comments by rating, of a language or any.
local function totals_of(product, language)
  local fields = {}
  for rating = 1, 5 do fields[rating] = language .. '/' .. rating end
  local found = redis.call('HMGET', product.totals, unpack(fields))
  for rating = 1, 5 do found[rating] = tonumber(found[rating] or 0) end
  return found
end

-- A product as its totals describe it.
local function describe(totals)
  local stem = string.sub(totals, 1, -#'totals' - 1)
  local product = { totals = totals, stem = stem, open = stem .. 'open' }
  local fields = redis.call('HMGET', totals, '~/1', '~/2', '~/3', '~/4', '~/5', '#')
  for at = 1, 6 do fields[at] = tonumber(fields[at] or 0) end
  product.by_rating = { unpack(fields, 1, 5) }
  product.size = sum(product.by_rating)
  product.closed_size = fields[6]
  product.open_size = product.size - product.closed_size
  return product
end

local function read_product(totals)
  local product = describe(totals)
  if redis.call('ZCARD', product.open) ~= product.open_size then damaged(product.open) end
  return product
end

local function node(product, bounds, counts)
  return { bounds = product.stem .. bounds, counts = product.stem .. counts }
end

local function root_of(product) return node(product, 'groups', 'counts') end

-- The bound of a node's child. It comes together with the one before, which is often needed next.
local function bound_at(node, number)
  node.names = node.names or {}
  if not node.names[number] then
    local first = math.max(0, number - 1)
    for at, bound in ipairs(redis.call('ZRANGE', node.bounds, first, number)) do node.names[first + at - 1] = bound end
  end
  return node.names[number] or damaged(node.bounds)
end

local function group_at(product, root, number)
  local bound = bound_at(root, number)
  return node(product, 'group/' .. bound, 'counts/' .. bound)
end

local function block_at(product, group, number) return product.stem .. 'block/' .. bound_at(group, number) end

-- The counts of a node's children, of a language or any: false without such comments.
local function counts_of(node, language)
  local counts = redis.call('HGET', node.counts, language)
  if not counts and language == ANY then damaged(node.counts) end
  return counts
end

-- The numbers of a child's comments by rating.
local function child_of(counts, number)
  local bytes, numbers = { string.byte(counts, number * CHILD_BYTES + 1, (number + 1) * CHILD_BYTES) }, {}
  for rating = 1, 5 do numbers[rating] = bytes[2 * rating - 1] * 256 + bytes[2 * rating] end
  return numbers
end

local function size_of(node) return #counts_of(node, ANY) / CHILD_BYTES end

-- Which of a node's children holds a place. Children and elements count from 0, from the oldest.
local function child_at(node, place)
  return math.max(0, redis.call('ZCARD', node.bounds) - 1 - preceding(node.bounds, place))
end

-- Whether a place is not before the first comment of the open block.
local function is_in_open(product, place)
  if product.closed_size == 0 then return true end
  product.oldest_open = product.oldest_open or tonumber(redis.call('ZRANGE', product.open, 0, 0, 'WITHSCORES')[2])
  local time = tonumber(place.time)
  if time ~= product.oldest_open then return time > product.oldest_open end
  return preceding(product.open, place) < product.open_size
end

-- Where a place is: in a block and, unless that is the open one, in a group.
local function find(product, place)
  if is_in_open(product, place) then return { block = product.open } end
  local at = { root = root_of(product) }
  at.group_number = child_at(at.root, place)
  at.group = group_at(product, at.root, at.group_number)
  at.block_number = child_at(at.group, place)
  at.block = block_at(product, at.group, at.block_number)
  return at
end

-- The same for a caller that relies on the block's counts.
local function locate(product, place)
  local at = find(product, place)
  if at.group and redis.call('ZCARD', at.block) ~= sum(child_of(counts_of(at.group, ANY), at.block_number)) then
    damaged(at.block)
  end
  return at
end

-- The id, the language and the rating of a member.
local function parts_of(member) return string.match(member, '^([^,]+),[-%d,]-([^,]+),([1-5])$') end

-- The members that a comment has at a time, and where they are.
local function entries_of(product, id, time)
  if product.size == 0 then return {} end
  local at, found = locate(product, place_of(time, id)), {}
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', at.block, time, time)) do
    if string.sub(member, 1, #id + 1) == id .. ',' then found[#found + 1] = member end
  end
  return found, at
end
