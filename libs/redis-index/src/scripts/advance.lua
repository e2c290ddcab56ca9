-- Advances a partition's watermark in two steps, unless another caller touched the marker since it was read.
-- KEYS: the partition's marker, its rebuild token.
-- ARGV: the marker's table and watermark as read, the caller's nonce, and the new watermark. The new watermark is '' in
-- the first step, which stores the nonce; the second step requires that nonce.
-- A server that lost its last writes since the first step either lost the nonce, or still has all writes before it.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'nonce')
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if marker[1] ~= ARGV[1] then return 0 end
if ARGV[4] == '' then
  if marker[2] ~= ARGV[2] then return 0 end
  redis.call('HSET', KEYS[1], 'nonce', ARGV[3])
  return 1
end
if marker[3] ~= ARGV[3] then return 0 end
-- A repeated call, because the answer was lost: the watermark is already set.
if marker[2] == ARGV[4] then return 1 end
if marker[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'watermark', ARGV[4])
return 1
