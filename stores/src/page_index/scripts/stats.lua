-- How many comments a product has.
-- KEYS: the partition's marker, the product's set of languages, the five sets of a rating of the language asked for (or
-- of any), the five sets of a rating of any language, the set that tells the last comment, then sets of the languages
-- that the caller believes the product has, as many of each.
-- Returns the marker's table, watermark and vouch, the product's languages, five totals, five totals, the score of the last
-- comment or false, and the totals of the languages' sets.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local function totals(from, to)
  local totals = {}
  for i = from, to do totals[i - from + 1] = redis.call('ZCARD', KEYS[i]) end
  return totals
end
local by_rating = totals(3, 7)
-- Asked for any language, the same sets come twice.
local in_any_language = KEYS[3] == KEYS[8] and by_rating or totals(8, 12)
local last = redis.call('ZREVRANGE', KEYS[13], '0', '0', 'WITHSCORES')[2]
local languages = redis.call('SMEMBERS', KEYS[2])
return { marker[1], marker[2], marker[3], languages, by_rating, in_any_language, last or false, totals(14, #KEYS) }
