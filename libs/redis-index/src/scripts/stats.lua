-- Counts the comments of a product.
-- KEYS:
-- - the partition's marker
-- - the product's set of languages
-- - five sets, one per rating, in the requested language (or in any)
-- - five sets, one per rating, in any language
-- - sets of the languages that the caller believes the product has, the same number for each
-- Returns:
-- - the marker's `table`, `watermark` and `vouched`
-- - the product's languages
-- - the five totals of the requested language
-- - the five totals of any language
-- - the score of the requested language's newest comment, or false
-- - the totals of the languages' sets
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local function totals(from, to)
  local totals = {}
  for i = from, to do totals[i - from + 1] = redis.call('ZCARD', KEYS[i]) end
  return totals
end
local by_rating = totals(3, 7)
-- When any language is requested, the same sets come twice.
local in_any_language = KEYS[3] == KEYS[8] and by_rating or totals(8, 12)
local last = false
for i = 3, 7 do
  local score = redis.call('ZREVRANGE', KEYS[i], '0', '0', 'WITHSCORES')[2]
  if score and (not last or tonumber(score) > tonumber(last)) then last = score end
end
local languages = redis.call('SMEMBERS', KEYS[2])
return { marker[1], marker[2], marker[3], languages, by_rating, in_any_language, last, totals(13, #KEYS) }
