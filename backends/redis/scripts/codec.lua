-- Records as bytes: big-endian numbers, strings behind their length, no text that would have to be parsed.
-- src/value.rs reads the same bytes; change both together, and FORM with them.
--
-- Kinds: 0 lock, 1 reservation. Modes: 0 exclusive, 1 shared. Capacity 0 stands for none set, n + 1 for n units.
-- Free text is '' if there is none, and begins with a \1 otherwise. Moments are milliseconds; 0 stands for none.

local FORM = 1
local EXCLUSIVE, SHARED = 0, 1
local RESERVATION = 1
local RELEASED, EXPIRED, FORCED, CONFIRMED, SPENT, HANDED_OVER = 1, 2, 3, 4, 5, 6

local pack, unpack_bytes = struct.pack, struct.unpack

local HEAD = '>BBI8I8I8I8I8BI4I4I4'
local END = '>c16I8I8I4c0I4c0'
local GRANT = '>c16I8I8I8BI4I4I4c0I4c0'
local TICKET = '>c16c32I8I8BI4I4BI4I4c0I4c0'
local CLAIM = '>c16I8I8I4I4c0I4c0I4c0'

local function blank(name)
  return {
    name = name, kind = 0, capacity = 0, version = 0, last_token = 0, indexed = 0, quarantine = 0,
    ended = false, grants = {}, tickets = {}, claims = {}, stored = false,
  }
end

local function parse(name, bytes)
  local form, kind, capacity, version, last_token, indexed, quarantine, how, grants, tickets, claims, at =
    unpack_bytes(HEAD, bytes)
  if form ~= FORM then
    error('FORM ' .. form, 0)
  end
  local record = {
    name = name, kind = kind, capacity = capacity, version = version, last_token = last_token, indexed = indexed,
    quarantine = quarantine, ended = false, grants = {}, tickets = {}, claims = {}, stored = version,
  }
  if how > 0 then
    local ended = { how = how }
    ended.holder, ended.token, ended.at, ended.by, ended.reason, at = unpack_bytes(END, bytes, at)
    record.ended = ended
  end
  for i = 1, grants do
    local holder, token, since, till, mode, units, delay, owner, text, after = unpack_bytes(GRANT, bytes, at)
    record.grants[i] = {
      holder = holder, token = token, since = since, till = till, mode = mode, units = units, delay = delay,
      owner = owner, text = text,
    }
    at = after
  end
  for i = 1, tickets do
    local holder, inbox, since, till, mode, units, limit, wish, delay, owner, text, after =
      unpack_bytes(TICKET, bytes, at)
    record.tickets[i] = {
      holder = holder, inbox = inbox, since = since, till = till, mode = mode, units = units, limit = limit,
      kind = wish, delay = delay, owner = owner, text = text,
    }
    at = after
  end
  for i = 1, claims do
    local holder, token, since, units, entity, owner, text, after = unpack_bytes(CLAIM, bytes, at)
    record.claims[i] = {
      holder = holder, token = token, since = since, units = units, entity = entity, owner = owner, text = text,
    }
    at = after
  end
  if at ~= #bytes + 1 then
    error('there is more than a record', 0)
  end
  return record
end

-- Gives nothing, and what to tell instead, if there is something else than `write` leaves. The caller finds the name in
-- what it is told, as digits: in a name there may be anything.
local function try_read(name, bytes)
  if not bytes then
    return blank(name)
  end
  local is_whole, record = pcall(parse, name, bytes)
  if is_whole then
    return record
  end
  local why = tostring(record):match('^FORM %d+$') or 'DAMAGED'
  local digits = name:gsub('.', function(c) return ('%02x'):format(c:byte()) end)
  return nil, 'LEASEHOLD-' .. why .. ' ' .. digits
end

local function read(name, bytes)
  local record, why = try_read(name, bytes)
  return record or error(why, 0)
end

local function write(record)
  local ended, grants, tickets, claims = record.ended, record.grants, record.tickets, record.claims
  local parts = {
    pack(HEAD, FORM, record.kind, record.capacity, record.version, record.last_token, record.indexed,
      record.quarantine, ended and ended.how or 0, #grants, #tickets, #claims),
  }
  if ended then
    parts[2] = pack(END, ended.holder, ended.token, ended.at, #ended.by, ended.by, #ended.reason, ended.reason)
  end
  for _, g in ipairs(grants) do
    parts[#parts + 1] = pack(GRANT, g.holder, g.token, g.since, g.till, g.mode, g.units, g.delay, #g.owner, g.owner,
      #g.text, g.text)
  end
  for _, t in ipairs(tickets) do
    parts[#parts + 1] = pack(TICKET, t.holder, t.inbox, t.since, t.till, t.mode, t.units, t.limit, t.kind, t.delay,
      #t.owner, t.owner, #t.text, t.text)
  end
  for _, c in ipairs(claims) do
    parts[#parts + 1] = pack(CLAIM, c.holder, c.token, c.since, c.units, #c.entity, c.entity, #c.owner, c.owner,
      #c.text, c.text)
  end
  return table.concat(parts)
end
