-- Finds where a comment stands among the other comments of a filter.
-- KEYS: the partition's marker, then the base sets of the filter.
-- ARGV: the comment's member and score, and the highest score that is settled, '' for any.
-- Returns:
-- - the marker's `table`, `watermark` and `vouched`
-- - the number of other comments
-- - the number of them that precede the comment, newest first
-- - the number of them that are settled
local member, score, settled_at = ARGV[1], ARGV[2], ARGV[3] ~= '' and ARGV[3] or '+inf'
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local others, before, settled = 0, 0, 0
for i = 2, #KEYS do
  local key = KEYS[i]
  others = others + redis.call('ZCARD', key)
  settled = settled + redis.call('ZCOUNT', key, '-inf', settled_at)
  before = before + preceding(key, score, member)
  local own = redis.call('ZSCORE', key, member)
  if own then
    others = others - 1
    -- For a moment the comment may be indexed with another score.
    if tonumber(own) > tonumber(score) then before = before - 1 end
    if settled_at == '+inf' or tonumber(own) <= tonumber(settled_at) then settled = settled - 1 end
  end
end
return { marker, others, before, settled }
