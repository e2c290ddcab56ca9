-- Adds comments of a product and removes others. Running it again changes nothing.
-- KEYS: the partition's products, the product's totals.
-- ARGV: the product, then for each comment
-- - its id, its time and its member; the last two are '' if it is only removed
-- - the number of times at which it may have other members, and these times
local product = read_product(KEYS[2])

-- Removes the members of a comment at a time but the one that is wanted. Each removal may move the others.
local function remove_others(id, time, wanted)
  repeat
    local entries, at = entries_of(product, id, time)
    local other
    for _, member in ipairs(entries) do
      if member ~= wanted then other = member end
    end
    if other then remove(product, at, other) end
  until not other
end

local at, has_added = 2, false
while at <= #ARGV do
  local id, time, member, others = unpack(ARGV, at, at + 3)
  at = at + 4
  for number = at, at + others - 1 do remove_others(id, ARGV[number], member) end
  at = at + others
  if member ~= '' then
    add(product, time, id, member)
    has_added = true
  end
end
if has_added then redis.call('SADD', KEYS[1], ARGV[1]) end
if product.size == 0 then redis.call('SREM', KEYS[1], ARGV[1]) end
return 1
