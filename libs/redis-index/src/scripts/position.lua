-- Finds where a comment stands among the other comments of a filter.
-- KEYS: the partition's marker, the product's totals.
-- ARGV: the filter's language and ratings, the comment's id and score, and the highest score that is settled, '' for any.
-- Returns:
-- - the marker's `table`, `watermark` and `vouched`
-- - the number of other comments
-- - the number of them that precede the comment, newest first
-- - the number of them that are settled
local id, score, settled_at = ARGV[3], ARGV[4], ARGV[5]
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local product = read_product(KEYS[2])
local filter = filter_of(product, ARGV[1], ARGV[2])
local others, settled = filter.size, filter.size
local before = count_preceding(product, filter, place_of(score, id))
if settled_at ~= '' then settled = settled - count_preceding(product, filter, { time = settled_at, text = LAST }) end
for _, own in ipairs((entries_of(product, id, score))) do
  if matches(filter, own) then
    others = others - 1
    if settled_at == '' or tonumber(score) <= tonumber(settled_at) then settled = settled - 1 end
  end
end
return { marker, others, before, settled }
