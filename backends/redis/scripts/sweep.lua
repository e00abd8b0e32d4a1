-- Settles what has run out and forgets what may be forgotten, up to a limit.
--
-- KEYS      see bucket.lua
-- ARGV      see bucket.lua, then
--   +0      how many records at most
--   +1      what the names begin with; '' for any
--   +2      kind; '' for any
--   +3      '1' to change nothing
-- Result    { now, more, records, tickets, forgotten, name, record, name, record, .. }, or { 'lost', number of the bucket };
--           more is 1 if the limit was reached and more may be left; the records are those of which a grant had run
--           out, as they were before

local limit, prefix, kind = tonumber(ARGV[first]), ARGV[first + 1], tonumber(ARGV[first + 2])
local dry_run = ARGV[first + 3] == '1'
local PART = 100
local answer = { now, 0, 0, 0, 0 }
local done = 0

local function runs_out(record)
  for _, grant in ipairs(record.grants) do
    if grant.till <= now then
      return true
    end
  end
  return false
end

local function covers(record)
  return record.name:sub(1, #prefix) == prefix and (not kind or record.kind == kind)
end

local function report(record)
  answer[#answer + 1] = record.name
  answer[#answer + 1] = write(record)
end

-- Does what is due about a record. Says whether it still stands in the index among what is due.
local function tend(record)
  local due = due_at(record)
  local stands_right = record.stored and due and due <= now
  if not stands_right and dry_run then
    return true
  end
  if not record.stored then
    redis.call('ZREM', KEYS[record.bucket.number * 3 - 1], record.name)
    return false
  end
  if not stands_right then
    keep(record, record.bucket, true)
    return false
  end
  if not covers(record) or (dry_run and not runs_out(record)) then
    return true
  end
  done = done + 1
  if done > limit then
    answer[2] = 1
    return true
  end
  answer[3] = done
  if runs_out(record) then
    report(record)
  end
  if dry_run then
    return true
  end
  answer[4] = answer[4] + settle(record)
  due = due_at(record)
  if is_idle(record) and due <= now then
    answer[5] = answer[5] + 1
    record.version = record.version + 1
    forget(record, record.bucket)
    return false
  end
  keep(record, record.bucket, true)
  return due ~= nil and due <= now
end

for number = 1, #KEYS / 3 do
  local passed = 0
  if not open(number, {}) then
    return { 'lost', number }
  end
  local bucket = buckets[number]
  repeat
    local names = redis.call('ZRANGEBYSCORE', KEYS[number * 3 - 1], '-inf', now, 'LIMIT', passed, PART)
    local found = #names > 0 and redis.call('HMGET', bucket.key, unpack(names)) or {}
    for at, name in ipairs(names) do
      if answer[2] == 0 then
        -- What cannot be read is passed by: it would be in the way of everything behind it, and whoever asks for it or
        -- lists it is told.
        local record = try_read(name, found[at])
        if record then
          record.bucket = bucket
        end
        if not record or tend(record) then
          passed = passed + 1
        end
      end
    end
  until #names < PART or answer[2] == 1
end
save()
return answer
