-- Finds the elements of some consecutive ranks, newest first, in a union of disjoint sorted sets, without building the
-- union.
--
-- Order: score descending, then member descending by bytes. ZREVRANGE uses the same order.
--
-- The search for the first of them keeps a window [from[i], to[i]) of ranks in every set. Elements before a window precede
-- the wanted element; elements behind a window follow it. `rest` elements of all windows together precede the wanted one.
-- A cut is a score. Counting the elements above it in every set gives its rank in the union, and moves one side of
-- every window. The secant through the last two cuts aims the next one: on evenly spread data each cut leaves about the
-- square root of the previous count. When two cuts in a row leave more than half of the windows, the next cuts halve
-- the largest window instead. Small windows end the search: what follows their beginnings is merged.
--
-- So the logarithm of the sets' sizes bounds the number of commands. Let k > 1 sets have at most n elements each, and N
-- together. A search then takes at most this number of commands:
--   (12 + max(4.4, 2.5k) ln(N/24)) max(1 + 2k, 1 + (k - 1) (floor(log2 n) + 1))
-- The merge of a page takes at most 2k more. tests/reading/selection/cost.rs derives and asserts both.
local MERGE_MAX = 24 -- windows this small together end a search

local function integer(number)
  return string.format('%d', number) -- tostring gives 1e+15 for great numbers
end

-- Elements of one set, newest first: members and scores in turn.
local function range(key, rank, count)
  return redis.call('ZREVRANGE', key, integer(rank), integer(rank + count - 1), 'WITHSCORES')
end

local function member_at(key, rank)
  local found = range(key, rank, 1)
  return found[1], found[2]
end

