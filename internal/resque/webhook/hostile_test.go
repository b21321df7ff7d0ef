package webhook

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// Entries that no process wrote are passed over, whatever they are, and their bytes stay in Redis. Those beside them are taken.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	if err := s.Attend(c, "ops"); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", MostEvent+1)
	many := redis.Args{"resque:go:webhook:ops", "*"}
	for n := range 5000 {
		many = many.Add(strconv.Itoa(n), "x")
	}
	add(t, server, 1)
	foreign := []redis.Args{
		{"resque:go:webhook:ops", "*", "x", "y"}, {"resque:go:webhook:ops", "*", "n", "x", "e", "{}", "a", ""}, {"resque:go:webhook:ops", "*", "n", "1e308", "e", "{}", "a", ""},
		{"resque:go:webhook:ops", "*", "n", strings.Repeat("9", 400), "e", "{}", "a", ""}, {"resque:go:webhook:ops", "*", "n", "-1", "e", "{}", "a", ""},
		{"resque:go:webhook:ops", "*", "n", "2", "e", large, "a", ""}, {"resque:go:webhook:ops", "*", "n", "2", "e", "{}", "a", large}, {"resque:go:webhook:ops", "*", "e", "{}", "a", "", "n", "2"}, many,
	}
	for _, args := range foreign {
		server.Do(t, "XADD", args...)
	}
	add(t, server, 1)
	fast := Pace{Every: time.Millisecond, Burst: 1}
	taken, err := s.Take(c, "ops", fast, 100)
	if err != nil || len(taken.Entries) != 2+len(foreign) || taken.Cut != 0 {
		t.Fatalf("%d entries, %d cut, %v", len(taken.Entries), taken.Cut, err)
	}
	claimed, err := s.Claim(c, "ops", 0, 100)
	if err != nil || len(claimed) != len(taken.Entries) {
		t.Fatalf("%d entries, %v", len(claimed), err)
	}
	for _, all := range [][]Entry{taken.Entries, claimed} {
		for i, e := range all {
			if own := i == 0 || i == len(all)-1; e.ID == "" || e.Foreign == own || own != (e.Event == "{}") || e.Args != "" {
				t.Errorf("entry %d: %t, %d and %d bytes", i, e.Foreign, len(e.Event), len(e.Args))
			}
		}
	}
}

// A state that another program wrote, or a server with another clock, stops no deliverer.
func TestForeignState(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	later := strconv.FormatInt(time.Now().Add(24*time.Hour).UnixMilli(), 10)
	slow := Pace{Every: time.Hour, Burst: 5, Receiver: "ab", MostRest: time.Hour}
	for _, bad := range []string{"x", "", "-5", "1e308", strings.Repeat("9", 400), later} {
		server.Do(t, "FLUSHALL")
		if err := s.Attend(c, "ops"); err != nil {
			t.Fatal(err)
		}
		add(t, server, 1)
		for _, field := range []string{"next", "read", "cut", "said"} {
			server.Do(t, "HSET", "resque:go:webhook:ops:state", field, bad)
		}
		server.Do(t, "HSET", "resque:go:webhook:ops:state", "lease", "z "+bad, "rest", bad+" ab")
		if taken, err := s.Take(c, "ops", slow, 1); err != nil || len(taken.Entries) != 1 || taken.Cut < 0 || taken.Said < 0 {
			t.Errorf("%.20q: %+v, %v", bad, taken, err)
		}
		if leads, err := s.Lead(c, "ops", "a", time.Minute); !leads || err != nil {
			t.Errorf("%.20q: leads %v, %v", bad, leads, err)
		}
		server.Do(t, "DEL", "resque:go:webhook:ops")
		if err := s.Attend(c, "ops"); err != nil {
			t.Fatal(err)
		}
		server.Do(t, "HSET", "resque:go:webhook:ops:state", "cut", bad)
		add(t, server, 1)
		if taken, err := s.Take(c, "ops", slow, 1); err != nil || len(taken.Entries) != 1 {
			t.Fatalf("%.20q: %+v, %v", bad, taken, err)
		}
		server.Do(t, "XTRIM", "resque:go:webhook:ops", "MAXLEN", 0)
		if _, err := s.Claim(c, "ops", 0, 10); err != nil {
			t.Errorf("%.20q: claims %v", bad, err)
		}
	}

	server.Do(t, "DEL", "resque:go:webhook:ops:state")
	server.Do(t, "HSET", "resque:go:webhook:ops:state", "wrong:a", "{}", "wrong:b", strings.Repeat("x", MostEvent), strings.Repeat("y", MostEvent), "z")
	if said, err := s.Wrong(c, "ops"); err != nil || len(said) != 1 || said["a"] != "{}" {
		t.Errorf("%d things are wrong, %v", len(said), err)
	}
	for n := range mostFields {
		server.Do(t, "HSET", "resque:go:webhook:ops:state", "wrong:"+strconv.Itoa(n), "{}")
	}
	if said, err := s.Wrong(c, "ops"); err == nil || !strings.Contains(err.Error(), "has 303 fields, where deliverers write less than 300") {
		t.Errorf("%d things are wrong, %v", len(said), err)
	}
}

// What a receiver asks for is asked for of all deliverers, and of no other receiver.
func TestRest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	if err := s.Attend(c, "ops"); err != nil {
		t.Fatal(err)
	}
	add(t, server, 3)
	server.Do(t, "CONFIG", "SET", "maxmemory", 1)
	defer server.Do(t, "CONFIG", "SET", "maxmemory", 0)
	if err := s.Rest(c, "ops", "ab", time.Hour); err != nil {
		t.Fatal(err)
	}
	p := Pace{Every: time.Millisecond, Burst: 10, Receiver: "ab", MostRest: time.Hour}
	if taken, err := s.Take(c, "ops", p, 1); err != nil || taken.Wait < 59*time.Minute || taken.Wait > time.Hour {
		t.Errorf("%+v, %v", taken, err)
	}
	p.Receiver = "cd"
	if taken, err := s.Take(c, "ops", p, 1); err != nil || len(taken.Entries) != 1 {
		t.Errorf("%+v, %v", taken, err)
	}
	if err := s.Rest(c, "ops", "ab", 0); err != nil {
		t.Fatal(err)
	}
	p.Receiver = "ab"
	if taken, err := s.Take(c, "ops", p, 1); err != nil || len(taken.Entries) != 1 {
		t.Errorf("%+v, %v", taken, err)
	}
}
