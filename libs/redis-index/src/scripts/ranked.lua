-- Answers a question about the comments of a filter.
-- KEYS:
-- - the partition's marker
-- - the filter's base sets
-- - with counts: five sets, one per rating, in the filter's language (or in any), and five in any language
-- - with counts by language: the product's set of languages, and the filter's base sets in each language that the caller
--   believes the product has
-- ARGV:
-- - newest or oldest
-- - the number of comments before the first one asked for
-- - the maximum number of comments asked for
-- - the highest score that has a rank, '' for any
-- - the highest score that is settled, '' for any
-- - the number of the filter's base sets
-- - the member and the score of the position after which comments are asked for, '' for the beginning
-- Returns:
-- - the marker's `table`, `watermark` and `vouched`
-- - the comments, newest first: each member and its score
-- - the number of comments that have a rank, of those that are settled, and of all
-- - the score of the newest comment; false if scores have a limit, or without comments
-- - the numbers of comments by rating, in the filter's language and in any
-- - the score of the newest comment in the filter's language, or false
-- - the product's languages
-- - the sizes of the sets of the languages
local skip, count, as_of, settled_at = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local last_set = 1 + tonumber(ARGV[6])

-- A set may come several times.
local known_sizes, known_newest = {}, {}
local function size(key)
  known_sizes[key] = known_sizes[key] or redis.call('ZCARD', key)
  return known_sizes[key]
end
local function sizes(first, last)
  local found = {}
  for i = first, last do found[#found + 1] = size(KEYS[i]) end
  return found
end
local function newest(first, last)
  local greatest = false
  for i = first, last do
    local key = KEYS[i]
    if size(key) > 0 then
      known_newest[key] = known_newest[key] or redis.call('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2]
      if not greatest or tonumber(known_newest[key]) > tonumber(greatest) then greatest = known_newest[key] end
    end
  end
  return greatest
end

local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local sets, sizes_of_sets, all = {}, {}, 0
for i = 2, last_set do
  if size(KEYS[i]) > 0 then
    sets[#sets + 1] = KEYS[i]
    sizes_of_sets[#sets] = size(KEYS[i])
    all = all + sizes_of_sets[#sets]
  end
end
local function later_than(score)
  local later = 0
  if score ~= '' then
    for _, key in ipairs(sets) do later = later + redis.call('ZCOUNT', key, '(' .. score, '+inf') end
  end
  return later
end
local later = later_than(as_of)
local unsettled = settled_at == as_of and later or later_than(settled_at)

-- Ranks count from 0, newest first. Those of the query are [first, last).
local first, last = later, all
if ARGV[8] ~= '' then
  local newer, own = 0, 0
  for _, key in ipairs(sets) do
    newer = newer + preceding(key, ARGV[8], ARGV[7])
    if redis.call('ZSCORE', key, ARGV[7]) == ARGV[8] then own = 1 end
  end
  if ARGV[1] == 'newest' then first = math.max(first, newer + own) else last = newer end
end
local comments, number = {}, math.min(count, last - first - skip)
if number > 0 then
  local rank = ARGV[1] == 'newest' and first + skip or last - skip - number
  comments = select_union(sets, sizes_of_sets, rank, number)
end

local by_rating, in_any_language, last_commented_at, languages, by_language = {}, {}, false, {}, {}
if #KEYS > last_set then
  by_rating, in_any_language = sizes(last_set + 1, last_set + 5), sizes(last_set + 6, last_set + 10)
  last_commented_at = newest(last_set + 1, last_set + 5)
end
if #KEYS > last_set + 10 then
  languages, by_language = redis.call('SMEMBERS', KEYS[last_set + 11]), sizes(last_set + 12, #KEYS)
end
return {
  marker, comments, all - later, all - unsettled, all, as_of == '' and newest(2, last_set),
  by_rating, in_any_language, last_commented_at, languages, by_language
}
