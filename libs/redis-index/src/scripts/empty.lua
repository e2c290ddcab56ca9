-- Removes keys of a partition, unless another rebuild has begun since: the keys may belong to that rebuild.
-- KEYS: the partition's rebuild token, then keys of the partition.  ARGV: the token of the calling rebuild.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
-- UNLINK frees the memory in the background; DEL of a large set would block the server.
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 1
