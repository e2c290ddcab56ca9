-- Marks a partition ready in two steps, if the rebuild that asks for it is still the one that has been filling it.
-- KEYS: the partition's marker, its rebuild token.
-- ARGV: the token, the table's id, the watermark, a nonce, and 0 in the first step, which leaves the nonce, 1 in the
-- second, which wants to find it.
-- A server that has lost its last writes since the first step lost the nonce, or had all that came before it.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'nonce')
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  -- Asked again by the one that has just marked it, because the answer was lost: that is done.
  if marker[1] == ARGV[2] and marker[2] == ARGV[3] then return 1 end
  return 0
end
if ARGV[5] == '0' then
  redis.call('HSET', KEYS[1], 'nonce', ARGV[4])
  return 1
end
if marker[3] ~= ARGV[4] then return 0 end
-- The rebuild vouches for the partition as of its watermark; its token is that of the vouch.
redis.call('HSET', KEYS[1], 'table', ARGV[2], 'watermark', ARGV[3], 'vouched', ARGV[3], 'token', ARGV[1])
redis.call('UNLINK', KEYS[2])
return 1
