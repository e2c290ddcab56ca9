-- Adds a comment to base sets, removes it from others, and maintains the sets of names: the partition's products and
-- the product's languages. Running it again changes nothing.
-- KEYS:
-- - the partition's products, the product's languages
-- - the base sets to add to, the base sets to remove from
-- - for each name that may have no member left, its five sets
-- ARGV:
-- - the member and its score
-- - the number of sets to add to, and of those to remove from
-- - the product
-- - the comment's language, '' when it is added to no set
-- - those names: '~' for the product, otherwise the language
local member, score, product, language = ARGV[1], ARGV[2], ARGV[5], ARGV[6]
local added = 2 + tonumber(ARGV[3])
local removed = added + tonumber(ARGV[4])
for i = 3, added do redis.call('ZADD', KEYS[i], score, member) end
if added > 2 then
  redis.call('SADD', KEYS[1], product)
  redis.call('SADD', KEYS[2], language)
end
for i = added + 1, removed do redis.call('ZREM', KEYS[i], member) end
for i = 7, #ARGV do
  local first = removed + 1 + 5 * (i - 7)
  if redis.call('EXISTS', unpack(KEYS, first, first + 4)) == 0 then
    if ARGV[i] == '~' then redis.call('SREM', KEYS[1], product) else redis.call('SREM', KEYS[2], ARGV[i]) end
  end
end
return 1
