-- Takes all names or none, or a place in the queue of the only one.
--
-- KEYS      see bucket.lua
-- ARGV      see bucket.lua, then
--   +0      packed: holder, ttl and lock delay in milliseconds, token floor, kind, mode, and what to do if it is this
--           holder's already (0 prolong, 1 leave, 2 replace)
--   +1      owner
--   +2      inbox, 32 hexadecimal digits; '' if it does not want to be queued
--   +3      free text
--   +4 ..   for each name: number of its bucket, units and limit, packed, and the name
-- Result
--   packed: now, and token and end of each name
--   { 'queued', now, position, end, what is in the way, record before }
--   { 'held', now, number of the name, what is in the way, record, .. }
--   { 'other terms', number of the name }
--   { 'lost', number of the bucket }

local LEAVE, REPLACE = 1, 2
local holder, ttl, delay, floor, kind, mode, own = unpack_bytes('>c16I8I4I8BBB', ARGV[first])
local owner, inbox, text = ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]

local names, numbers, units_of, limit_of = {}, {}, {}, {}
for at = first + 4, #ARGV do
  local i = #names + 1
  numbers[i], units_of[i], limit_of[i] = unpack_bytes('>I4I4I4', ARGV[at])
  names[i] = ARGV[at]:sub(13)
end
local lost = load(names, numbers)
if lost then
  return { 'lost', lost }
end
settle_all()

-- What is in the way, or 'other terms'.
local function blocked(record, i)
  local mine = find(record.grants, holder)
  if mine then
    local grant = record.grants[mine]
    local same = record.kind == kind and grant.mode == mode and grant.units == units_of[i]
    return not same and 'other terms' or nil
  end
  -- Whoever has confirmed it and asks again must not get as much once more.
  if find(record.claims, holder) then
    return CLAIMED
  end
  local by = in_the_way(record, kind, mode, units_of[i], limit_of[i])
  if not by and #record.tickets > 0 then
    return QUEUE
  end
  return by
end

-- A record as it is told to somebody who is refused: the quarantine of its bucket is in the way as much as its own.
local function shown(record)
  local own = record.quarantine
  if record.bucket.quarantine > now then
    record.quarantine = math.max(own, record.bucket.quarantine)
  end
  local bytes = write(record)
  record.quarantine = own
  return bytes
end

local held = { 'held', now }
for i, record in ipairs(records) do
  local by = blocked(record, i)
  if by == 'other terms' then
    return { by, i }
  elseif by then
    held[#held + 1] = i
    held[#held + 1] = by
    held[#held + 1] = shown(record)
  end
end

-- Lets no token below the floor be drawn for this name any more.
local function heed_floor(record)
  record.last_token = math.max(record.last_token, floor - 1)
end

local function grant_again(record, grant)
  if own == LEAVE then
    return grant
  end
  if own == REPLACE then
    if grant.token < floor then
      heed_floor(record)
      grant.token = draw_token(record)
    end
    grant.till, grant.delay, grant.owner, grant.text = now + ttl, delay, owner, text
  else
    grant.till = math.max(grant.till, now + ttl)
  end
  touch(record)
  return grant
end

local function grant(record, i)
  local mine = find(record.grants, holder)
  if mine then
    return grant_again(record, record.grants[mine])
  end
  touch(record)
  heed_floor(record)
  local granted = {
    holder = holder, token = draw_token(record), since = now, till = now + ttl, mode = mode, units = units_of[i],
    delay = delay, owner = owner, text = text,
  }
  record.kind = kind
  table.insert(record.grants, granted)
  return granted
end

if #held == 2 then
  local answer = { pack('>I8', now) }
  for i, record in ipairs(records) do
    local granted = grant(record, i)
    answer[i + 1] = pack('>I8I8', granted.token, granted.till)
  end
  save()
  return table.concat(answer)
end

-- Whoever asks without a wish to be queued waits no longer, and so leaves the place it had.
if inbox == '' or #records > 1 or held[4] == CAPACITY then
  for _, record in ipairs(records) do
    if leave_queue(record, holder) > 0 then
      touch(record)
      move_up(record)
    end
  end
  save()
  return held
end

-- Joins the queue, or refreshes the place it has; the place is kept.
local record = records[1]
local units, limit = units_of[1], limit_of[1]
local position = find(record.tickets, holder)
if position then
  local ticket = record.tickets[position]
  local same = ticket.kind == kind and ticket.mode == mode and ticket.units == units and ticket.limit == limit
  if not same then
    return { 'other terms', 1 }
  end
  ticket.till = math.max(ticket.till, now + ttl)
  ticket.inbox = inbox
else
  position = #record.tickets + 1
  record.tickets[position] = {
    holder = holder, inbox = inbox, since = now, till = now + ttl, mode = mode, units = units, limit = limit,
    kind = kind, delay = delay, owner = owner, text = text,
  }
end
touch(record)
heed_floor(record)
save()
return { 'queued', now, position - 1, record.tickets[position].till, held[4], held[5] }
