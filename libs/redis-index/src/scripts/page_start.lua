-- Finds the start of a page.
-- KEYS: the partition's marker, then the base sets of the filter.
-- ARGV:
-- - the number of comments before the page
-- - newest or oldest
-- - the highest score that `as_of` allows, or ''
-- - 1 for the comment just before the page, 0 for the page's first comment
-- Returns:
-- - the marker's `table`, `watermark` and `vouched`
-- - the total
-- - the member and score of that comment, or false twice when the page lies past the end or nothing precedes it
-- - the score of the newest comment, or false with `as_of` and without comments
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local sets, sizes, all, newer, newest = {}, {}, 0, 0, false
for i = 2, #KEYS do
  local size = redis.call('ZCARD', KEYS[i])
  if size > 0 then
    sets[#sets + 1] = KEYS[i]
    sizes[#sizes + 1] = size
    all = all + size
    if ARGV[3] ~= '' then
      newer = newer + redis.call('ZCOUNT', KEYS[i], '(' .. ARGV[3], '+inf')
    else
      local score = redis.call('ZREVRANGE', KEYS[i], '0', '0', 'WITHSCORES')[2]
      if not newest or tonumber(score) > tonumber(newest) then newest = score end
    end
  end
end
local skip, total, back = tonumber(ARGV[1]), all - newer, tonumber(ARGV[4])
local rank = -1 -- of the comment asked for, newest first
if skip < total then
  if ARGV[2] == 'newest' then rank = newer + skip - back
  else rank = all - 1 - skip + back end
end
if rank < 0 or rank >= all then return { marker[1], marker[2], marker[3], total, false, false, newest } end
local member, score = select_union(sets, sizes, rank)
return { marker[1], marker[2], marker[3], total, member, score, newest }
