-- Counts the comments of products.
-- KEYS: the partition's marker, then six base sets for each product: one for each rating, and the one of all comments.
-- Returns the marker's `table`, `watermark` and `vouched`, then two lists. The first has the totals of the five ratings of
-- each product. The second has the score of its newest comment, or false.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark', 'vouched')
local totals, newest = {}, {}
for i = 2, #KEYS, 6 do
  local by_rating = {}
  for rating = 1, 5 do by_rating[rating] = redis.call('ZCARD', KEYS[i + rating - 1]) end
  totals[#totals + 1] = by_rating
  newest[#newest + 1] = redis.call('ZREVRANGE', KEYS[i + 5], '0', '0', 'WITHSCORES')[2] or false
end
return { marker[1], marker[2], marker[3], { totals, newest } }
