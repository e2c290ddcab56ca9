-- Finds where a comment stands among the other comments of a filter.
-- KEYS: the partition's marker, the product's totals.
-- ARGV: the filter's language and ratings, the comment's id and score, where `home` says it may be as well, and the highest
-- score that is settled, '' for any.
-- Returns:
-- - the marker's `table`, `watermark` and `vouched`
-- - the number of other comments
-- - the number of them that precede the comment, newest first
-- - the number of them that are settled
local id, score, home, settled_at = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local product = read_product(KEYS[2])
local filter = filter_of(product, ARGV[1], ARGV[2])
local others, settled = filter.size, filter.size
local before = count_preceding(product, filter, place_of(score, id))
if settled_at ~= '' then settled = settled - count_preceding(product, filter, { time = settled_at, text = LAST }) end
for _, own in ipairs(entries_of(product, id, home)) do
  if matches(filter, own.member) then
    others = others - 1
    -- For a moment the comment may be indexed with another score.
    if tonumber(own.time) > tonumber(score) then before = before - 1 end
    if settled_at == '' or tonumber(own.time) <= tonumber(settled_at) then settled = settled - 1 end
  end
end
return { marker, others, before, settled }
