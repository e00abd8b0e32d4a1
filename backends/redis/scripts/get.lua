-- What is stored under a name.
--
-- KEYS      see bucket.lua
-- ARGV      see bucket.lua, then
--   +0      name
-- Result    { now, record }; false in place of a record if there is none; or { 'lost', number of the bucket }

local found = look(1, { ARGV[first] })
if not found then
  return { 'lost', 1 }
end
return { now, found[2] }
