-- The rule, restated: crates/core/src/transition is the specification, and the conformance kit compares.

local HOLDER, QUEUE, CLAIMED, LOCK_DELAY, CAPACITY = 1, 2, 3, 4, 5

-- The next token this bucket may give.
local function next_token(record)
  local top = record.bucket.top + 1
  return top > micros and top or micros
end

local function draw_token(record)
  local token = math.max(next_token(record), record.last_token + 1)
  record.bucket.top = token
  record.last_token = token
  return token
end

-- Marks a record as changed.
local function touch(record)
  record.version = record.version == 0 and next_token(record) or record.version + 1
end

local function tell_change(record)
  letters[#letters + 1] = channels .. 'name:' .. record.name
  letters[#letters + 1] = ''
end

local function ended_as(grant, how, at)
  return { how = how, holder = grant.holder, token = grant.token, at = at, by = '', reason = '' }
end

local function units_taken(record)
  local taken = 0
  for _, grant in ipairs(record.grants) do
    if grant.mode == EXCLUSIVE then
      taken = taken + grant.units
    end
  end
  for _, claim in ipairs(record.claims) do
    taken = taken + claim.units
  end
  return taken
end

-- What is in the way of a wish, leaving the queue aside; nil if nothing is.
local function in_the_way(record, kind, mode, units, limit)
  if record.quarantine > now or record.bucket.quarantine > now then
    return LOCK_DELAY
  end
  local capacity = record.capacity > 0 and record.capacity - 1 or limit
  local too_large = mode == EXCLUSIVE and units > capacity
  if #record.grants == 0 and #record.claims == 0 then
    return too_large and CAPACITY or nil
  end
  local occupied = #record.grants == 0 and CLAIMED or HOLDER
  if record.kind ~= kind then
    return occupied
  end
  for _, grant in ipairs(record.grants) do
    if grant.mode ~= mode then
      return HOLDER
    end
  end
  if too_large then
    return CAPACITY
  end
  if mode == SHARED and #record.claims > 0 then
    return CLAIMED
  end
  if mode == EXCLUSIVE and units_taken(record) + units > capacity then
    return occupied
  end
end

-- A grant by hand-over ends when its ticket would have, and is told to the inbox of its waiter.
local function grant_ticket(record, ticket)
  touch(record)
  local token = draw_token(record)
  record.kind = ticket.kind
  table.insert(record.grants, {
    holder = ticket.holder, token = token, since = now, till = ticket.till, mode = ticket.mode, units = ticket.units,
    delay = ticket.delay, owner = ticket.owner, text = ticket.text,
  })
  letters[#letters + 1] = channels .. 'inbox:' .. ticket.inbox
  letters[#letters + 1] = pack('>c16I8I8I8c0', ticket.holder, token, ticket.till, now, record.name)
end

-- Grants to the first tickets as long as they fit, and tells watchers if anything may be left for them.
local function move_up(record)
  local ticket = record.tickets[1]
  while ticket and not in_the_way(record, ticket.kind, ticket.mode, ticket.units, ticket.limit) do
    table.remove(record.tickets, 1)
    grant_ticket(record, ticket)
    ticket = record.tickets[1]
  end
  if not ticket then
    tell_change(record)
  end
end

-- Takes out the grants that have run out, and remembers how the last of them ended.
local function expire_grants(record)
  local live, last, quarantine = {}, nil, record.quarantine
  for _, grant in ipairs(record.grants) do
    if grant.till > now then
      live[#live + 1] = grant
    else
      if grant.delay > 0 then
        quarantine = math.max(quarantine, grant.till + grant.delay)
      end
      if not last or last.at < grant.till or (last.at == grant.till and last.token < grant.token) then
        last = ended_as(grant, EXPIRED, grant.till)
      end
    end
  end
  local expired = #record.grants - #live
  record.grants, record.quarantine = live, quarantine
  if last then
    record.ended = last
  end
  return expired
end

local function expire_tickets(record)
  local live = {}
  for _, ticket in ipairs(record.tickets) do
    if ticket.till > now then
      live[#live + 1] = ticket
    end
  end
  local expired = #record.tickets - #live
  record.tickets = live
  return expired
end

local function has_run_out(record)
  for _, grant in ipairs(record.grants) do
    if grant.till <= now then
      return true
    end
  end
  for _, ticket in ipairs(record.tickets) do
    if ticket.till <= now then
      return true
    end
  end
  return record.quarantine > 0 and record.quarantine <= now
end

-- Brings a record up to now. Gives how many tickets had run out.
local function settle(record)
  if not has_run_out(record) then
    -- The quarantine of the bucket ends for all its queues, and nobody else takes note of it.
    if #record.tickets > 0 and record.bucket.quarantine > 0 then
      move_up(record)
    end
    return 0
  end
  local grants, tickets = expire_grants(record), expire_tickets(record)
  local changes = grants + tickets
  if record.quarantine > 0 and record.quarantine <= now then
    record.quarantine = 0
    changes = changes + 1
  end
  record.version = record.version + changes
  move_up(record)
  return tickets
end

local function settle_all()
  for _, record in ipairs(records) do
    settle(record)
  end
end

local function end_grant(record, at, ended)
  record.ended = ended
  table.remove(record.grants, at)
  touch(record)
end

-- Gives how many tickets of this holder were taken out.
local function leave_queue(record, holder)
  local left = 0
  for at = #record.tickets, 1, -1 do
    if record.tickets[at].holder == holder then
      table.remove(record.tickets, at)
      left = left + 1
    end
  end
  return left
end

-- Where in a list the entry of this holder (and token, if given) is.
local function find(entries, holder, token)
  for at, entry in ipairs(entries) do
    if entry.holder == holder and (not token or entry.token == token) then
      return at
    end
  end
end
