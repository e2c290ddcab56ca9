-- Leaves a token in a partition's marker, and sets the time of the confirmation, if the token is still as it was read.
-- KEYS: the partition's marker, its rebuild token.
-- ARGV:
-- - the marker's `table`
-- - the token as it was read, '' for none
-- - the new token
-- - the time; '' keeps the old one, 0 takes it away
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local marker = redis.call('HMGET', KEYS[1], 'table', 'token')
if marker[1] ~= ARGV[1] then return 0 end
local token = marker[2] or ''
-- After a repeated call, because the answer was lost, the marker already has the new token.
if token ~= ARGV[2] and token ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[3])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'vouched', ARGV[4]) end
return 1
