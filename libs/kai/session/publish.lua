-- Publishes one session, atomically for readers; refused for a leader whose time is over.
-- KEYS: head, sessions, inflight, snaps, and the new snapshot's key
-- ARGV: epoch, version, digest, update, decisions, stream length, oldest stream id,
--       snapshot ('' for none), time to live in s, snapshots to keep, prefix of snapshot keys,
--       time for which sessions are kept in s,
--       id and JSON pairs of what is in flight...
local epoch, version = tonumber(ARGV[1]), tonumber(ARGV[2])
local head_epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0') or 0
if epoch < head_epoch then
  return redis.error_reply('FENCED ' .. string.format('%.0f', head_epoch))
end
local head_version = tonumber(redis.call('HGET', KEYS[1], 'version') or '0') or 0
if epoch == head_epoch and version <= head_version then
  -- A repetition after an answer was lost.
  return 0
end
-- Once a script has written anything a Redis that is full lets it write whatever it likes, and grows. So the first
-- write is one that may be refused, and changes nothing; then what is oldest makes room, and so for all else that
-- is kept there, too.
local asked = redis.pcall('HSETNX', KEYS[1], 'epoch', ARGV[1])
if type(asked) == 'table' and asked.err then
  local kept = redis.call('XLEN', KEYS[2])
  local old = redis.call('LRANGE', KEYS[4], 1, -1)
  if not string.find(asked.err, 'OOM', 1, true) or (kept < 2 and #old == 0) then
    return asked
  end
  redis.call('XTRIM', KEYS[2], 'MAXLEN', math.floor(kept / 2))
  if kept < 2 then
    for _, gone in ipairs(old) do
      redis.call('DEL', ARGV[11] .. gone)
    end
    redis.call('LTRIM', KEYS[4], 0, 0)
  end
end
if ARGV[8] ~= '' then
  redis.call('SET', KEYS[5], ARGV[8], 'EX', ARGV[9])
  -- An earlier term may have left one of the same version, which is no longer there to be removed.
  redis.call('LREM', KEYS[4], 0, ARGV[2])
  redis.call('LPUSH', KEYS[4], ARGV[2])
  local old = redis.call('LRANGE', KEYS[4], ARGV[10], -1)
  for _, gone in ipairs(old) do
    redis.call('DEL', ARGV[11] .. gone)
  end
  redis.call('LTRIM', KEYS[4], 0, ARGV[10] - 1)
  redis.call('HSET', KEYS[1], 'snapshot', ARGV[2])
end
redis.call('DEL', KEYS[3])
for index = 13, #ARGV, 2 do
  redis.call('HSET', KEYS[3], ARGV[index], ARGV[index + 1])
end
redis.call('XTRIM', KEYS[2], 'MINID', '~', ARGV[7])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[6], '*',
  'version', ARGV[2], 'epoch', ARGV[1], 'update', ARGV[4], 'decisions', ARGV[5])
-- Of a shard that is gone nobody publishes again.
redis.call('EXPIRE', KEYS[2], ARGV[12])
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'epoch', ARGV[1], 'digest', ARGV[3])
return 1
