-- Finds a comment of a product.
-- KEYS: the product's totals. ARGV: the comment's id, and the times that it may have.
-- Returns its members.
local product, found = read_product(KEYS[1]), {}
for at = 2, #ARGV do
  for _, member in ipairs((entries_of(product, ARGV[1], ARGV[at]))) do found[#found + 1] = member end
end
return found
