-- Marks a partition ready in two steps, if the calling rebuild is still the one that fills the partition.
-- KEYS: the partition's marker, its rebuild token.
-- ARGV: the token, the marker's new `table` and `watermark`, a nonce, and the step. Step 0 leaves the nonce, step 1
-- requires it.
-- A server that lost its last writes since the first step either lost the nonce, or still has all writes before it.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'nonce')
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  -- A repeated call, because the answer was lost: the partition is already marked.
  if marker[1] == ARGV[2] and marker[2] == ARGV[3] then return 1 end
  return 0
end
if ARGV[5] == '0' then
  redis.call('HSET', KEYS[1], 'nonce', ARGV[4])
  return 1
end
if marker[3] ~= ARGV[4] then return 0 end
-- The rebuild's watermark is also the time of the confirmation, and its token is the token of the confirmation.
redis.call('HSET', KEYS[1], 'table', ARGV[2], 'watermark', ARGV[3], 'vouched', ARGV[3], 'token', ARGV[1])
redis.call('UNLINK', KEYS[2])
return 1
