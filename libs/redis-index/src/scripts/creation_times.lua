-- Reads the creation times of comments by their ranks.
-- KEYS: the partition's marker, then five base sets for each listing.
-- ARGV: pairs. The first is the number of a listing, from 1. The second is a rank: 0 for the newest comment, 1 for the
-- next; or -1 for the oldest, -2 for the next.
-- Returns the marker's `table`, `watermark` and `vouched`, and for each pair the score, or false without such a comment.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local scores = {}
for i = 1, #ARGV, 2 do
  local sets, sizes, all = {}, {}, 0
  local first = 5 * tonumber(ARGV[i]) - 3
  for at = first, first + 4 do
    local size = redis.call('ZCARD', KEYS[at])
    if size > 0 then
      sets[#sets + 1] = KEYS[at]
      sizes[#sizes + 1] = size
      all = all + size
    end
  end
  local rank, score = tonumber(ARGV[i + 1]), false
  if rank < 0 then rank = all + rank end
  if rank >= 0 and rank < all then score = select(2, select_union(sets, sizes, rank)) end
  scores[#scores + 1] = score
end
return { marker[1], marker[2], marker[3], scores }
