package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// bulkOf has jobs 0 to n-1, dealt to the queues in turn.
func bulkOf(t *testing.T, n int, queues ...string) *Bulk {
	t.Helper()
	var b Bulk
	for i := range n {
		if err := b.Add(queues[i%len(queues)], "J", []any{i}); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

func TestPushBulk(t *testing.T) {
	a := newAdmin(t)
	queues := []string{"a", "b", "c"}
	const n = 6007 // more than one RPUSH a queue
	if err := a.PushBulk(a.c, bulkOf(t, n, queues...)); err != nil {
		t.Fatal(err)
	}
	want := make(map[string][]string)
	for i := range n {
		q := queues[i%len(queues)]
		want[q] = append(want[q], fmt.Sprintf(`{"class":"J","args":[%d]}`, i))
	}
	for _, q := range queues {
		if diff := cmp.Diff(want[q], a.List(t, "LRANGE", "resque:queue:"+q, 0, -1)); diff != "" {
			t.Errorf("queue %s (-want +got):\n%s", q, diff)
		}
	}
	known := a.List(t, "SMEMBERS", "resque:queues")
	slices.Sort(known)
	if !slices.Equal(known, queues) {
		t.Errorf("queues %q", known)
	}
	if err := a.PushBulk(a.c, new(Bulk)); err != nil {
		t.Errorf("pushing nothing: %v", err)
	}
}

// If anything is wrong with one of the keys, nothing is written to the others.
func TestPushBulkIsAllOrNothing(t *testing.T) {
	tests := []struct {
		name   string
		before [][]any
		user   string
		want   []string
	}{
		{"the set of queues", [][]any{{"SET", "resque:queues", "x"}}, "", []string{"3 queues", "WRONGTYPE"}},
		{"the first", [][]any{{"SET", "resque:queue:a", "x"}}, "", []string{"6 jobs to 3 queues", "WRONGTYPE"}},
		{"the last", [][]any{{"SADD", "resque:queue:c", "x"}}, "", []string{"3 queues", "WRONGTYPE"}},
		{"a key that is not ours", [][]any{{"ACL", "SETUSER", "u", "on", "nopass", "~resque:queues", "~resque:queue:a", "~resque:queue:b", "+@all"}}, "u", []string{"NOPERM"}},
		{"a key that is only read", [][]any{{"ACL", "SETUSER", "u", "on", "nopass", "~resque:queues", "~resque:queue:a", "%R~resque:queue:*", "+@all"}}, "u", []string{"NOPERM"}},
		{"memory", [][]any{{"CONFIG", "SET", "maxmemory", "1"}}, "", []string{"OOM"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := newAdmin(t)
			for _, command := range test.before {
				a.Do(t, command[0].(string), command[1:]...)
			}
			before := a.Dump(t, "")
			if test.user != "" {
				if _, err := a.c.Do("AUTH", test.user, ""); err != nil {
					t.Fatal(err)
				}
			}
			wantError(t, a.PushBulk(a.c, bulkOf(t, 6, "a", "b", "c")), test.want...)
			if diff := cmp.Diff(before, a.Dump(t, "")); diff != "" {
				t.Errorf("keys (-before +after):\n%s", diff)
			}
		})
	}
}

func TestPushBulkLimits(t *testing.T) {
	many := &Bulk{queues: []bulkQueue{{name: "q"}}, jobs: make([]bulkJob, MaxPushJobs+1)}
	large := &Bulk{queues: []bulkQueue{{name: "q"}}, jobs: make([]bulkJob, 1), buf: make([]byte, MaxPushBytes+1)}
	wantError(t, New("").PushBulk(nil, many), "1000001 jobs are too many for one push", "1000000 jobs", "256 MiB")
	wantError(t, New("").PushBulk(nil, large), "too much for one push", "1000000 jobs", "256 MiB")
	b := new(Bulk)
	for range maxPushArgs / 10 {
		if err := b.PutRaw([]byte("{}"), Place{Queue: "q"}, Guarded{}); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, New("").PushBulk(nil, b), "too many for one push", "in several")
}

// A job that cannot be encoded leaves no trace in the bulk.
func TestBulkAddRefuses(t *testing.T) {
	var b Bulk
	for range 2 {
		wantError(t, b.Add("", "J", nil), "queue has no name")
		wantError(t, b.Add("q", "", nil), "class")
		wantError(t, b.Add("other", "J", []any{1, make(chan int)}), "args[1]")
		if err := b.Add("q", "J", []any{"fine"}); err != nil {
			t.Fatal(err)
		}
	}
	args := New("").plainArgs(&b)
	fine := `{"class":"J","args":["fine"]}`
	if got, want := fmt.Sprintf("%s", args[3:]), fmt.Sprintf("%s", []any{"resque:queue:q", "", "q", 2, fine, fine}); got != want {
		t.Errorf("the script is given %s, want %s", got, want)
	}
}

// The cancels of plain jobs are lifted by one command for up to five hundred of them, after the push. That of a
// guarded job is lifted only if the job is pushed.
func TestPushLifts(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for name, test := range map[string]struct {
		jobs  int
		place func(n int) Place
		g     []Guarded
		zrems int // commands
		stays bool
	}{
		"one":     {jobs: 1, zrems: 1},
		"many":    {jobs: 2500, zrems: 5},
		"queues":  {jobs: 10, place: func(n int) Place { return Place{Queue: fmt.Sprint("q", n%2)} }, zrems: 1},
		"delayed": {jobs: 1200, place: func(int) Place { return Place{Queue: "q", At: noon.Add(10 * 365 * 24 * time.Hour)} }, zrems: 3},
		"both": {jobs: 4, place: func(n int) Place {
			return Place{Queue: "q", At: noon.Add(time.Duration(n%2) * 10 * 365 * 24 * time.Hour)}
		}, zrems: 1},
		"priority": {jobs: 2, place: func(int) Place { return Place{Queue: "q", Priority: 2} }, zrems: 2},
		"guarded":  {jobs: 3, g: []Guarded{{Effects: []Effect{w.s.ExpiredCount()}}}, zrems: 3},
		"left":     {jobs: 1, g: []Guarded{{Effects: []Effect{Guard("SCARD", w.s.SetKey("none"), "1")}}}, stays: true},
	} {
		w.do("FLUSHALL")
		b := new(Bulk)
		for n := range test.jobs {
			id := fmt.Sprint(n)
			if _, err := b.Encode("A", []any{n}); err != nil {
				t.Fatal(err)
			}
			b.SetText("id", id)
			b.Lift(w.s.CancelledKey(), id)
			place := Place{Queue: "q"}
			if test.place != nil {
				place = test.place(n)
			}
			w.do("ZADD", w.s.KeyOfCancelled(), 1, CancelledID(id), 1, CancelledPlace(place.Queue, id))
			w.must(b.Put(place, test.g...))
		}
		w.do("ZADD", w.s.KeyOfCancelled(), 1, "j:other")
		w.do("CONFIG", "RESETSTAT")
		w.must(w.s.PushBulk(w.c, b))
		pushed := w.server.Int(t, "LLEN", w.s.KeyOfQueue("q")) + w.server.Int(t, "LLEN", w.s.KeyOfQueue("q0")) +
			w.server.Int(t, "LLEN", w.s.KeyOfQueue("q1")) + w.server.Int(t, "ZCARD", w.s.KeyOfSchedule())
		left := w.server.Int(t, "ZCARD", w.s.KeyOfCancelled())
		if want := map[bool]int{false: test.jobs}[test.stays]; pushed != want || left != 1+2*(test.jobs-want) {
			t.Errorf("%s: %d of %d jobs were pushed, %d entries are left", name, pushed, test.jobs, left)
		}
		stats := w.server.Text(t, "INFO", "commandstats")
		if got := strings.Contains(stats, fmt.Sprintf("cmdstat_zrem:calls=%d,", test.zrems)); test.zrems > 0 && !got {
			t.Errorf("%s: not %d ZREM: %s", name, test.zrems, stats)
		}
	}
	w.spoil(w.s.KeyOfCancelled())
	b := new(Bulk)
	b.Lift(w.s.CancelledKey(), "a")
	w.must(b.PutRaw([]byte("x"), Place{Queue: "spoiled"}))
	w.must(w.s.PushBulk(w.c, b))
	w.same("pushed beside a key of another type", 1, w.server.Int(t, "LLEN", w.s.KeyOfQueue("spoiled")))
	w.do("CONFIG", "SET", "maxmemory", 1)
	w.do("DEL", w.s.KeyOfCancelled())
	b = new(Bulk)
	b.Lift(w.s.CancelledKey(), "a")
	w.must(b.PutRaw([]byte("x"), Place{Queue: "spoiled"}))
	if w.s.PushBulk(w.c, b) == nil {
		t.Error("a push was taken without memory")
	}
}
