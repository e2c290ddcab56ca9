-- Where a page starts.
-- KEYS: the partition's marker, then the base sets of the filter.
-- ARGV: how many comments stand before the page; newest or oldest; the score that `as_of` allows at most, or ''.
-- Returns the marker's table and watermark, the total, and, unless the page starts at the beginning or lies past
-- the end, the member and score just before its first comment.
local marker = redis.call('HMGET', KEYS[1], 'table', 'watermark')
local sets, sizes, all, newer = {}, {}, 0, 0
for i = 2, #KEYS do
  local size = redis.call('ZCARD', KEYS[i])
  if size > 0 then
    sets[#sets + 1] = KEYS[i]
    sizes[#sizes + 1] = size
    all = all + size
    if ARGV[3] ~= '' then newer = newer + redis.call('ZCOUNT', KEYS[i], '(' .. ARGV[3], '+inf') end
  end
end
local skip, total = tonumber(ARGV[1]), all - newer
local rank = -1 -- of the element before the page, newest first; -1 when there is none
if skip < total then
  if ARGV[2] == 'newest' then rank = newer + skip - 1
  elseif skip > 0 then rank = all - skip end
end
if rank < 0 then return { marker[1], marker[2], total, false, false } end
local member, score = select_union(sets, sizes, rank)
return { marker[1], marker[2], total, member, score }
