-- Marks a partition ready, if the rebuild that asks for it is still the one that has been filling it.
-- KEYS: the partition's marker, its rebuild token.  ARGV: the token, the table's id, the watermark.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark')
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  -- Asked again by the one that has just marked it, because the answer was lost: that is done.
  if marker[1] == ARGV[2] and marker[2] == ARGV[3] then return 1 end
  return 0
end
redis.call('HSET', KEYS[1], 'table', ARGV[2], 'watermark', ARGV[3])
redis.call('UNLINK', KEYS[2])
return 1
