-- Where a comment stands under a filter.
-- KEYS: the partition's marker, then the base sets of the filter.
-- ARGV: the comment's member and score.
-- Returns the marker's table, watermark and vouch, the total, how many members precede the comment, newest first, and
-- whether it is itself a member (1 or 0).
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
    -- Indexed with another score, for a moment: it does not precede itself.
    if tonumber(own) > tonumber(score) then preceding = preceding - 1 end
  end
end
return { marker[1], marker[2], marker[3], total, preceding, present }
