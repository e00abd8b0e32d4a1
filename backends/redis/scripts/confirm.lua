-- Turns all named grants into claims, or hands all named claims over, or does nothing.
--
-- KEYS      see bucket.lua
-- ARGV      see bucket.lua, then
--   +0      holder
--   +1      entity
--   +2      the heir to whom claims are handed over; '' if grants are confirmed
--   +3      the heir's owner
--   +4      the version every record must have; '' for any
--   +5      free text that replaces the old one; '' to leave it
--   +6 ..   for each name: number of its bucket and token, packed, and the name
-- Result
--   { 'confirmed', version, version, .. }
--   { 'not held', number of the name, now, record }
--   { 'version', number of the name, version }
--   { 'no reservation', number of the name }
--   { 'lost', number of the bucket }

local holder, entity, heir, heir_owner = ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
local version, text = tonumber(ARGV[first + 4]), ARGV[first + 5]

local names, numbers, tokens = {}, {}, {}
for at = first + 6, #ARGV do
  local i = #names + 1
  numbers[i], tokens[i] = unpack_bytes('>I4I8', ARGV[at])
  names[i] = ARGV[at]:sub(13)
end
local lost = load(names, numbers)
if lost then
  return { 'lost', lost }
end
settle_all()

-- Whether this very request was done before.
local function is_done(record, token)
  local at = find(record.claims, heir == '' and holder or heir, token)
  return at and record.claims[at].entity == entity
end

-- Why this name stands in the way; nil if it does not.
local function refusal(record, i)
  local token = tokens[i]
  if is_done(record, token) then
    return
  end
  local mode
  if heir == '' then
    local at = find(record.grants, holder, token)
    mode = at and record.grants[at].mode
  else
    mode = find(record.claims, holder, token) and EXCLUSIVE
  end
  if not mode then
    return { 'not held', i, now, write(record) }
  end
  if record.kind ~= RESERVATION or mode ~= EXCLUSIVE then
    return { 'no reservation', i }
  end
  if version and version ~= record.version then
    return { 'version', i, record.version }
  end
end

local function confirm(record, token)
  local at = find(record.grants, holder, token)
  if not at then
    return
  end
  local grant = record.grants[at]
  end_grant(record, at, ended_as(grant, CONFIRMED, now))
  table.insert(record.claims, {
    holder = holder, token = token, since = now, units = grant.units, entity = entity, owner = grant.owner,
    text = text ~= '' and text or grant.text,
  })
end

local function hand_over(record, token)
  local at = find(record.claims, holder, token)
  if not at then
    return
  end
  local claim = record.claims[at]
  if holder ~= heir then
    record.ended = ended_as(claim, HANDED_OVER, now)
  end
  claim.holder, claim.owner, claim.entity = heir, heir_owner, entity
  if text ~= '' then
    claim.text = text
  end
  touch(record)
end

for i, record in ipairs(records) do
  local why = refusal(record, i)
  if why then
    if why[1] ~= 'no reservation' then
      save()
    end
    return why
  end
end
local answer = { 'confirmed' }
for i, record in ipairs(records) do
  if heir == '' then
    confirm(record, tokens[i])
  else
    hand_over(record, tokens[i])
  end
  answer[i + 1] = record.version
end
save()
return answer
