-- Adds a comment to base sets, removes it from others, and maintains the sets of names: the partition's products and
-- the product's languages. Running it again changes nothing.
-- KEYS: the partition's products, the product's languages, the base sets to add to, the base sets to remove from.
-- ARGV:
-- - the member and its score
-- - the number of sets to add to
-- - the product
-- - the comment's language, '' when it is added to no set
-- - for each set to remove from: '~' for the product's whole set, the language for a language's whole set, otherwise ''
local member, score, sets_in, product, language = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
for i = 3, 2 + sets_in do redis.call('ZADD', KEYS[i], score, member) end
if sets_in > 0 then
  redis.call('SADD', KEYS[1], product)
  redis.call('SADD', KEYS[2], language)
end
for i = 3 + sets_in, #KEYS do
  redis.call('ZREM', KEYS[i], member)
  local whole_of = ARGV[3 + i - sets_in]
  if whole_of ~= '' and redis.call('EXISTS', KEYS[i]) == 0 then
    if whole_of == '~' then redis.call('SREM', KEYS[1], product) else redis.call('SREM', KEYS[2], whole_of) end
  end
end
return 1
