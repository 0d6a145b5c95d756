"""What Redis is asked, each in one step. EVAL only, so every Redis from 6 on and Valkey will do.

    specgate:{limits}:epoch            drawn anew whenever Redis lost its memory; a caller with another is told LOST
    specgate:{limits}:<subject>:runs   sorted set: id of a running request → when its lease ends, in milliseconds
    specgate:{limits}:<subject>:spent  hash: second → "requests input output" charged in it

KEYS are the epoch, then both keys of each subject. ARGV are the time in milliseconds ('' for Redis' own), the epoch,
then what each script says. `rules` has the law; here it is repeated where the counters are.
"""

PREAMBLE = """
local WINDOW = 60
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return {'LOST'} end
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local second = math.floor(now / 1000)

local function parsed(value)
  local requests, input, output = string.match(value, '^(-?%d+) (-?%d+) (-?%d+)$')
  return tonumber(requests), tonumber(input), tonumber(output)
end

local function spelt(requests, input, output)
  return string.format('%.0f %.0f %.0f', requests, input, output)
end

local function usage(runs, spent)
  redis.call('ZREMRANGEBYSCORE', runs, '-inf', now)
  local found = {redis.call('ZCARD', runs), 0, 0, 0, -1}
  local flat = redis.call('HGETALL', spent)
  for i = 1, #flat, 2 do
    local charged = tonumber(flat[i])
    if charged < second - WINDOW then
      redis.call('HDEL', spent, flat[i])
    elseif charged <= second then
      local requests, input, output = parsed(flat[i + 1])
      found[2], found[3], found[4] = found[2] + requests, found[3] + input, found[4] + output
      found[5] = math.max(found[5], charged)
    end
  end
  return found
end

local function usages()
  local found = {}
  for i = 2, #KEYS, 2 do found[#found + 1] = usage(KEYS[i], KEYS[i + 1]) end
  return found
end

local function add(spent, at, requests, input, output)
  local before = redis.call('HGET', spent, at)
  if before then
    local r, i, o = parsed(before)
    requests, input, output = requests + r, input + i, output + o
  end
  redis.call('HSET', spent, at, spelt(requests, input, output))
  redis.call('EXPIRE', spent, 3 * WINDOW)
end

local function lease(runs, id, lease_ms)
  redis.call('ZADD', runs, now + lease_ms, id)
  redis.call('PEXPIRE', runs, 4 * lease_ms)
end

-- limits: four for each subject from ARGV[first] on, '' for none
local function over(needs, found, first)
  for dimension = 1, 4 do
    for subject = 1, #found do
      local limit = tonumber(ARGV[first + 4 * (subject - 1) + dimension - 1])
      if limit and needs[dimension] > 0 and found[subject][dimension] + needs[dimension] > limit then
        return {'REFUSED', now, found, subject, dimension, redis.call('HGETALL', KEYS[2 * subject + 1])}
      end
    end
  end
end
"""

# id, length of a lease in milliseconds, input and output tokens; limits
RESERVE = """
local needs = {1, 1, tonumber(ARGV[5]), tonumber(ARGV[6])}
local found = usages()
local refused = over(needs, found, 7)
if refused then return refused end
for subject = 1, #found do
  local first = 7 + 4 * (subject - 1)
  if ARGV[first] ~= '' then lease(KEYS[2 * subject], ARGV[3], tonumber(ARGV[4])) end
  if ARGV[first + 1] ~= '' or ARGV[first + 2] ~= '' or ARGV[first + 3] ~= '' then
    add(KEYS[2 * subject + 1], string.format('%.0f', second), 1, needs[3], needs[4])
  end
end
return {'HELD', now, found}
"""

# second of the charge, by how many requests, input and output tokens, id of what ended or ''; limits
CHANGE = """
local by = {0, tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])}
local found = usages()
local refused = over(by, found, 8)
if refused then return refused end
for subject = 1, #found do
  local runs, spent = KEYS[2 * subject], KEYS[2 * subject + 1]
  if ARGV[7] ~= '' then redis.call('ZREM', runs, ARGV[7]) end
  if redis.call('HEXISTS', spent, ARGV[3]) == 1 then add(spent, ARGV[3], by[2], by[3], by[4]) end
end
return {'HELD', now, found}
"""

# none
LOOK = "return {'HELD', now, usages()}"

# length of a lease, number n of subjects; an id for each of the first n; then for each of the other subjects
# second, requests, input and output tokens
RESTORE = """
local leases = tonumber(ARGV[4])
for i = 1, leases do lease(KEYS[2 * i], ARGV[4 + i], tonumber(ARGV[3])) end
local first = 5 + leases
for i = 2 * leases + 3, #KEYS, 2 do
  if tonumber(ARGV[first]) >= second - WINDOW then
    add(KEYS[i], ARGV[first], tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3]))
  end
  first = first + 4
end
return {'HELD', now, {}}
"""
