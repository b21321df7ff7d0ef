package webhook

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var pace = Pace{Every: time.Minute, Burst: 3}

// add writes entries as the commits of jobs do.
func add(t *testing.T, server *redistest.Server, n int) {
	t.Helper()
	for range n {
		number := server.Int(t, "HINCRBY", "resque:go:webhook:ops:state", "written", 1)
		server.Do(t, "XADD", "resque:go:webhook:ops", "*", "n", number, "e", "{}", "a", "")
	}
}

// The pace is that of all deliverers together. The last delivery that may begin takes along what waits.
func TestPace(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	if _, err := s.Take(c, "ops", pace, 10); !errors.Is(err, ErrNoStream) {
		t.Errorf("without a stream: %v", err)
	}
	if err := s.Attend(c, "ops"); err != nil {
		t.Fatal(err)
	}
	take := func(most int) Taken {
		t.Helper()
		taken, err := s.Take(c, "ops", pace, most)
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	if taken := take(10); !taken.None {
		t.Errorf("of an empty stream: %+v", taken)
	}
	add(t, server, 20)
	if taken := take(10); len(taken.Entries) != 1 {
		t.Errorf("%+v", taken)
	}
	if taken := take(0); len(taken.Entries) != 0 || taken.Wait != 0 || taken.None {
		t.Errorf("a second try: %+v", taken)
	}
	if taken := take(10); len(taken.Entries) != 10 || taken.Cut != 0 {
		t.Errorf("%+v", taken)
	}
	if taken := take(10); taken.Wait <= 0 || taken.Wait > time.Minute {
		t.Errorf("%+v", taken)
	}
}

// At maxmemory a webhook goes on to deliver.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	if err := s.Attend(c, "ops"); err != nil {
		t.Fatal(err)
	}
	add(t, server, 2)
	server.Do(t, "CONFIG", "SET", "maxmemory", 1)
	defer server.Do(t, "CONFIG", "SET", "maxmemory", 0)
	if err := s.Attend(c, "ops"); err != nil {
		t.Error(err)
	}
	taken, err := s.Take(c, "ops", pace, 1)
	if err != nil || len(taken.Entries) != 1 {
		t.Fatalf("%+v, %v", taken, err)
	}
	if _, err := s.Take(c, "ops", pace, 0); err != nil {
		t.Error(err)
	}
	ids := []string{taken.Entries[0].ID}
	if err := s.Keep(c, "ops", ids, time.Hour); err != nil {
		t.Error(err)
	}
	if claimed, err := s.Claim(c, "ops", time.Minute, 10); err != nil || len(claimed) != 1 {
		t.Errorf("%+v, %v", claimed, err)
	}
	if leads, err := s.Lead(c, "ops", "a", time.Minute); err != nil || !leads {
		t.Error(leads, err)
	}
	if news, err := s.Say(c, "ops", "full", "1", []byte("{}")); err != nil || !news {
		t.Error(news, err)
	}
	unsaid, err := s.Finish(c, "ops", ids, 1, []any{"resque:go:log", "*", "kind", "webhook-dead"})
	if err != nil || unsaid == nil || !strings.Contains(unsaid.Error(), "out of memory") {
		t.Errorf("%v, %v", unsaid, err)
	}
	if n := server.Int(t, "XLEN", "resque:go:webhook:ops"); n != 2 { // the second one, and the notice
		t.Errorf("%d entries", n)
	}
}

// What is said to be wrong is said once. One deliverer looks at a time, and another one when its lease is over.
func TestLeadAndSay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	for _, step := range []struct {
		who  string
		want bool
	}{{"a", true}, {"b", false}, {"a", true}} {
		if leads, err := s.Lead(c, "ops", step.who, time.Minute); leads != step.want || err != nil {
			t.Errorf("%s: %v, %v", step.who, leads, err)
		}
	}
	server.Do(t, "HSET", "resque:go:webhook:ops:state", "lease", "a 1")
	if leads, err := s.Lead(c, "ops", "b", time.Minute); !leads || err != nil {
		t.Error(leads, err)
	}
	for _, step := range []struct {
		value string
		want  bool
	}{{"", false}, {"1", true}, {"2", false}, {"", true}, {"", false}} {
		if news, err := s.Say(c, "ops", "x", step.value, []byte("{}")); news != step.want || err != nil {
			t.Errorf("%q: %v, %v", step.value, news, err)
		}
		said, err := s.Wrong(c, "ops")
		if want := step.value; want != "" && (said["x"] != "1" || err != nil) || want == "" && len(said) > 0 {
			t.Errorf("%v, %v", said, err)
		}
	}
	if n := server.Int(t, "XLEN", "resque:go:webhook:ops"); n != 2 {
		t.Errorf("%d entries", n)
	}
}

// What the stream cuts is counted, whether or not a deliverer had it.
func TestCut(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	if err := s.Attend(c, "ops"); err != nil {
		t.Fatal(err)
	}
	fast := Pace{Every: time.Millisecond, Burst: 1}
	add(t, server, 10)
	if taken, err := s.Take(c, "ops", fast, 4); err != nil || len(taken.Entries) != 4 {
		t.Fatalf("%+v, %v", taken, err)
	}
	server.Do(t, "XTRIM", "resque:go:webhook:ops", "MAXLEN", 3) // one of them, and three more
	server.Do(t, "XTRIM", "resque:go:webhook:ops", "MAXLEN", 2)
	if claimed, err := s.Claim(c, "ops", 0, 10); err != nil || len(claimed) != 0 {
		t.Errorf("%+v, %v", claimed, err)
	}
	if n := server.Int(t, "HGET", "resque:go:webhook:ops:state", "cut"); n != 4 {
		t.Errorf("%d of the four that a deliverer had", n)
	}
	if pending, err := redis.Values(c.Do("XPENDING", "resque:go:webhook:ops", group)); err != nil || pending[0] != int64(0) {
		t.Errorf("%v are pending, %v", pending, err)
	}
	var taken Taken
	redistest.Eventually(t, 20*time.Second, "the rest is taken", func() (there bool) {
		var err error
		taken, err = s.Take(c, "ops", fast, 10)
		return err == nil && taken.Wait == 0
	})
	if len(taken.Entries) != 2 || taken.Cut != 8 || taken.Said != 0 {
		t.Errorf("%+v", taken)
	}
}

// A key of another type is named, and nothing is written.
func TestWrongType(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	for _, key := range []string{"resque:go:webhook:ops", "resque:go:webhook:ops:state"} {
		server.Do(t, "FLUSHALL")
		if err := s.Attend(c, "ops"); err != nil {
			t.Fatal(err)
		}
		add(t, server, 1)
		server.Do(t, "DEL", key)
		server.Do(t, "SET", key, "x")
		_, taking := s.Take(c, "ops", pace, 1)
		_, saying := s.Say(c, "ops", "x", "1", []byte("{}"))
		for _, err := range []error{taking, saying} {
			if err == nil || !resque.IsWrongType(err) || !strings.Contains(err.Error(), "resque:go:webhook:ops") {
				t.Errorf("%s: %v", key, err)
			}
		}
		if text := server.Text(t, "GET", key); text != "x" {
			t.Errorf("%s is %q", key, text)
		}
	}
}
