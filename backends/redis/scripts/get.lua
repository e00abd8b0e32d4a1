-- What is stored under a name.
--
-- KEYS      see bucket.lua
-- ARGV      see bucket.lua, then
--   +0      name
-- Result    { now, record }; false in place of a record if there is none; or { 'lost', number of the bucket }

local opened = open(1, { ARGV[first] })
if not opened then
  return { 'lost', 1 }
end
return { now, opened[1].stored and write(opened[1]) }
