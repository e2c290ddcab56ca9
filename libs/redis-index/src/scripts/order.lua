-- Whether member a sorts after member b by bytes. Lua's own < follows the server's locale.
local function sorts_after(a, b)
  if a == b then return false end
  for at = 1, math.min(#a, #b) do
    local x, y = string.byte(a, at), string.byte(b, at)
    if x ~= y then return x > y end
  end
  return #a > #b
end
