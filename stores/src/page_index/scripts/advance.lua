-- Moves a partition's watermark on, in two steps, if nobody but the caller has touched the marker since it was read.
-- KEYS: the partition's marker, its rebuild token.
-- ARGV: the marker's table and watermark as read, the caller's nonce, and the new watermark ('' in the first step, which
-- leaves the nonce; the second wants to find it).
-- A server that has lost its last writes since the first step lost the nonce, or had all that came before it.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'nonce')
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if marker[1] ~= ARGV[1] then return 0 end
if ARGV[4] == '' then
  if marker[2] ~= ARGV[2] then return 0 end
  redis.call('HSET', KEYS[1], 'nonce', ARGV[3])
  return 1
end
if marker[3] ~= ARGV[3] then return 0 end
-- Asked again, because the answer was lost: that is done.
if marker[2] == ARGV[4] then return 1 end
if marker[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'watermark', ARGV[4])
return 1
