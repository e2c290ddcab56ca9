-- A product's comments in counted blocks. Every script about a product begins with the sizes (scripts.rs) and this file.
--
-- The newest comments are in the open block, all others in closed blocks. A block is a sorted set of members
-- `<id>,<language>,<rating>` by creation time. If the id is no ULID of that time, the member holds it in milliseconds:
-- `<id>,<time>,<language>,<rating>`. So a member says everything about its comment.
--
-- A group lists blocks, and the root lists groups. Both are nodes: a sorted set of bounds `<id>,<time>` by time, and a
-- hash with the children's numbers of comments. A bound is the place of the first comment that a child had. A child
-- holds what is between its bound and the next one. A group's first block has the group's own bound. So this block stays
-- when it is empty, while the group has others. The first group's bound is before all comments, and this group stays
-- while there are others. A bound never moves.
--
-- A node counts for any language and for each. Only the first LANGUAGES_MAX languages of a product have counts of their
-- own: those that the root has a field of. The others share one field, so that no number of languages makes a change
-- slow. Their comments are told apart by the members of blocks. A field of the root stays as long as the root.
--
-- `totals` says how many comments there are of each language and rating, and how many of them are in closed blocks (`#`).
-- It implies which other keys exist. So a script declares that key only, and finds the others. While a slot moves, some of
-- a product's keys may be on another server. The server that gives the slot away refuses access to such a key. The one
-- that gets the slot shows no key. So a script reads every key that it will change before its first write, and ends if
-- the key is not as the others imply.
local CHILD_BYTES = 10 -- a child's counts: two bytes for each rating
local ANY = '~' -- any language
local OTHERS = '?' -- the languages without counts of their own
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
  for rating = 1, 5 do found[rating] = tonumber(found[rating] or 0) or damaged(product.totals) end
  return found
end

-- A product as its totals describe it.
local function describe(totals)
  local stem = string.sub(totals, 1, -#'totals' - 1)
  local product = { totals = totals, stem = stem, open = stem .. 'open' }
  local fields = redis.call('HMGET', totals, '~/1', '~/2', '~/3', '~/4', '~/5', '#')
  for at = 1, 6 do fields[at] = tonumber(fields[at] or 0) or 0 end
  product.closed_size = table.remove(fields)
  product.by_rating = fields
  product.size = sum(fields)
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

local function root_of(product)
  local root = node(product, 'groups', 'counts')
  root.is_root = true
  return root
end

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

-- The children that have comments of languages without counts of their own.
local function children_with_others(node)
  local counts, found = counts_of(node, OTHERS) or '', {}
  for number = 0, #counts / CHILD_BYTES - 1 do
    if sum(child_of(counts, number)) > 0 then found[#found + 1] = number end
  end
  return found
end

local function size_of(node) return #counts_of(node, ANY) / CHILD_BYTES end

-- Which of a node's children holds a place. Children and elements count from 0, from the oldest.
local function child_at(node, place)
  node.children = redis.call('ZCARD', node.bounds)
  return math.max(0, node.children - 1 - preceding(node.bounds, place))
end

-- The counts of a node whose children are known. Both of its keys are then here, and fit each other.
local function whole_counts(node)
  local counts = counts_of(node, ANY)
  if #counts ~= node.children * CHILD_BYTES then damaged(node.counts) end
  return counts
end

-- Whether a place is not before the first comment of the open block.
local function is_in_open(product, place)
  if product.closed_size == 0 then return true end
  if not product.oldest_open then
    local oldest = redis.call('ZRANGE', product.open, '0', '0', 'WITHSCORES')
    product.oldest_open = tonumber(oldest[2] or damaged(product.open))
  end
  local time = tonumber(place.time)
  if time ~= product.oldest_open then return time > product.oldest_open end
  return preceding(product.open, place) < product.open_size
end

-- Where a place is among the closed blocks: in a block of a group.
local function find_closed(product, place)
  local at = { root = root_of(product) }
  at.group_number = child_at(at.root, place)
  at.group = group_at(product, at.root, at.group_number)
  at.block_number = child_at(at.group, place)
  at.block = block_at(product, at.group, at.block_number)
  return at
end

-- Where a place is: in a block and, unless that is the open one, in a group. The counts are those of the block.
local function locate(product, place)
  if is_in_open(product, place) then return { block = product.open, size = product.open_size } end
  local at = find_closed(product, place)
  whole_counts(at.root)
  at.size = sum(child_of(whole_counts(at.group), at.block_number))
  if redis.call('ZCARD', at.block) ~= at.size then damaged(at.block) end
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

local function pack(numbers)
  local bytes = {}
  for rating = 1, 5 do
    local number = numbers and numbers[rating] or 0
    bytes[2 * rating - 1], bytes[2 * rating] = math.floor(number / 256), number % 256
  end
  return string.char(unpack(bytes))
end

-- Adds numbers by rating to those of a language.
local function add_numbers(sums, language, numbers)
  sums[language] = sums[language] or { 0, 0, 0, 0, 0 }
  for rating = 1, 5 do sums[language][rating] = sums[language][rating] + numbers[rating] end
end

local function count_one(sums, language, rating)
  sums[language] = sums[language] or { 0, 0, 0, 0, 0 }
  sums[language][rating] = sums[language][rating] + 1
end

-- The numbers of members by language and rating. Only comments count.
local function count_members(members, step)
  local sums = {}
  for at = 1, #members, step do
    local _, language, rating = parts_of(members[at])
    if rating then
      count_one(sums, ANY, tonumber(rating))
      count_one(sums, language, tonumber(rating))
    end
  end
  return sums
end
