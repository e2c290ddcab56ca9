-- Adds comments of a product and removes others. Running it again changes nothing.
-- KEYS: the partition's products, the product's totals.
-- ARGV: the product, then for each comment
-- - its id, and the time that the id holds, '' for none
-- - its time, language and rating, '' if it is only removed
-- - '1' if it may have other members
local product = read_product(KEYS[2])

-- Removes the members of a comment but the one that is wanted. Each removal may move the others.
local function remove_others(id, home, time, wanted)
  repeat
    local other
    for _, entry in ipairs(entries_of(product, id, home)) do
      if entry.time ~= time or entry.member ~= wanted then other = entry end
    end
    if other then remove(product, other) end
  until not other
end

local has_added = false
for at = 2, #ARGV, 6 do
  local id, home, time, language, rating = unpack(ARGV, at, at + 4)
  local is_away = time ~= home
  if ARGV[at + 5] == '1' or product.has_times then remove_others(id, home, time, id .. ',' .. language .. ',' .. rating) end
  if time ~= '' then
    add(product, time, id, language, rating)
    has_added = true
  end
  if time ~= '' and is_away then
    redis.call('HSET', product.times, id, time)
    if not product.has_times then
      redis.call('HSET', product.totals, '@', '1')
      product.has_times = '1'
    end
  elseif product.has_times then
    redis.call('HDEL', product.times, id)
  end
end
if has_added then redis.call('SADD', KEYS[1], ARGV[1]) end
if product.size == 0 then
  redis.call('SREM', KEYS[1], ARGV[1])
  if product.has_times then redis.call('UNLINK', product.times) end
  redis.call('HDEL', product.totals, '@')
end
return 1
