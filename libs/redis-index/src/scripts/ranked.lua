-- Answers a question about the comments of a filter.
-- KEYS: the partition's marker, the product's totals.
-- ARGV:
-- - the filter's language and ratings
-- - newest or oldest
-- - the number of comments before the first one asked for
-- - the maximum number of comments asked for
-- - the highest score that has a rank, '' for any
-- - the highest score that is settled, '' for any
-- - the id and the score of the position after which comments are asked for, '' for the beginning
-- - what else is counted: '', 'ratings' or 'languages'
-- Returns:
-- - the marker's `table`, `watermark` and `vouched`
-- - the members of the comments, newest first
-- - the number of comments that have a rank, of those that are settled, and of all
-- - the member of the newest comment; nothing if scores have a limit, or without comments
-- - the numbers of comments by rating, in the filter's language and in any
-- - the member of the newest comment in the filter's language
-- - the fields and values of the product's totals
local order, skip, count, as_of, settled_at = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local after_id, after_score, wanted = ARGV[8], ARGV[9], ARGV[10]
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local product = read_product(KEYS[2])
local filter = filter_of(product, ARGV[1], ARGV[2])

local function later_than(score)
  if score == '' then return 0 end
  return (count_preceding(product, filter, { time = score, text = LAST }))
end
local later = later_than(as_of)
local unsettled = settled_at == as_of and later or later_than(settled_at)

-- Ranks count from 0, newest first. Those of the query are [first, last).
local first, last = later, filter.size
if after_id ~= '' then
  local newer, block = count_preceding(product, filter, place_of(after_score, after_id))
  if order == 'oldest' then
    last = newer
  else
    first = math.max(first, newer + count_of_comment(filter, block, after_score, after_id))
  end
end
local comments, number = {}, math.min(count, last - first - skip)
if number > 0 then
  local rank = order == 'newest' and first + skip or last - skip - number
  comments = select(product, filter, rank, number)
  if rank == 0 then filter.newest = { comments[1] } end
end

local of_language, last_comment, totals = {}, {}, {}
if wanted ~= '' then
  of_language = filter.matches_all and filter or filter_of(product, filter.language, '12345')
  last_comment = newest(product, of_language)
end
if wanted == 'languages' then totals = redis.call('HGETALL', product.totals) end
return {
  marker, comments, filter.size - later, filter.size - unsettled, filter.size, as_of == '' and newest(product, filter) or {},
  of_language.by_rating or {}, product.by_rating, last_comment, totals
}
