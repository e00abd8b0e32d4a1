-- Reads a value under a token.
--
-- KEYS      see fenced_check.lua, then
--   2       key
-- ARGV      see fenced_check.lua
-- Result    { 'done', value }, with false in place of a value if there is none; or see fenced_check.lua

return { 'done', redis.call('GET', KEYS[2]) }
