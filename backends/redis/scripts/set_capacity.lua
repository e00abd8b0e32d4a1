-- Sets how many units a name has.
--
-- KEYS      see bucket.lua
-- ARGV      see bucket.lua, then
--   +0      name
--   +1      units; '' to forget the capacity
--   +2      the version the record must have; '' for any
-- Result    { 'set', version }, { 'version', version } if it has another, or { 'lost', number of the bucket }

local units, version = tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])

local lost = load({ ARGV[first] }, { 1 })
if lost then
  return { 'lost', lost }
end
local record = records[1]
settle(record)
if version and version ~= record.version then
  save()
  return { 'version', record.version }
end
record.capacity = units and units + 1 or 0
touch(record)
move_up(record)
save()
return { 'set', record.version }
