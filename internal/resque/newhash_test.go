package resque

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// Hashes begin with the push in each of its forms. If one is refused, nothing is written, also where Redis is out
// of memory.
func TestNewHashes(t *testing.T) {
	t.Parallel()
	jobs := map[string]Place{
		"plain": {Queue: "a"}, "other queue": {Queue: "b"}, "delayed": {Queue: "a", At: time.Now().Add(time.Hour)}, "priority": {Queue: "b", Priority: 3},
	}
	for _, tt := range []struct {
		name   string
		jobs   []string
		beside bool
		rows   bool
	}{
		{"one", []string{"plain"}, false, false},
		{"two queues", []string{"plain", "other queue", "plain", "plain"}, false, false},
		{"with a soft effect", []string{"plain", "other queue", "plain"}, true, false},
		{"with delayed ones", []string{"plain", "delayed", "plain", "delayed", "other queue"}, false, true},
		{"with guarded ones", []string{"priority", "plain", "priority", "plain"}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			c, s := server.Dial(t), New("")
			bulk := func() *Bulk {
				b := new(Bulk)
				for i, name := range tt.jobs {
					if _, err := b.Encode("C", []any{i}); err != nil {
						t.Fatal(err)
					}
					b.SetText("id", fmt.Sprint(i))
					used := i%3 == 1
					b.Begin(s.StartDocument(fmt.Sprint(i), used, 50_000, "state", "pending", "used", fmt.Sprint(used), "n", i/2))
					if tt.beside {
						b.Lift(s.CancelledKey(), fmt.Sprint(i))
					}
					if err := b.Put(jobs[name]); err != nil {
						t.Fatal(err)
					}
				}
				return b
			}
			nothing := func(why string) {
				t.Helper()
				for _, key := range []string{"queues", "queue:a", "queue:b", "go:schedule", "go:result:0"} {
					if len(tt.jobs) > 1 && server.Int(t, "EXISTS", "resque:"+key) != 0 {
						t.Errorf("%s: %s is there", why, key)
					}
				}
			}
			last := fmt.Sprint("resque:go:result:", len(tt.jobs)-1)
			server.Do(t, "SET", last, "x")
			b := bulk()
			if err := s.PushBulk(c, b); err == nil || !strings.Contains(err.Error(), last) || b.InDoubt() || b.Done() {
				t.Errorf("a key of another type: %v", err)
			}
			nothing("a key of another type")
			server.Do(t, "DEL", last)
			server.Do(t, "CONFIG", "SET", "maxmemory", 1)
			if err := s.PushBulk(c, bulk()); err == nil || !strings.Contains(err.Error(), "OOM") {
				t.Errorf("out of memory: %v", err)
			}
			nothing("out of memory")
			server.Do(t, "CONFIG", "SET", "maxmemory", 0)

			for i := range tt.jobs {
				if i%3 == 1 {
					server.Do(t, "HSET", fmt.Sprint("resque:go:result:", i), "old", 1)
					server.Do(t, "SET", fmt.Sprint("resque:go:progress:", i), 1)
					server.Do(t, "RPUSH", fmt.Sprint("resque:go:logs:", i), 1)
				}
			}
			server.Do(t, "ZADD", "resque:go:cancelled", 1, "j:0", 1, "j:1", 1, "other")
			if b = bulk(); b.Plain() == tt.rows {
				t.Errorf("the form is another one: plain %v", b.Plain())
			}
			if err := s.PushBulk(c, b); err != nil {
				t.Fatal(err)
			}
			for i := range tt.jobs {
				key := fmt.Sprint("resque:go:result:", i)
				got := strings.Join(server.List(t, "HMGET", key, "state", "used", "n", "old"), " ")
				if want := fmt.Sprintf("pending %v %d ", i%3 == 1, i/2); got != want {
					t.Errorf("hash %d says %q, want %q", i, got, want)
				}
				if ttl := server.Int(t, "PTTL", key); ttl <= 0 || ttl > 50_000 {
					t.Errorf("hash %d stays %d ms", i, ttl)
				}
				if i%3 == 1 && server.Int(t, "EXISTS", fmt.Sprint("resque:go:progress:", i), fmt.Sprint("resque:go:logs:", i)) != 0 {
					t.Errorf("what belonged to the earlier hash %d is still there", i)
				}
			}
			if left := server.Int(t, "ZCARD", "resque:go:cancelled"); tt.beside && len(tt.jobs) > 1 && left != 1 {
				t.Errorf("%d are left of what was to go beside", left)
			}
			n := server.Int(t, "LLEN", "resque:queue:a") + server.Int(t, "LLEN", "resque:queue:b") + server.Int(t, "ZCARD", "resque:go:schedule")
			if n != len(tt.jobs) {
				t.Errorf("%d jobs were pushed", n)
			}
		})
	}
}
