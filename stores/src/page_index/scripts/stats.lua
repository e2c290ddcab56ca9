-- How many comments a product has.
-- KEYS: the partition's marker, the product's set of languages, the five sets of a rating (any language, or the one
-- asked for), the set that tells the last comment, then the sets of the languages named in ARGV.
-- ARGV: the languages that the caller believes the product has.
-- Returns the marker's table and watermark, the product's languages, five totals, the score of the last comment or
-- false, and the languages' totals.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark')
local by_rating, by_language = {}, {}
for i = 3, 7 do by_rating[i - 2] = redis.call('ZCARD', KEYS[i]) end
local last = redis.call('ZREVRANGE', KEYS[8], '0', '0', 'WITHSCORES')[2]
for i = 9, #KEYS do by_language[i - 8] = redis.call('ZCARD', KEYS[i]) end
return { marker[1], marker[2], redis.call('SMEMBERS', KEYS[2]), by_rating, last or false, by_language }
