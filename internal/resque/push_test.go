package resque

import (
	"fmt"
	"slices"
	"testing"

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
	for _, b := range []*Bulk{many, large} {
		wantError(t, New("").PushBulk(nil, b), "too much for one push", "1000000 jobs", "256 MiB")
	}
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
