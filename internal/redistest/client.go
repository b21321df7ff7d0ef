package redistest

import (
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Dial connects to the server over its Unix socket, which also works when it
// speaks only TLS. The test's end closes the connection.
func (s *Server) Dial(t testing.TB) redis.Conn {
	t.Helper()
	return s.dial(t)
}

func (s *Server) dial(t testing.TB, options ...redis.DialOption) redis.Conn {
	t.Helper()
	c := s.connect(t, options...)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// connect is dial for a caller that closes the connection itself.
func (s *Server) connect(t testing.TB, options ...redis.DialOption) redis.Conn {
	t.Helper()
	if s.password != "" {
		options = append(options, redis.DialPassword(s.password))
	}
	c, err := redis.Dial("unix", s.Socket(), options...)
	if err != nil {
		t.Fatalf("redistest: cannot connect to redis-server at %s: %v", s.Socket(), err)
	}
	return c
}

// Do sends one command over a connection of its own and returns redigo's reply.
// An error ends the test.
func (s *Server) Do(t testing.TB, command string, args ...any) any {
	t.Helper()
	c := s.connect(t, redis.DialReadTimeout(startLimit))
	defer c.Close()
	reply, err := c.Do(command, args...)
	if err != nil {
		t.Fatalf("redistest: %s %v: %v", command, args, err)
	}
	return reply
}

// Text is Do for a command that answers one string; a missing key is "".
func (s *Server) Text(t testing.TB, command string, args ...any) string {
	t.Helper()
	text, err := redis.String(s.Do(t, command, args...), nil)
	if err != nil && err != redis.ErrNil {
		t.Fatalf("redistest: %s %v: %v", command, args, err)
	}
	return text
}

// Int is Do for a command that answers a number; a missing key is 0.
func (s *Server) Int(t testing.TB, command string, args ...any) int {
	t.Helper()
	n, err := redis.Int(s.Do(t, command, args...), nil)
	if err != nil && err != redis.ErrNil {
		t.Fatalf("redistest: %s %v: %v", command, args, err)
	}
	return n
}

// List is Do for a command that answers several strings, in the order given.
func (s *Server) List(t testing.TB, command string, args ...any) []string {
	t.Helper()
	list, err := redis.Strings(s.Do(t, command, args...), nil)
	if err != nil && err != redis.ErrNil {
		t.Fatalf("redistest: %s %v: %v", command, args, err)
	}
	return list
}

// Keys returns the names of all keys, sorted.
func (s *Server) Keys(t testing.TB) []string {
	t.Helper()
	keys := s.List(t, "KEYS", "*")
	sort.Strings(keys)
	return keys
}

// dumpScript reads every key at one instant, so that a snapshot never shows a
// state between two commands.
//
// KEYS none, ARGV the prefix. Returns {key, type, ttl in s, value as the type's command gives it}….
const dumpScript = `
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if string.sub(key, 1, #ARGV[1]) == ARGV[1] then
    local kind, value = redis.call('TYPE', key).ok, {}
    if kind == 'string' then value = redis.call('GET', key)
    elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
    elseif kind == 'set' then value = redis.call('SMEMBERS', key)
    elseif kind == 'hash' then value = redis.call('HGETALL', key)
    elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    end
    found[#found + 1] = {key, kind, redis.call('TTL', key), value}
  end
end
return found`

// Snapshot returns the keys that start with ns at one instant, sorted by name;
// "" is all of them. Golden records have the same form.
func (s *Server) Snapshot(t testing.TB, ns string) []Key {
	t.Helper()
	rows, err := redis.Values(s.Do(t, "EVAL", dumpScript, 0, ns), nil)
	if err != nil {
		t.Fatalf("redistest: snapshot of %q: %v", ns, err)
	}
	keys := make([]Key, 0, len(rows))
	for _, row := range rows {
		k, err := keyOf(row)
		if err != nil {
			t.Fatalf("redistest: snapshot of %q: %v", ns, err)
		}
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].Key < keys[j].Key })
	return keys
}

// Dump is Snapshot as a map from key to value; see Key for the values' types.
func (s *Server) Dump(t testing.TB, ns string) map[string]any {
	t.Helper()
	return Values(s.Snapshot(t, ns))
}

func keyOf(row any) (Key, error) {
	fields, err := redis.Values(row, nil)
	if err != nil {
		return Key{}, err
	}
	var k Key
	var value any
	if _, err := redis.Scan(fields, &k.Key, &k.Type, &k.TTL, &value); err != nil {
		return Key{}, err
	}
	if k.Type == "string" {
		k.Value, err = redis.String(value, nil)
		return k, err
	}
	list, err := redis.Strings(value, nil)
	if err != nil {
		return Key{}, err
	}
	switch k.Type {
	case "set":
		sort.Strings(list)
		k.Value = list
	case "hash":
		hash := map[string]string{}
		for i := 0; i+1 < len(list); i += 2 {
			hash[list[i]] = list[i+1]
		}
		k.Value = hash
	case "zset":
		scores := map[string]float64{}
		for i := 0; i+1 < len(list); i += 2 {
			if scores[list[i]], err = strconv.ParseFloat(list[i+1], 64); err != nil {
				return Key{}, err
			}
		}
		k.Value = scores
	default:
		k.Value = list
	}
	return k, nil
}

// Eventually waits until cond holds and ends the test if it does not within
// the time given, or two minutes if that is more: a busy machine is no reason to fail. what names the condition in the message. What takes
// seconds is asked for less often.
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	within = max(within, 2*time.Minute)
	began, wait := time.Now(), time.Millisecond
	for !cond() {
		if time.Since(began) >= within {
			t.Fatalf("redistest: within %v this did not happen: %s", within, strings.TrimSpace(what))
		}
		time.Sleep(wait)
		most := max(20*time.Millisecond, min(time.Since(began)/20, 100*time.Millisecond))
		wait = min(2*wait, most)
	}
}
