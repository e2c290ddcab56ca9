-- Counts the comments of a filter up to some instants.
-- KEYS: the partition's marker, then the base sets of the filter.
-- ARGV: the highest score of each count.
-- Returns:
-- - the marker's `table`, `watermark` and `vouched`
-- - the counts
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local counts = {}
for n = 1, #ARGV do
  counts[n] = 0
  for i = 2, #KEYS do counts[n] = counts[n] + redis.call('ZCOUNT', KEYS[i], '-inf', ARGV[n]) end
end
return { marker[1], marker[2], marker[3], counts }
