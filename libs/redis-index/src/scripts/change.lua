-- Changes of blocks and their counts.
--
-- A change first reads all keys that it changes, and computes their counts. Then it writes. A member is counted where ZADD
-- says that it was added, or where it was found to be removed.
--
-- While a slot moves, the server that gives it away creates no key, and takes an empty key for a moved one. So an edit
-- creates a key before it changes others, and never touches a key again that it has emptied. If the first write of an edit
-- fails, that edit has changed nothing, and the caller tries again.

-- What a member changes when it is added to a block or removed from it. Reads the counts, and changes nothing. The delta
-- is text: to make a number the text of a command takes half as long as the command.
local function change_of(at, member, delta)
  local _, language, rating = parts_of(member)
  if not rating then damaged(at.block) end
  local change = { field = language .. '/' .. rating, field_of_any = ANY .. '/' .. rating, delta = delta }
  if at.group then
    change.counts_of_nodes = closed.counts_of_nodes_with(at, language, tonumber(rating), tonumber(delta))
  end
  return change
end

local function add_to_totals(product, field, delta)
  if redis.call('HINCRBY', product.totals, field, delta) == 0 then redis.call('HDEL', product.totals, field) end
end

-- Counts a member that was added to a block or removed from it.
local function count(product, at, change)
  local delta = tonumber(change.delta)
  if at.group then
    closed.store_counts_of_nodes(product, change.counts_of_nodes, delta)
  else
    product.open_size = product.open_size + delta
  end
  product.size = product.size + delta
  add_to_totals(product, change.field, change.delta)
  add_to_totals(product, change.field_of_any, change.delta)
end

-- A full block is cut before, because a server never makes it compact again after one more member.
local function add(product, time, id, member)
  local place = place_of(time, id)
  local at = locate(product, place)
  if at.size >= BLOCK_MAX then
    if at.group then closed.cut_block(product, at) else closed.close(product) end
    at = locate(product, place)
  end
  local change = change_of(at, member, '1')
  if redis.call('ZADD', at.block, time, member) == 1 then count(product, at, change) end
end

-- Removes one of the members that a block has.
local function remove(product, at, member)
  local change = change_of(at, member, '-1')
  if not at.group and product.open_size == 1 and product.closed_size > 0 then
    closed.reopen(product, member)
    count(product, at, change)
    return
  end
  local is_last = at.group and at.size == 1
  local nodes = is_last and closed.nodes_without_blocks(product, at, 1)
  redis.call('ZREM', at.block, member)
  product.oldest_open = nil
  count(product, at, change)
  if is_last then closed.unlist_block(at, nodes) end
end
