-- Records of some buckets, in the order of their names.
--
-- KEYS      see bucket.lua
-- ARGV      see bucket.lua, then
--   +0      where to begin, as ZRANGEBYLEX wants it
--   +1      where to end
--   +2      how many of each bucket
-- Result    { now, name, record, name, record, .. }, or { 'lost', number of the bucket }

local answer = { now }
for number = 1, #KEYS / 3 do
  local names = redis.call('ZRANGEBYLEX', KEYS[number * 3], ARGV[first], ARGV[first + 1], 'LIMIT', 0, ARGV[first + 2])
  local found = look(number, names)
  if not found then
    return { 'lost', number }
  end
  for at, name in ipairs(names) do
    if found[at + 1] then
      answer[#answer + 1] = name
      answer[#answer + 1] = found[at + 1]
    end
  end
end
return answer
