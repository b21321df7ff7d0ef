package embedded_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// call is one command and, where the answers have no fixed order, that they are
// compared sorted.
type call struct {
	sorted bool
	args   []any
}

func do(args ...any) call  { return call{args: args} }
func set(args ...any) call { return call{args: args, sorted: true} }
func eval(text string, keysAndArgs ...any) call {
	return call{args: append([]any{"EVAL", text}, keysAndArgs...)}
}

// TestAnswersAsRedis sends the commands goworker and its scripts use to a real
// Redis and to the embedded one and compares the answers; of errors, the code.
func TestAnswersAsRedis(t *testing.T) {
	t.Parallel()
	const bytes = "\x00\xff\r\n{\"a\":\"\u2028\"}"
	for name, calls := range map[string][]call{
		"connection": {do("PING"), do("ECHO", "x"), do("SELECT", 0), do("CLIENT", "SETNAME", "x")},
		"lists": {
			do("RPUSH", "l", "a", "b", "c", bytes), do("LPUSH", "l", "y", "z"), do("LLEN", "l"), do("LLEN", "none"), do("LRANGE", "l", 0, -1),
			do("LRANGE", "l", 1, 2), do("LPOP", "l", 2), do("LPOP", "l"), do("LPOP", "none", 2), do("LPOP", "none"), do("LREM", "l", 0, "b"),
			do("LINDEX", "l", 0), do("LINSERT", "l", "before", "x", "y"), do("LINSERT", "l", "before", "c", "y"), do("LINDEX", "l", -1), do("LINDEX", "l", 99), do("LSET", "l", 0, "x"), do("LSET", "l", 99, "x"), do("LTRIM", "l", 0, 0), do("LRANGE", "l", 0, -1),
			do("RPOPLPUSH", "l", "m"),
			do("LMOVE", "m", "l", "LEFT", "RIGHT"), do("LPOP", "l", 99), do("EXISTS", "l"),
		},
		"hashes": {
			do("HSET", "h", "a", 1, "b", bytes, "c", 3), do("HGET", "h", "b"), do("HGET", "h", "x"), do("HMGET", "h", "a", "x", "c"),
			do("HDEL", "h", "a", "x"),
			set("HGETALL", "h"), set("HKEYS", "h"), set("HVALS", "h"), do("HLEN", "h"), do("HEXISTS", "h", "c"), do("HINCRBY", "h", "c", 2),
			do("HINCRBY", "h", "b", 1),
			do("HSETNX", "h", "c", 9), do("HGETALL", "none"), do("HDEL", "none", "a"), do("HSTRLEN", "h", "b"),
			do("HSCAN", "h", 0, "MATCH", "c", "COUNT", 1000),
		},
		"sets": {
			do("SADD", "s", "a", "b"), do("SADD", "s", "b", "c"), set("SMEMBERS", "s"), do("SISMEMBER", "s", "a"), do("SMISMEMBER", "s", "a", "x"),
			do("SREM", "s", "a", "x"), do("SCARD", "s"), do("SMEMBERS", "none"), do("SISMEMBER", "none", "a"),
		},
		"sorted sets": {
			do("ZADD", "z", 1700000000123, "p", 5, "q"), do("ZADD", "z", "XX", 1700000009123, "p"), do("ZADD", "z", "XX", 1, "new"),
			do("ZADD", "z", "XX", "CH", 1700000019123, "p"), do("ZADD", "z", "NX", 1, "q"), do("ZADD", "z", "GT", "CH", 7, "q"), do("ZSCORE", "z", "p"),
			do("ZSCORE", "z", "x"),
			do("ZRANGE", "z", 0, -1, "WITHSCORES"), do("ZRANGEBYSCORE", "z", "-inf", 1700000000123, "LIMIT", 0, 10),
			do("ZRANGEBYSCORE", "z", "(5", "+inf", "WITHSCORES"),
			do("ZCOUNT", "z", 0, 100), do("ZCARD", "z"), do("ZMSCORE", "z", "p", "x"), do("ZINCRBY", "z", 2, "q"), do("ZREM", "z", "q", "x"),
			do("ZREMRANGEBYSCORE", "z", 0, 10),
		},
		"strings and keys": {
			do("SET", "k", bytes), do("GET", "k"), do("SET", "k", "v", "NX"), do("SET", "new", "v", "NX", "EX", 60), do("SET", "new", "v", "PX", 60000),
			eval("redis.call('SET', 'new', 'v', 'PX', 60000) return redis.call('TTL', 'new')", 0),
			do("INCR", "n"), do("INCRBY", "n", 5), do("DECRBY", "n", 2), do("INCR", "k"), do("MGET", "k", "n", "none"),
			do("EXISTS", "k", "n", "none", "k"), do("TYPE", "k"), do("TYPE", "none"),
			do("EXPIRE", "k", 60), do("EXPIRE", "none", 60), do("DEL", "k", "n", "none"), do("UNLINK", "new"), do("SETNX", "x", 1),
			do("SETEX", "x", 60, "v"), do("GETSET", "x", 2), do("GETDEL", "x"), do("RENAME", "none", "x"),
			do("SET", "k1", "v"), do("SET", "k2", "v"), do("SET", "other", "v"), set("KEYS", "k*"), do("PERSIST", "k1"), do("FLUSHDB"), do("DBSIZE"),
		},
		"wrong types": {
			do("SET", "k", "v"), do("RPUSH", "l", "v"), do("LPOP", "k", 1), do("RPUSH", "k", "v"), do("LPUSH", "k", "v"), do("LLEN", "k"),
			do("LRANGE", "k", 0, 1), do("HSET", "k", "a", "b"), do("HDEL", "k", "a"),
			do("HGETALL", "k"), do("HLEN", "k"), do("HMGET", "k", "a"), do("SADD", "k", "a"), do("SMEMBERS", "k"), do("SREM", "k", "a"),
			do("ZADD", "k", 1, "a"), do("ZSCORE", "k", "a"), do("ZREM", "k", "a"),
			do("ZCARD", "k"), do("SCARD", "k"), do("HEXISTS", "k", "a"), do("SISMEMBER", "k", "a"), do("GET", "l"), do("INCR", "l"), do("INCRBY", "l", 1),
			do("SET", "l", "v"), do("LREM", "k", 0, "x"),
		},
		"transactions": {
			do("MULTI"), do("RPUSH", "l", "a"), do("SADD", "s", "q"), do("EXEC"), do("MULTI"), do("SET", "x", 1), do("DISCARD"), do("EXISTS", "x"), do("EXEC"),
			do("SET", "k", "v"), do("MULTI"), do("INCR", "k"), do("INCR", "n"), do("EXEC"), do("GET", "n"),
			do("WATCH", "w"), do("SET", "w", 1), do("MULTI"), do("SET", "w", 2), do("EXEC"), do("GET", "w"), do("UNWATCH"),
			do("MULTI"), eval("return redis.call('INCR', KEYS[1])", 1, "n"), do("EXEC"),
		},
		"scripts: values": {
			eval("return 1"), // an argument is missing
			eval("return {1, 2.9, 'a', false, true, {}, {'b', {'c'}}}", 0), eval("return {1, nil, 3}", 0), eval("return nil", 0), eval("return false", 0),
			eval("return {}", 0), eval("return 1e15", 0),
			eval("return {KEYS[1], ARGV[1], #KEYS, #ARGV, ARGV[2]}", 1, "k", bytes), eval("return {ok='FINE'}", 0), eval("return {err='CODE text'}", 0),
			eval("return redis.status_reply('FINE')", 0), eval("return redis.error_reply('CODE text')", 0), eval("return redis.sha1hex('x')", 0),
			eval("return tostring(1700000000123)", 0), eval("return string.format('%.0f', 1700000000123)", 0),
			eval("return string.format('%d', 1700000000123)", 0), eval("return 1700000000123 .. ''", 0),
			eval("return tonumber('12') + 1", 0),
			eval("return {string.sub('abc', 2), string.find('a:b', ':', 1, true), table.concat({'a','b'}, ','), #'abc', math.floor(2.7), math.min(1,2)}", 0),
			eval("local t = {} for i = 1, 3 do t[#t+1] = i end table.sort(t, function(a, b) return a > b end) table.insert(t, 1, 9) table.remove(t) return t", 0),
			eval("local function add(a, ...) return a + select('#', ...) end return add(1, 2, 3)", 0), eval("return {next({}) == nil, type({}), type('')}", 0),
			eval("for k, v in pairs({a=1}) do return {k, v} end", 0), eval("return cjson.encode({1,2}) .. cjson.decode('{\"a\":\"b\"}').a", 0),
			eval("return {unpack(ARGV, 2, 3)}", 0, "a", "b", "c", "d"),
			eval("undefined_variable = 1", 0), eval("return undefined_variable", 0), eval("not lua", 0),
		},
		"scripts: commands": {
			eval("return redis.call('SET', KEYS[1], ARGV[1])", 1, "k", bytes), eval("return redis.call('SET', KEYS[1], 'x', 'NX')", 1, "k"),
			eval("return redis.call('GET', KEYS[1])", 1, "k"),
			eval("return redis.call('GET', 'none') == false", 0), eval("return redis.call('LPOP', 'none') == false", 0),
			eval("return redis.call('LPOP', 'none', 5) == false", 0),
			eval("return redis.call('SET', 'k', 'x', 'NX') == false", 0), eval("return redis.call('HGET', 'none', 'f') == false", 0),
			eval("return redis.call('ZSCORE', 'none', 'f') == false", 0),
			eval("return redis.call('HMGET', 'none', 'a', 'b')[1] == false", 0), eval("return #redis.call('HMGET', 'none', 'a', 'b')", 0),
			eval("return #redis.call('LRANGE', 'none', 0, -1)", 0), eval("return #redis.call('HGETALL', 'none')", 0),
			eval("return redis.call('TYPE', 'k').ok", 0), eval("return redis.call('TYPE', 'none').ok", 0), eval("return redis.call('TYPE', 'k')", 0),
			eval("return redis.call('SET', 'k', 'v').ok", 0), eval("return redis.call('PING').ok", 0),
			eval("redis.call('RPUSH', 'l', unpack(ARGV)) return redis.call('LPOP', 'l', 2)", 0, "a", "b", "c"),
			eval("return redis.call('LLEN', 'l') + 1", 0), eval("return redis.call('EXISTS', 'l', 'k', 'none')", 0),
			eval("redis.call('HSET', 'h', unpack(ARGV)) return redis.call('HGETALL', 'h')", 0, "a", "1"),
			eval("return redis.call('HDEL', 'h', 'a', 'b')", 0), eval("return redis.call('HLEN', 'h')", 0),
			eval("redis.call('ZADD', 'z', ARGV[1], 'm') return redis.call('ZSCORE', 'z', 'm')", 0, 1700000000123),
			eval("redis.call('ZADD', 'z', 1700000000123 + 8000, 'm') return redis.call('ZSCORE', 'z', 'm')", 0),
			eval("return redis.call('ZADD', 'z', 'XX', 'CH', 5, 'm')", 0), eval("return redis.call('ZADD', 'z', 'XX', 5, 'no')", 0),
			eval("redis.call('INCRBY', 'n', 3) redis.call('INCRBY', 'n', ARGV[1]) return redis.call('GET', 'n')", 0, "4"),
			eval("return redis.call('SET', 'x', 5) and redis.call('GET', 'x')", 0), eval("redis.call('SET', 'x', 0.5) return redis.call('GET', 'x')", 0),
			eval("local t = redis.call('TIME') return {#t, type(t[1]), tonumber(t[1]) > 1700000000, tonumber(t[2]) < 1000000}", 0),
			eval("return redis.call('SMISMEMBER', 's', 'a')", 0), eval("return #redis.call('SMEMBERS', 's')", 0),
			eval("redis.call('SET', 'e', 'v', 'EX', 86400) return redis.call('TTL', 'e')", 0), eval("return redis.call('EXPIRE', 'e', 60)", 0),
			eval("return redis.call('DEL', 'e', 'none')", 0), eval("return redis.call('LREM', 'l', 1, 'c')", 0),
			eval("return redis.call('lpush', 'l', 'lower')", 0), eval("return redis.call('SCAN', 0, 'MATCH', 'zz*')", 0),
		},
		"scripts: errors": {
			do("SET", "k", "v"), eval("return redis.pcall('LPOP', 'k')", 0), eval("return redis.pcall('LPOP', 'k').err", 0),
			eval("local r = redis.pcall('LLEN', 'k') return type(r) == 'table' and r.err ~= nil", 0),
			eval("local r = redis.pcall('INCR', 'k') if r.err then return {'refused', redis.call('GET', 'k')} end", 0),
			eval("local r = redis.pcall('LLEN', 'none') return type(r)", 0), eval("local r = redis.pcall('HGET', 'k', 'f') return r.err and 1 or 0", 0),
			eval("return redis.pcall('NOSUCHCOMMAND').err ~= nil", 0), eval("return redis.call('NOSUCHCOMMAND')", 0),
			eval("return redis.pcall('GET').err ~= nil", 0),
			eval("local ok = pcall(redis.call, 'LPOP', 'k') return ok", 0), eval("error('x')", 0), do("EVALSHA", strings.Repeat("0", 40), 0),
			do("SCRIPT", "LOAD", "return ARGV[1]"), do("EVALSHA", "4ca238f611c9d0ae4e9a75a5dbac22aedc1e6a4d", 0, "x"),
			do("SCRIPT", "EXISTS", strings.Repeat("0", 40)), do("SCRIPT", "FLUSH"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real, ours := redistest.Start(t).Dial(t), dial(t, open(t, "embedded:"))
			for _, c := range calls {
				want, got := c.answer(real), c.answer(ours)
				if got != want {
					t.Errorf("%q answers %s, Redis %s", c.args, got, want)
				}
			}
		})
	}
}

