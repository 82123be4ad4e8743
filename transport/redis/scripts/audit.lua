-- Fourth part, of the scripts in which somebody decides something: the audit log. An entry is JSON and holds the hash of
-- the one before; docs/audit.md tells what that proves. The server has SHA-1 alone, which can be made to collide.

local bxor, band, bnot, ror, rshift, tobit = bit.bxor, bit.band, bit.bnot, bit.ror, bit.rshift, bit.tobit
-- FIPS 180-4: of the first primes the fractional parts of the cube roots, and of the square roots.
local ROUNDS = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2}
local BEGIN = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
local WORDS = '>' .. string.rep('I4', 16)

local function add_block(sums, w)
  for i = 17, 64 do
    local x, y = w[i - 15], w[i - 2]
    w[i] = tobit(w[i - 16] + w[i - 7] + bxor(ror(x, 7), ror(x, 18), rshift(x, 3)) + bxor(ror(y, 17), ror(y, 19), rshift(y, 10)))
  end
  local a, b, c, d, e, f, g, h = unpack(sums)
  for i = 1, 64 do
    local t = h + bxor(ror(e, 6), ror(e, 11), ror(e, 25)) + bxor(band(e, f), band(bnot(e), g)) + ROUNDS[i] + w[i]
    local u = bxor(ror(a, 2), ror(a, 13), ror(a, 22)) + bxor(band(a, b), band(a, c), band(b, c))
    h, g, f, e, d, c, b, a = g, f, e, tobit(d + t), c, b, a, tobit(t + u)
  end
  for i, word in ipairs({a, b, c, d, e, f, g, h}) do sums[i] = tobit(sums[i] + word) end
end

local function sha256(text)
  local padded = text .. '\128' .. string.rep('\0', (55 - #text) % 64) .. struct.pack('>I4I4', 0, #text * 8)
  local sums = {unpack(BEGIN)}
  for at = 1, #padded, 64 do add_block(sums, {struct.unpack(WORDS, padded, at)}) end
  for i = 1, 8 do sums[i] = bit.tohex(sums[i]) end
  return table.concat(sums)
end

-- Beyond it Lua prints numbers with an exponent.
local MAX_SEQ = 1e12

local function seq_of(text)
  local seq = type(text) == 'string' and string.match(text, '^%d+$') and tonumber(text)
  return seq and seq < MAX_SEQ and seq
end

-- What the log's next entry follows; false where its head is none.
local function log_end()
  local head = call('HMGET', cell('audithead'), 'seq', 'hash')
  if not head[1] and not head[2] then return 0, '' end
  local has_hash = head[2] and #head[2] == 64 and not string.find(head[2], '%X')
  return has_hash and seq_of(head[1]), head[2]
end

local function last_seq()
  local last = redis.pcall('XREVRANGE', cell('audit'), '+', '-', 'COUNT', 1)
  return not last.err and last[1] and seq_of(string.match(last[1][1], '^%d+'))
end

-- Before the deed: what cannot be recorded is not done. `details`: a map with at least one field. Where the log cannot be
-- gone on with, the entry follows none, behind what stands there; where its stream takes no more entries it is the first
-- of a new one, and no number one. `muster audit verify` shows either.
local function note(actor, action, subject, tenant, details)
  local function append(seq, prev_hash)
    local body = cjson.encode({seq = seq, time_ms = now, actor = actor, action = action, subject = subject,
                               tenant = tenant, details = details, prev_hash = prev_hash})
    local hash = sha256(body)
    local added = redis.pcall('XADD', cell('audit'), 'MAXLEN', '~', text_of(A.audit_entries), seq .. '-0',
                              'body', body, 'hash', hash)
    local why = type(added) == 'table' and added.err
    if not why then return call('HSET', cell('audithead'), 'seq', seq, 'hash', hash) end
    if string.find(why, 'WRONGTYPE') or string.find(why, 'top item') or string.find(why, 'exhausted') then return false end
    error(why, 0)
  end
  local seq, prev_hash = log_end()
  if seq and append(seq + 1, prev_hash) then return end
  local last = last_seq()
  if last and append(last + 1, '') then return end
  call('DEL', cell('audit'))
  append((seq or last or 1) + 2, '')
end

-- What a task does to those below it follows from a decision that stands here already.
local function is_task(actor) return call('EXISTS', key('task', actor)) == 1 end
