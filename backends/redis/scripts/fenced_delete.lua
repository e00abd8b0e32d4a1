-- Deletes a key under a token.
--
-- KEYS      see fenced_check.lua, then
--   2       key
-- ARGV      see fenced_check.lua
-- Result    { 'done', 1 }, or { 'done', 0 } if there was no such key; or see fenced_check.lua

return { 'done', redis.call('DEL', KEYS[2]) }
