-- Reads the languages of products.
-- KEYS: the partition's marker, then the products' sets of languages.
-- Returns the marker's `table`, `watermark` and `vouched`, and the members of each set.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local languages = {}
for i = 2, #KEYS do languages[i - 1] = redis.call('SMEMBERS', KEYS[i]) end
return { marker[1], marker[2], marker[3], languages }