// TestDiffersFromRedis lists the differences, so that they need not be found twice. It fails
// when a newer miniredis no longer differs.
func TestDiffersFromRedis(t *testing.T) {
	t.Parallel()
	real, ours := redistest.Start(t).Dial(t), dial(t, open(t, "embedded:"))
	for _, tc := range []struct {
		call        call
		redis, ours string
	}{
		{do("SET", "k", "v"), "string OK", "string OK"},
		{do("ZADD", "z", "1700000000000", "m"), "int64 1", "int64 1"},
		// A score that ends in many zeros is printed with an exponent. It is to be
		// read with ParseFloat, and compared with what was printed before.
		{do("ZSCORE", "z", "m"), `"1700000000000"`, `"1.7e+12"`},
		{eval("return tonumber(redis.call('ZSCORE', 'z', 'm')) == 1700000000000", 0), "int64 1", "int64 1"},
		// An error that ends a script has lost its code; one that pcall caught has not.
		{eval("return redis.call('LPOP', 'k')", 0), "error WRONGTYPE", "error ERR"},
		{eval("return redis.pcall('LPOP', 'k')", 0), "error WRONGTYPE", "error WRONGTYPE"},
		{eval("error({err='MINE x'})", 0), "error MINE", "error ERR"},
		// A transaction with a command that does not exist is executed without it.
		{do("MULTI"), "string OK", "string OK"},
		{do("NOSUCHCOMMAND"), "error ERR", "error ERR"},
		{do("EXEC"), "error EXECABORT", "[]"},
		// unpack ends near five thousand values instead of eight thousand.
		{eval("local t = {} for i = 1, 6000 do t[i] = i end return select('#', unpack(t))", 0), "int64 6000", "error ERR"},
		// It has no sections of INFO and so no redis_version; HELLO has one.
		{do("INFO", "nosuchsection"), `""`, "error section"},
		// No users, and no settings.
		{do("ACL", "WHOAMI"), `"default"`, "error ERR"},
		{do("CONFIG", "GET", "nosuchsetting"), "[]", "error ERR"},
		// No notice of changed keys.
		{do("CLIENT", "TRACKING", "OFF"), "string OK", "error ERR"},
		{eval("return type(bit) .. type(struct) .. type(cmsgpack)", 0), `"tabletabletable"`, "error ERR"},
	} {
		if got := tc.call.answer(real); got != tc.redis {
			t.Errorf("%q: Redis answers %s, not %s", tc.call.args, got, tc.redis)
		}
		if got := tc.call.answer(ours); got != tc.ours {
			t.Errorf("%q: the embedded one answers %s, not %s", tc.call.args, got, tc.ours)
		}
	}
}

