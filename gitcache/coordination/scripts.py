"""Lua scripts for Redis; each is one atomic step.

The scripts use the time of Redis, so that no replica's clock matters. A lease is
`name incarnation`; it is valid while that incarnation sends heartbeats, which a paused replica
does not. Every change has a number, so that a reader detects missed changes.

Keys: 1 members (sorted set: name, last heartbeat in ms), 2 about (name to `incarnation joined
address`), 3 owners (repository to lease), 4 prepared (repository to name), 5 states (repository
to sealed state), 6 changes (counter), 7 the channel of events.
"""

_LIBRARY = """
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function tell(kind, repository, text)
  local number = redis.call('INCR', KEYS[6])
  redis.call('PUBLISH', KEYS[7], kind .. ' ' .. number .. ' ' .. repository .. ' ' .. text)
end
local function lives(lease, ttl)
  if not lease then return false end
  local name, incarnation = string.match(lease, '^(%S+) (%S+)$')
  local about = name and redis.call('HGET', KEYS[2], name)
  if not about or string.match(about, '^%S+') ~= incarnation then return false end
  local seen = redis.call('ZSCORE', KEYS[1], name)
  return seen and now() - seen <= ttl
end
"""

BEAT = (
    _LIBRARY
    + """
-- ARGV: name, incarnation, address, ttl in ms, '1' to join
local time, ttl = now(), tonumber(ARGV[4])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. (time - ttl))) do
  redis.call('ZREM', KEYS[1], name)
  redis.call('HDEL', KEYS[2], name)
  tell('place', '-', name)
end
if ARGV[5] == '1' then
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. ' ' .. time .. ' ' .. ARGV[3])
  redis.call('ZADD', KEYS[1], time, ARGV[1])
  tell('place', '-', ARGV[1])
elseif not lives(ARGV[1] .. ' ' .. ARGV[2], ttl) then
  return {0}
end
redis.call('ZADD', KEYS[1], time, ARGV[1])
local reply = {1, time, tonumber(redis.call('GET', KEYS[6]) or '0')}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  reply[#reply + 1] = name .. ' ' .. (redis.call('HGET', KEYS[2], name) or '')
end
return reply
"""
)

CLAIM = (
    _LIBRARY
    + """
-- ARGV: repository, lease, ttl in ms
local ttl, holder = tonumber(ARGV[3]), redis.call('HGET', KEYS[3], ARGV[1])
if not lives(ARGV[2], ttl) then return 0 end
if holder == ARGV[2] then return 1 end
if lives(holder, ttl) then return 0 end
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
redis.call('HDEL', KEYS[4], ARGV[1])
tell('owner', ARGV[1], ARGV[2])
return 1
"""
)

RELEASE = (
    _LIBRARY
    + """
-- ARGV: repository, lease
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[3], ARGV[1])
tell('owner', ARGV[1], '-')
return 1
"""
)

PUBLISH = (
    _LIBRARY
    + """
-- ARGV: repository, lease, ttl in ms, sealed state
local holder = redis.call('HGET', KEYS[3], ARGV[1])
if holder ~= ARGV[2] or not lives(holder, tonumber(ARGV[3])) then return 0 end
redis.call('HSET', KEYS[5], ARGV[1], ARGV[4])
tell('state', ARGV[1], ARGV[4])
return 1
"""
)

PREPARE = (
    _LIBRARY
    + """
-- ARGV: repository, name
redis.call('HSET', KEYS[4], ARGV[1], ARGV[2])
tell('prepared', ARGV[1], ARGV[2])
return 1
"""
)

TELL = (
    _LIBRARY
    + """
-- ARGV: kind, repository, text
tell(ARGV[1], ARGV[2], ARGV[3])
return 1
"""
)

LEAVE = (
    _LIBRARY
    + """
-- ARGV: name, incarnation
local about = redis.call('HGET', KEYS[2], ARGV[1])
if not about or string.match(about, '^%S+') ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
tell('place', '-', ARGV[1])
return 1
"""
)
