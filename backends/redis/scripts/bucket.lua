-- Buckets: the keys of one slot, and the records in them.
--
-- A bucket has three keys:
--   records  hash: encoded name -> record; under '' what concerns the whole bucket (ABOUT)
--   due      sorted set: encoded name -> the moment something is to be done about it, or an earlier one
--   names    sorted set without order: encoded names, to list them in theirs
--
-- Every script gets the three keys of each bucket it touches in KEYS, and begins its ARGV with
--   1      what the channels of this store begin with
--   2 ..   for each bucket: the epoch it was last seen in, 8 bytes, and the largest token seen in it, 8 bytes
-- If a bucket is not as it was last seen, its state was lost: nothing is done, and the answer is { 'lost', number }.
-- Numbers that belong together come packed, in big-endian order, since every argument takes its time.

-- Epoch, largest token ever given in the bucket, moment until which nothing new is granted, number of buckets.
local ABOUT = '>c8I8I8I4'
-- So long an ended record is remembered, as `RETENTION` says in the core.
local RETENTION = 60000

local time = redis.call('TIME')
local seconds, fraction = tonumber(time[1]), tonumber(time[2])
local now = seconds * 1000 + math.floor(fraction / 1000)
local micros = seconds * 1000000 + fraction

local channels = ARGV[1]
local buckets = {}
local records = {}
-- Where the arguments of the verb begin.
local first = 2 + #KEYS / 3

-- What is to be told once everything is written.
local letters = {}

-- What is stored of a bucket: what concerns all of it, and these records, as bytes. Gives false if its state was lost.
local function look(number, names)
  local found = redis.call('HMGET', KEYS[number * 3 - 2], '', unpack(names))
  if not found[1] then
    return false
  end
  local epoch, top = unpack_bytes('>c8I8', found[1])
  local known, seen = unpack_bytes('>c8I8', ARGV[number + 1])
  return epoch == known and top >= seen and found
end

-- Opens a bucket, once, and reads some records of it. Gives false if its state was lost. What cannot be read ends it all,
-- unless the caller puts up with records that are damaged.
local function open(number, names, puts_up)
  local found = look(number, names)
  if not found then
    return false
  end
  local epoch, top, quarantine, count = unpack_bytes(ABOUT, found[1])
  local bucket = {
    number = number, key = KEYS[number * 3 - 2], epoch = epoch, top = top, was = top, quarantine = quarantine,
    count = count,
  }
  buckets[number] = bucket
  local opened = {}
  for at, name in ipairs(names) do
    local record, why = try_read(name, found[at + 1])
    if not record and not puts_up then
      error(why, 0)
    end
    record = record or { name = name, damaged = why }
    record.bucket = bucket
    opened[at] = record
  end
  return opened
end

-- Reads records, each from its bucket. Gives the number of a bucket whose state was lost, if there is one.
local function load(names, numbers, puts_up)
  local wanted, places = {}, {}
  for i, number in ipairs(numbers) do
    wanted[number] = wanted[number] or {}
    places[number] = places[number] or {}
    table.insert(wanted[number], names[i])
    table.insert(places[number], i)
  end
  for number, listed in pairs(wanted) do
    local opened = open(number, listed, puts_up)
    if not opened then
      return number
    end
    local known = {}
    for at, record in ipairs(opened) do
      -- A name that comes twice has one record all the same.
      known[record.name] = known[record.name] or record
      records[places[number][at]] = known[record.name]
    end
  end
end

local function is_idle(record)
  return #record.grants == 0 and #record.tickets == 0 and #record.claims == 0 and record.capacity == 0
    and record.quarantine == 0
end

-- When there is something to do about a record although nobody asks; nil if never.
local function due_at(record)
  if is_idle(record) then
    return record.ended and record.ended.at + RETENTION or 0
  end
  local due = record.quarantine > 0 and record.quarantine or nil
  for _, grant in ipairs(record.grants) do
    if not due or grant.till < due then
      due = grant.till
    end
  end
  for _, ticket in ipairs(record.tickets) do
    if not due or ticket.till < due then
      due = ticket.till
    end
  end
  return due
end

local function write_about(bucket)
  return pack(ABOUT, bucket.epoch, bucket.top, bucket.quarantine, bucket.count)
end

-- A record that need not be kept. Neither its tokens nor its versions may come back.
local function forget(record, bucket)
  bucket.top = math.max(bucket.top, record.last_token, record.version)
  if record.stored then
    local number = bucket.number
    redis.call('HDEL', bucket.key, record.name)
    redis.call('ZREM', KEYS[number * 3 - 1], record.name)
    redis.call('ZREM', KEYS[number * 3], record.name)
  end
end

-- Writes a record that has changed. The index is only touched if it would be late: what is renewed, or taken and
-- released over and over, stands in it too early, and is put right by whoever finds it.
local function keep(record, bucket, put_right)
  local number = bucket.number
  local due = due_at(record)
  if not record.stored then
    redis.call('ZADD', KEYS[number * 3], 0, record.name)
  end
  if due and (put_right or record.indexed == 0 or due < record.indexed) then
    record.indexed = due
    redis.call('ZADD', KEYS[number * 3 - 1], due, record.name)
  elseif put_right and not due then
    record.indexed = 0
    redis.call('ZREM', KEYS[number * 3 - 1], record.name)
  end
  redis.call('HSET', bucket.key, '', write_about(bucket), record.name, write(record))
  bucket.was = bucket.top
end

-- Writes what has changed, and sends the letters.
local function save()
  for _, record in pairs(records) do
    if not record.damaged and record.version ~= (record.stored or 0) then
      if is_idle(record) and not record.ended then
        forget(record, record.bucket)
      else
        keep(record, record.bucket, false)
      end
      -- Once, however often the record was named.
      record.stored = record.version
    end
  end
  for _, bucket in pairs(buckets) do
    if bucket.top ~= bucket.was then
      redis.call('HSET', bucket.key, '', write_about(bucket))
    end
  end
  for at = 1, #letters, 2 do
    redis.call('PUBLISH', letters[at], letters[at + 1])
  end
end
