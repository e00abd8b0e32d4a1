-- Prolongs leases and tickets, each with an answer of its own.
--
-- KEYS      see bucket.lua
-- ARGV      see bucket.lua, then
--   +0      how long a lease may be, in milliseconds
--   +1 ..   for each item: number of its bucket, holder, token (0 for a ticket), ttl or how much to add in milliseconds,
--           the end it must have if it is to be added to (0 to set the ttl), and 1 if more follows, packed, and the name;
--           then, if more follows, three arguments:
--             free text that replaces the old one; '' to leave it
--             the heir to whom it is handed over; '' for none
--             the heir's owner
-- Result    { now, answer, answer, .. }, or { 'lost', number of the bucket }; an answer is
--   end                             the lease goes on, under the token that was named
--   { 'renewed', token, end }       the ticket has become a grant, which goes on
--   { 'changed', token, end }       it ends at another moment than the caller thought
--   { 'queued', position, end, limit, record }
--   { 'not held', record }
--   { 'heir is here' } or { 'only set' }

local longest = tonumber(ARGV[first])
local items, names, numbers = {}, {}, {}
local at = first + 1
while at <= #ARGV do
  local bytes = ARGV[at]
  local i = #items + 1
  local number, holder, token, ttl, if_end, more = unpack_bytes('>I4c16I8I8I8B', bytes)
  local item = { holder = holder, token = token, ttl = ttl, if_end = if_end, text = '', heir = '', heir_owner = '' }
  items[i], names[i], numbers[i] = item, bytes:sub(46), number
  at = at + 1
  if more == 1 then
    item.text, item.heir, item.heir_owner = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    at = at + 3
  end
end
local lost = load(names, numbers)
if lost then
  return { 'lost', lost }
end

local function heir_is_here(record, item)
  if item.heir == '' or item.heir == item.holder then
    return false
  end
  if find(record.tickets, item.heir) then
    return true
  end
  for _, grant in ipairs(record.grants) do
    if grant.holder == item.heir and grant.token ~= item.token then
      return true
    end
  end
  return false
end

-- When the lease shall end; nil if the caller is wrong about when it does.
local function new_end(grant, item)
  if item.if_end == 0 then
    return math.max(grant.till, now + item.ttl)
  end
  local wanted = math.min(item.if_end + item.ttl, now + longest)
  if grant.till == item.if_end or grant.till == wanted then
    return wanted
  end
end

local function renew_grant(record, item)
  local token = item.token > 0 and item.token or nil
  local place = find(record.grants, item.holder, token) or (item.heir ~= '' and find(record.grants, item.heir, token))
  if not place then
    return { 'not held', write(record) }
  end
  local grant = record.grants[place]
  local till = new_end(grant, item)
  if not till then
    return { 'changed', grant.token, grant.till }
  end
  grant.till = till
  if item.heir ~= '' then
    record.ended = ended_as(grant, HANDED_OVER, now)
    grant.holder, grant.owner = item.heir, item.heir_owner
  end
  if item.text ~= '' and item.text ~= grant.text then
    grant.text = item.text
    tell_change(record)
  end
  touch(record)
  return token and till or { 'renewed', grant.token, till }
end

local function renew_ticket(record, item)
  local position = find(record.tickets, item.holder)
  if not position then
    return renew_grant(record, item)
  end
  local ticket = record.tickets[position]
  ticket.till = math.max(ticket.till, now + item.ttl)
  if item.text ~= '' then
    ticket.text = item.text
  end
  touch(record)
  return { 'queued', position - 1, ticket.till, ticket.limit, write(record) }
end

local answers = { now }
for i, item in ipairs(items) do
  local record = records[i]
  settle(record)
  if item.token == 0 and (item.heir ~= '' or item.if_end > 0) then
    answers[i + 1] = { 'only set' }
  elseif item.token == 0 then
    answers[i + 1] = renew_ticket(record, item)
  elseif heir_is_here(record, item) then
    answers[i + 1] = { 'heir is here' }
  else
    answers[i + 1] = renew_grant(record, item)
  end
end
save()
return answers
