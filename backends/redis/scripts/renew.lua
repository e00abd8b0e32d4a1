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
--   { 'damaged', what is wrong }    which costs no other item its renewal

local longest = tonumber(ARGV[first])
local holders, tokens, ttls, if_ends, extras, names, numbers = {}, {}, {}, {}, {}, {}, {}
local at = first + 1
while at <= #ARGV do
  local i = #names + 1
  local more
  numbers[i], holders[i], tokens[i], ttls[i], if_ends[i], more = unpack_bytes('>I4c16I8I8I8B', ARGV[at])
  names[i] = ARGV[at]:sub(46)
  at = at + 1
  if more == 1 then
    extras[i] = at
    at = at + 3
  end
end
local answers = { now }

-- The bytes of a head, and the fewest of a grant.
local HEAD_SIZE, GRANT_SIZE = 55, 57

-- The common case, without taking the record apart: its only grant is this lease, and nobody waits. Gives the record with
-- its new version and end, and that end.
local function prolonged(bytes, i)
  -- Whatever is too short for one grant is not simple either, and may be damaged.
  if #bytes < HEAD_SIZE + GRANT_SIZE then
    return
  end
  local form, _, _, version, _, _, delayed, how, grants, tickets, _, place = unpack_bytes(HEAD, bytes)
  if form ~= FORM or grants ~= 1 or tickets + delayed > 0 or how == FORCED then
    return
  end
  -- An end that nobody forced has two empty texts.
  place = how > 0 and place + 40 or place
  if #bytes < place + GRANT_SIZE - 1 then
    return
  end
  local holder, token, _, till = unpack_bytes('>c16I8I8I8', bytes, place)
  if holder ~= holders[i] or token ~= tokens[i] or till <= now then
    return
  end
  till = math.max(till, now + ttls[i])
  return pack('>c0I8c0I8c0', bytes:sub(1, 10), version + 1, bytes:sub(19, place + 31), till, bytes:sub(place + 40)), till
end

-- Which items are in which bucket; those of a name that comes twice are not simple.
local wanted, times = {}, {}
for i, number in ipairs(numbers) do
  wanted[number] = wanted[number] or {}
  table.insert(wanted[number], i)
  times[names[i]] = (times[names[i]] or 0) + 1
end
local changes = {}
local rest = {}
for number, listed in pairs(wanted) do
  local fields = {}
  for place, i in ipairs(listed) do
    fields[place] = names[i]
  end
  local found = look(number, fields)
  if not found then
    return { 'lost', number }
  end
  local change = {}
  for place, i in ipairs(listed) do
    local bytes = found[place + 1]
    local is_simple = bytes and tokens[i] > 0 and if_ends[i] == 0 and not extras[i] and times[names[i]] == 1
    local written, till
    if is_simple then
      written, till = prolonged(bytes, i)
    end
    if written then
      change[#change + 1] = names[i]
      change[#change + 1] = written
      answers[i + 1] = till
    else
      rest[#rest + 1] = i
    end
  end
  changes[number] = change
end

-- The others, taken apart.
local items = {}
do
  table.sort(rest)
  local rest_names, rest_numbers = {}, {}
  for place, i in ipairs(rest) do
    local extra = extras[i]
    items[place] = {
      holder = holders[i], token = tokens[i], ttl = ttls[i], if_end = if_ends[i], text = extra and ARGV[extra] or '',
      heir = extra and ARGV[extra + 1] or '', heir_owner = extra and ARGV[extra + 2] or '',
    }
    rest_names[place], rest_numbers[place] = names[i], numbers[i]
  end
  local lost = load(rest_names, rest_numbers, true)
  if lost then
    return { 'lost', lost }
  end
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

for place, item in ipairs(items) do
  local record = records[place]
  local answer
  if not record.damaged then
    settle(record)
  end
  if record.damaged then
    answer = { 'damaged', record.damaged }
  elseif item.token == 0 and (item.heir ~= '' or item.if_end > 0) then
    answer = { 'only set' }
  elseif item.token == 0 then
    answer = renew_ticket(record, item)
  elseif heir_is_here(record, item) then
    answer = { 'heir is here' }
  else
    answer = renew_grant(record, item)
  end
  answers[rest[place] + 1] = answer
end
for number, change in pairs(changes) do
  if #change > 0 then
    redis.call('HSET', KEYS[number * 3 - 2], unpack(change))
  end
end
save()
return answers
