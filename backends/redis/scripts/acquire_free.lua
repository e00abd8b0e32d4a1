-- The common case of acquire.lua, before anything else is even defined: one name that nobody holds, awaits or has
-- confirmed, and that has no capacity of its own. Whatever is not that simple falls through to the whole rule.

if #ARGV == 7 and #KEYS == 3 then
  local call, pack, unpack = redis.call, struct.pack, struct.unpack
  local HEAD, ABOUT = '>BBI8I8I8I8I8BI4I4I4', '>c8I8I8I4'
  -- Head, whatever is known of the last end, and one grant.
  local HELD = '>BBI8I8I8I8I8BI4I4I4c0c16I8I8I8BI4I4I4c0I4c0'
  local key, name = KEYS[1], ARGV[7]:sub(13)
  local found = call('HMGET', key, '', name)
  local about, bytes = found[1], found[2]
  local form, capacity, version, last_token, indexed, delayed, how, grants, tickets, claims, after, _ =
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, nil, nil
  if bytes then
    form, _, capacity, version, last_token, indexed, delayed, how, grants, tickets, claims, after = unpack(HEAD, bytes)
  end
  if about and form == 1 and grants + tickets + claims + delayed + capacity == 0 then
    local time = call('TIME')
    local micros = time[1] * 1000000 + time[2]
    local now = (micros - micros % 1000) / 1000
    local epoch, top, quarantine, count = unpack(ABOUT, about)
    local known, seen = unpack('>c8I8', ARGV[2])
    local holder, ttl, delay, floor, kind, mode = unpack('>c16I8I4I8BBB', ARGV[3])
    local _, units, limit = unpack('>I4I4I4', ARGV[7])
    local is_small = units <= limit or mode == 1
    if epoch == known and top >= seen and quarantine <= now and is_small then
      local till = now + ttl
      local next_token = top < micros and micros or top + 1
      local token = math.max(next_token, last_token + 1, floor)
      version = version == 0 and next_token or version + 1
      if not bytes then
        call('ZADD', KEYS[3], 0, name)
      end
      if indexed == 0 or till < indexed then
        indexed = till
        call('ZADD', KEYS[2], till, name)
      end
      -- All at once: every string that comes into being here takes its time.
      call('HSET', key, '', pack(ABOUT, epoch, token, quarantine, count), name,
        pack(HELD, form, kind, 0, version, token, indexed, 0, how, 1, 0, 0,
          bytes and bytes:sub(after) or '', holder, token, now, till, mode, units, delay, #ARGV[4], ARGV[4],
          #ARGV[6], ARGV[6]))
      return pack('>I8I8I8', now, token, till)
    end
  end
end

