-- Writes a value under a token.
--
-- KEYS      see fenced_check.lua, then
--   2       key
-- ARGV      see fenced_check.lua, then
--   3       value
--   4       how long it lasts, in milliseconds; 0 for ever
-- Result    { 'done' }, or see fenced_check.lua

if ARGV[4] == '0' then
  redis.call('SET', KEYS[2], ARGV[3])
else
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
end
return { 'done' }
