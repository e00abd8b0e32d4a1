-- The common case of release.lua, before anything else is even defined: one name with one grant, which is this holder's,
-- and nobody who waits. Whatever is not that simple falls through to the whole rule.

if #ARGV == 6 and ARGV[3] == 'grants' then
  local call, pack, unpack = redis.call, struct.pack, struct.unpack
  local HEAD, END = '>BBI8I8I8I8I8BI4I4I4', '>c16I8I8I4c0I4c0'
  -- Head, and an end that nobody forced.
  local ENDED = '>BBI8I8I8I8I8BI4I4I4c16I8I8I4I4'
  local key, name = KEYS[1], ARGV[6]:sub(13)
  local found = call('HMGET', key, '', name)
  local about, bytes = found[1], found[2]
  if about and bytes then
    local form, kind, capacity, version, last_token, indexed, delayed, how, grants, tickets, claims, at =
      unpack(HEAD, bytes)
    if form == 1 and grants == 1 and tickets + claims + delayed == 0 then
      local time = call('TIME')
      local micros = time[1] * 1000000 + time[2]
      local now = (micros - micros % 1000) / 1000
      local epoch, top = unpack('>c8I8', about)
      local known, seen = unpack('>c8I8', ARGV[2])
      local _, named = unpack('>I4I8', ARGV[6])
      if how > 0 then
        _, _, _, _, _, at = unpack(END, bytes, at)
      end
      local holder, token, _, till = unpack('>c16I8I8I8', bytes, at)
      if epoch == known and top >= seen and holder == ARGV[4] and token == named and till > now then
        -- So long what has ended is remembered; RETENTION in bucket.lua.
        local due = now + 60000
        if indexed == 0 or due < indexed then
          indexed = due
          call('ZADD', KEYS[2], due, name)
        end
        call('HSET', key, name, pack(ENDED, form, kind, capacity, version + 1, last_token, indexed, 0, 1, 0, 0, 0,
          holder, token, now, 0, 0))
        call('PUBLISH', ARGV[1] .. 'name:' .. name, '')
        return 1
      end
    end
  end
end