-- Merges what follows `from` in every set. Returns `count` elements after the first `rest` ones, members and scores in
-- turn. From each set it fetches some more elements than its share, and once more if these are too few.
local function merge(keys, sizes, from, rest, count)
  local needed, left = rest + count, 0
  local heads, at, scores = {}, {}, {}
  local function fetch(i, number)
    heads[i], at[i] = {}, 1
    if number > 0 and from[i] < sizes[i] then heads[i] = range(keys[i], from[i], number) end
    from[i] = from[i] + number
    scores[i] = tonumber(heads[i][2])
  end
  for i = 1, #keys do left = left + sizes[i] - from[i] end
  for i = 1, #keys do
    local share = needed * (sizes[i] - from[i]) / left
    fetch(i, math.min(needed, math.ceil(share + math.sqrt(share) + 1)))
  end
  local page = {}
  for taken = 1, needed do
    local first, greatest
    for i = 1, #keys do
      local score = scores[i]
      if score and (not first or score > greatest
        or (score == greatest and sorts_after(heads[i][at[i]], heads[first][at[first]]))) then
        first, greatest = i, score
      end
    end
    local head, place = heads[first], at[first]
    if taken > rest then page[#page + 1], page[#page + 2] = head[place], head[place + 1] end
    at[first] = place + 2
    if head[place + 2] then scores[first] = tonumber(head[place + 3]) else fetch(first, needed - taken) end
  end
  return page
end

-- How many elements of set i's window precede `member`. All elements of the window have its score.
local function members_before(key, from, to, member)
  while from < to do
    local middle = math.floor((from + to) / 2)
    if sorts_after(member_at(key, middle), member) then from = middle + 1 else to = middle end
  end
  return from
end

-- Drops elements that cannot be the wanted one from every window: those deeper than `rest`, and those with more
-- elements behind them than can follow. Returns what is left: rest, the sum of the windows, and the largest window.
local function trim(keys, from, to, rest)
  local sum = 0
  for i = 1, #keys do
    if to[i] - from[i] > rest + 1 then to[i] = from[i] + rest + 1 end
    sum = sum + to[i] - from[i]
  end
  local behind = sum - rest
  local left, largest = 0, 1
  for i = 1, #keys do
    local surplus = to[i] - from[i] - behind
    if surplus > 0 then
      from[i] = from[i] + surplus
      rest = rest - surplus
    end
    left = left + to[i] - from[i]
    if to[i] - from[i] > to[largest] - from[largest] then largest = i end
  end
  return rest, left, largest
end

local function clamp(number, low, high)
  if number < low then return low elseif number > high then return high else return number end
end

-- All windows hold a single score, so cut by member.
local function search_members(keys, from, to, rest)
  local aim_middle = false
  local before
  while true do
    local left, largest
    rest, left, largest = trim(keys, from, to, rest)
    if left <= MERGE_MAX then return from, rest end
    if before then aim_middle = left * 2 > before end
    before = left
    local width = to[largest] - from[largest]
    local aim = from[largest] + math.floor(width / 2)
    if not aim_middle then aim = from[largest] + math.floor((rest + 0.5) * width / left) end
    aim = clamp(aim, from[largest], to[largest] - 1)
    local member = member_at(keys[largest], aim)
    local cut, preceding = {}, 0
    for i, key in ipairs(keys) do
      cut[i] = i == largest and aim or members_before(key, from[i], to[i], member)
      preceding = preceding + cut[i] - from[i]
    end
    if rest < preceding then
      to = cut
    else
      from, rest = cut, rest - preceding
      if rest > 0 then from[largest], rest = aim + 1, rest - 1 end
    end
  end
end

-- Narrows the windows around the element of rank `rank` until they are small. Returns where they begin, and how many of
-- their elements precede the wanted one.
local function search(keys, sizes, rank)
  local from, to, rest = {}, {}, rank
  local near, near_rank, far, far_rank = {}, 0, {}, 0 -- the last two cuts, untrimmed
  for i = 1, #keys do
    from[i], to[i] = 0, sizes[i]
    near[i], far[i] = 0, sizes[i]
    far_rank = far_rank + sizes[i]
  end
  local before, poor = nil, 0
  while true do
    local left, largest
    rest, left, largest = trim(keys, from, to, rest)
    if left <= MERGE_MAX then return from, rest end
    if before then poor = left * 2 > before and poor + 1 or 0 end
    before = left
    local aim = math.floor((from[largest] + to[largest]) / 2)
    if poor < 2 and far_rank ~= near_rank then
      -- The densest set between the last two cuts says most about the wanted element's position.
      for i = 1, #keys do
        if to[i] > from[i] and math.abs(far[i] - near[i]) > math.abs(far[largest] - near[largest]) then largest = i end
      end
      aim = math.floor(near[largest] + (rank + 0.5 - near_rank) * (far[largest] - near[largest]) / (far_rank - near_rank))
    end
    aim = clamp(aim, from[largest], to[largest] - 1)
    local _, score = member_at(keys[largest], aim)
    local above, above_rank, preceding = {}, 0, 0
    for i, key in ipairs(keys) do
      above[i] = from[i]
      if to[i] > from[i] then above[i] = redis.call('ZCOUNT', key, '(' .. score, '+inf') end
      above_rank = above_rank + above[i]
    end
    far, far_rank, near, near_rank = near, near_rank, {}, above_rank
    for i = 1, #keys do
      near[i] = above[i]
      above[i] = clamp(above[i], from[i], to[i])
      preceding = preceding + above[i] - from[i]
    end
    if rest < preceding then
      to = above
    elseif preceding > 0 and above[largest] == aim then
      from, rest = above, rest - preceding
    else
      -- The wanted element has this score or a lower one: step over the score, or stay within it.
      local down_to, with_score = {}, 0
      for i, key in ipairs(keys) do
        down_to[i] = above[i]
        if to[i] > above[i] then down_to[i] = clamp(redis.call('ZCOUNT', key, score, '+inf'), above[i], to[i]) end
        with_score = with_score + down_to[i] - above[i]
      end
      rest = rest - preceding
      if rest < with_score then return search_members(keys, above, down_to, rest) end
      from, rest = down_to, rest - with_score
    end
  end
end

-- The `count` elements from rank `rank` on (from 0) in the union of the sets, members and scores in turn. `sizes` are the
-- sets' sizes. The ranks must exist.
local function select_union(keys, sizes, rank, count)
  if #keys == 1 then return range(keys[1], rank, count) end
  local from, rest = search(keys, sizes, rank)
  return merge(keys, sizes, from, rest, count)
end
