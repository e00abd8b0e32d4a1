-- Ends exactly what it names, and hands it to the next in line.
--
-- KEYS      see bucket.lua
-- ARGV      see bucket.lua, then
--   +0      'grants', 'claims', 'spend' (claims whose units are gone for good) or 'force'
--   +1      holder; who forces it
--   +2      why it is forced
--   +3 ..   for each name: number of its bucket and token, packed, and the name; token 0 if all is forced that is granted
-- Result    1 if it was one name, and is released; otherwise
--           { now, answer, record, answer, record, .. }, or { 'lost', number of the bucket }; an answer is
--   'released'     and '' in place of a record
--   'forced'       with the record before
--   'not held'     with the record

local how, holder, reason = ARGV[first], ARGV[first + 1], ARGV[first + 2]

local names, numbers, tokens = {}, {}, {}
for at = first + 3, #ARGV do
  local i = #names + 1
  numbers[i], tokens[i] = unpack_bytes('>I4I8', ARGV[at])
  names[i] = ARGV[at]:sub(13)
end
local lost = load(names, numbers)
if lost then
  return { 'lost', lost }
end
settle_all()

local function was_ended(record, as, token)
  local ended = record.ended
  return ended and ended.how == as and ended.holder == holder and ended.token == token
end

local function release_grant(record, token)
  local at = find(record.grants, holder, token)
  if not at then
    return was_ended(record, RELEASED, token) and 'released' or 'not held'
  end
  end_grant(record, at, ended_as(record.grants[at], RELEASED, now))
  move_up(record)
  return 'released'
end

local function release_claim(record, token)
  local as = how == 'spend' and SPENT or RELEASED
  local at = find(record.claims, holder, token)
  if not at then
    return was_ended(record, as, token) and 'released' or 'not held'
  end
  local claim = table.remove(record.claims, at)
  if how == 'spend' and record.capacity > 0 then
    record.capacity = math.max(record.capacity - claim.units, 1)
  end
  record.ended = ended_as(claim, as, now)
  touch(record)
  move_up(record)
  return 'released'
end

local function forced(entry)
  local ended = ended_as(entry, FORCED, now)
  ended.by, ended.reason = holder, reason
  return ended
end

local function force(record, token)
  local version, at = record.version, 1
  while record.grants[at] do
    local grant = record.grants[at]
    if token == 0 or grant.token == token then
      end_grant(record, at, forced(grant))
    else
      at = at + 1
    end
  end
  for place, claim in ipairs(record.claims) do
    if claim.token == token then
      table.remove(record.claims, place)
      record.ended = forced(claim)
      touch(record)
      break
    end
  end
  if record.version == version then
    return 'not held'
  end
  move_up(record)
  return 'forced'
end

local verbs = { grants = release_grant, claims = release_claim, spend = release_claim, force = force }
local answer = { now }
for i, record in ipairs(records) do
  local before = how == 'force' and write(record) or ''
  local done = verbs[how](record, tokens[i])
  answer[i * 2] = done
  answer[i * 2 + 1] = done == 'not held' and write(record) or before
end
save()
return answer
