-- Reads the creation times of comments by their ranks.
-- KEYS: the partition's marker, then base sets.
-- ARGV: pairs of the number of a base set, from 1, and a rank in it: from 0 for the newest comment, or from -1 for the
-- oldest.
-- Returns the marker's `table`, `watermark` and `vouched`, and for each pair the score, or false without such a comment.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local scores = {}
for i = 1, #ARGV, 2 do
  local found = redis.call('ZREVRANGE', KEYS[1 + tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 1], 'WITHSCORES')
  scores[#scores + 1] = found[2] or false
end
return { marker[1], marker[2], marker[3], scores }
