-- Reads the names of some products of a partition.
-- KEYS: the partition's marker, its set of products. ARGV: the cursor of the scan, the number of products to read.
-- Returns the marker's `table`, `watermark` and `vouched`, the next cursor ('0' at the end), and products, perhaps none.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local step = redis.call('SSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
return { marker, step[1], step[2] }
