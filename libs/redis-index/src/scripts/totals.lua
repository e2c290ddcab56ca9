-- Counts the comments of products.
-- KEYS: the partition's marker, then five base sets for each product: one for each rating.
-- Returns the marker's `table`, `watermark` and `vouched`, then two lists. The first has the totals of the five ratings of
-- each product. The second has the score of its newest comment, or false.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local totals, newest = {}, {}
for i = 2, #KEYS, 5 do
  local by_rating, last = {}, false
  for rating = 1, 5 do
    local key = KEYS[i + rating - 1]
    by_rating[rating] = redis.call('ZCARD', key)
    local score = redis.call('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2]
    if score and (not last or tonumber(score) > tonumber(last)) then last = score end
  end
  totals[#totals + 1] = by_rating
  newest[#newest + 1] = last
end
return { marker[1], marker[2], marker[3], { totals, newest } }
