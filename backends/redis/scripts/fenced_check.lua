-- Refuses a token lower than the highest one seen. This goes in front of a script that acts under a token; what follows
-- runs only if the token was let in, and in the same step.
--
-- KEYS
--   1        the fence, which keeps the highest token; in the slot of whatever else the script touches
-- ARGV
--   1        token
--   2        how long to remember it, in milliseconds; 0 for ever
-- Result, if what follows is not to run
--   { 'stale', highest token seen }
--   { 'corrupt' } if the fence holds something else

do
  local seen = redis.call('GET', KEYS[1])
  local highest = tonumber(seen or 0)
  if not highest then
    return { 'corrupt' }
  end
  if tonumber(ARGV[1]) < highest then
    return { 'stale', seen }
  end
  -- As it was given: a number of this language would lose its last digits on the way to text.
  if ARGV[2] == '0' then
    redis.call('SET', KEYS[1], ARGV[1])
  else
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  end
end

