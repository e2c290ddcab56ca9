-- Finds where a comment stands under a filter.
-- KEYS: the partition's marker, then the base sets of the filter.
-- ARGV: the comment's member and score.
-- Returns:
-- - the marker's `table`, `watermark` and `vouched`
-- - the total
-- - the number of members that precede the comment, newest first
-- - 1 if the comment is itself a member, otherwise 0
local member, score = ARGV[1], ARGV[2]
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local total, preceding, present = 0, 0, 0
for i = 2, #KEYS do
  local key = KEYS[i]
  total = total + redis.call('ZCARD', key)
  local above = redis.call('ZCOUNT', key, '(' .. score, '+inf')
  local down_to = redis.call('ZCOUNT', key, score, '+inf')
  local low, high = above, down_to -- the first of equal score that does not precede the comment
  while low < high do
    local middle = math.floor((low + high) / 2)
    local rank = string.format('%d', middle)
    if sorts_after(redis.call('ZREVRANGE', key, rank, rank)[1], member) then low = middle + 1 else high = middle end
  end
  preceding = preceding + low
  local own = redis.call('ZSCORE', key, member)
  if own then
    present = 1
    -- For a moment the comment may be indexed with another score. It does not precede itself.
    if tonumber(own) > tonumber(score) then preceding = preceding - 1 end
  end
end
return { marker[1], marker[2], marker[3], total, preceding, present }
