-- Finds comments of a product.
-- KEYS: the product's totals. ARGV: for each comment its id, and the time that the id holds, '' for none.
-- Returns for each comment its members and their scores in turn.
local product, found = read_product(KEYS[1]), {}
for at = 1, #ARGV, 2 do
  local entries = {}
  for _, entry in ipairs(entries_of(product, ARGV[at], ARGV[at + 1])) do
    entries[#entries + 1] = entry.member
    entries[#entries + 1] = entry.time
  end
  found[#found + 1] = entries
end
return found
