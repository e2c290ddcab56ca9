-- Counts the comments in base sets.
-- KEYS: the partition's marker, then the base sets.
-- Returns the marker's `table`, `watermark` and `vouched`, and the totals.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local totals = {}
for i = 2, #KEYS do totals[i - 1] = redis.call('ZCARD', KEYS[i]) end
return { marker[1], marker[2], marker[3], totals }
