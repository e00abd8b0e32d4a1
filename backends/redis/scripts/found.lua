-- Makes a bucket, or takes it over as it is now after its state was lost.
--
-- A caller that knew the bucket in another epoch, or with larger tokens, has seen grants that are gone, and whose
-- holders may still be at work. So no token up to the largest one seen is given again, and nothing new is granted
-- for a while.
--
-- KEYS      the three of one bucket, see bucket.lua
-- ARGV
--   1       the epoch it was last seen in, 8 bytes of 0 if never, and the largest token seen in it, 8 bytes
--   2       an epoch nobody has used yet
--   3       how long to grant nothing if state was lost, in milliseconds
--   4       how many buckets there are
-- Result    { epoch, largest token, number of buckets, 1 if state was lost }

local ABOUT = '>c8I8I8I4'
local NEVER = ('\0'):rep(8)
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local known, seen = struct.unpack('>c8I8', ARGV[1])
local fresh = ARGV[2]
local about = redis.call('HGET', KEYS[1], '')
local epoch, top, quarantine, count = fresh, 0, 0, tonumber(ARGV[4])
if about then
  epoch, top, quarantine, count = struct.unpack(ABOUT, about)
end
local lost = known ~= NEVER and (epoch ~= known or top < seen)
if lost then
  top = math.max(top, seen)
  -- An epoch that began with a quarantine has had it; one that somebody began who had seen nothing before has not.
  if epoch == known or quarantine == 0 then
    quarantine = math.max(quarantine, now + tonumber(ARGV[3]))
  end
  -- Tells all others who knew the old one.
  if epoch == known then
    epoch = fresh
  end
end
if lost or not about then
  redis.call('HSET', KEYS[1], '', struct.pack(ABOUT, epoch, top, quarantine, count))
end
return { epoch, top, count, lost and 1 or 0 }
