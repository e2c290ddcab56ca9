-- Removes keys of a partition, unless another rebuild has begun since: they may be that one's.
-- KEYS: the partition's rebuild token, then keys of the partition.  ARGV: the token of the rebuild that asks.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
-- UNLINK frees the memory in the background; DEL of a large set would block the server.
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 1
