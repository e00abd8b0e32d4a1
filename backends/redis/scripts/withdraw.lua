-- Leaves the queues of some names and gives back any grant of this holder.
--
-- KEYS      see bucket.lua
-- ARGV      see bucket.lua, then
--   +0      holder
--   +1 ..   for each name: number of its bucket, packed, and the name
-- Result    { 'withdrawn', tickets, grants }, or { 'lost', number of the bucket }

local holder = ARGV[first]

local names, numbers = {}, {}
for at = first + 1, #ARGV do
  numbers[#numbers + 1] = unpack_bytes('>I4', ARGV[at])
  names[#names + 1] = ARGV[at]:sub(5)
end
local lost = load(names, numbers)
if lost then
  return { 'lost', lost }
end

local tickets, grants = 0, 0
for _, record in ipairs(records) do
  settle(record)
  local left, given = leave_queue(record, holder), 0
  local at = find(record.grants, holder)
  while at do
    end_grant(record, at, ended_as(record.grants[at], RELEASED, now))
    given = given + 1
    at = find(record.grants, holder)
  end
  if left + given > 0 then
    touch(record)
    move_up(record)
  end
  tickets, grants = tickets + left, grants + given
end
save()
return { 'withdrawn', tickets, grants }