// answer is the reply as text.
func (c call) answer(conn redis.Conn) string {
	reply, err := conn.Do(c.args[0].(string), c.args[1:]...)
	if err != nil {
		reply = err
	}
	return text(reply, c.sorted)
}

func text(reply any, sorted bool) string {
	var refusal redis.Error
	switch r := reply.(type) {
	case []byte:
		return fmt.Sprintf("%q", r)
	case error:
		if !errors.As(r, &refusal) {
			return "broken: " + r.Error()
		}
		code, _, _ := strings.Cut(string(refusal), " ")
		return "error " + code
	case []any:
		parts := make([]string, len(r))
		for i, part := range r {
			parts[i] = text(part, sorted)
		}
		if sorted {
			slices.Sort(parts)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprintf("%T %v", reply, reply)
}

// TestLargeScriptArguments sends as much as one exchange may.
func TestLargeScriptArguments(t *testing.T) {
	t.Parallel()
	c := dial(t, open(t, "embedded:"))
	script := redis.NewScript(1, `redis.call('RPUSH', KEYS[1], unpack(ARGV)) return redis.call('LPOP', KEYS[1], #ARGV)`)
	const n = 2000
	args := []any{"list"}
	for i := range n {
		args = append(args, fmt.Sprintf("%d %s", i, strings.Repeat("x", 2000)))
	}
	for range 2 { // by its text, then by its hash
		values, err := redis.Strings(script.Do(c, args...))
		if err != nil || len(values) != n || values[n-1] != args[n] {
			t.Fatalf("%d values came back, %v", len(values), err)
		}
	}
}

// TestPipeline sends many commands before it reads the first reply.
func TestPipeline(t *testing.T) {
	t.Parallel()
	c := dial(t, open(t, "embedded:"))
	const n = 5000
	for i := range n {
		if err := c.Send("RPUSH", "list", i, strings.Repeat("x", 200)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if length, err := redis.Int(c.Receive()); err != nil || length != 2*(i+1) {
			t.Fatalf("reply %d is %d, %v", i, length, err)
		}
	}
}

// TestScan walks all keys by pattern.
func TestScan(t *testing.T) {
	t.Parallel()
	c := dial(t, open(t, "embedded:"))
	for i := range 1500 {
		if err := c.Send("SET", fmt.Sprintf("resque:go:inflight:%d", i), i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Do("SET", "resque:go:processes", 1); err != nil {
		t.Fatal(err)
	}
	seen, cursor := map[string]bool{}, "0"
	for {
		reply, err := redis.Values(c.Do("SCAN", cursor, "MATCH", "resque:go:inflight:*", "COUNT", 100))
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		if _, err := redis.Scan(reply, &cursor, &keys); err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			seen[k] = true
		}
		if cursor == "0" {
			break
		}
	}
	if len(seen) != 1500 {
		t.Errorf("%d keys were found", len(seen))
	}
}
