-- Whether member a sorts after member b by bytes. Lua's own < follows the server's locale.
local function sorts_after(a, b)
  if a == b then return false end
  for at = 1, math.min(#a, #b) do
    local x, y = string.byte(a, at), string.byte(b, at)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- How many elements of a set precede a member with this score, newest first. The member need not be in the set.
local function preceding(key, score, member)
  local low = redis.call('ZCOUNT', key, '(' .. score, '+inf')
  local high = redis.call('ZCOUNT', key, score, '+inf')
  while low < high do
    local middle = math.floor((low + high) / 2)
    local rank = string.format('%d', middle)
    if sorts_after(redis.call('ZREVRANGE', key, rank, rank)[1], member) then low = middle + 1 else high = middle end
  end
  return low
end
