-- Leaves a token in a partition's marker, and says when the partition was vouched for, if the token is as it was read.
-- KEYS: the partition's marker, its rebuild token.
-- ARGV: the marker's table, its token as read ('' for none), the new token, and the time of the vouch ('' keeps the old
-- one, 0 takes the vouch away).
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local marker = redis.call('HMGET', KEYS[1], 'table', 'token')
if marker[1] ~= ARGV[1] then return 0 end
local token = marker[2] or ''
-- The new one is there when the answer was lost and this is asked again.
if token ~= ARGV[2] and token ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[3])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'vouched', ARGV[4]) end
return 1
