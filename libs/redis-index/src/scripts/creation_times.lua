-- Reads the creation times of comments by their ranks.
-- KEYS: the partition's marker, then base sets.
-- ARGV: pairs. The first is the number of a base set, from 1. The second is a rank: 0 for the newest comment, 1 for the
-- next; or -1 for the oldest, -2 for the next.
-- Returns the marker's `table`, `watermark` and `vouched`, and for each pair the score, or false without such a comment.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local scores = {}
for i = 1, #ARGV, 2 do
  local found = redis.call('ZREVRANGE', KEYS[1 + tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 1], 'WITHSCORES')
  scores[#scores + 1] = found[2] or false
end
return { marker[1], marker[2], marker[3], scores }
