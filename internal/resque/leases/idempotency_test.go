package leases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// onceBulk has a job for each id, in its queue, all guarded by the key.
func onceBulk(t *testing.T, s Store, o Once, queue string, ids ...string) *resque.Bulk {
	t.Helper()
	b := new(resque.Bulk)
	for i, g := range s.Once(o, ids) {
		if err := b.PutRaw(fmt.Appendf(nil, `{"class":"C","args":[],"id":"%s"}`, ids[i]), resque.Place{Queue: queue}, g); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestOnceMakesJobsOnce pushes several jobs under one key again and again.
func TestOnceMakesJobsOnce(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	c, s := r.Dial(t), Store{resque.New("")}
	o := Once{Key: "abc", Fingerprint: "f1"}
	if ids, err := s.Made(c, o); ids != nil || err != nil {
		t.Fatalf("before the first push: %q, %v", ids, err)
	}
	b := onceBulk(t, s, o, "q", "1", "2", "3")
	if err := s.PushBulk(c, b); err != nil || !b.Done() {
		t.Fatalf("pushed: %v, %v", b.Done(), err)
	}
	again := onceBulk(t, s, o, "q", "4", "5", "6")
	if err := s.PushBulk(c, again); err != nil || again.Done() {
		t.Fatalf("pushed again: %v, %v", again.Done(), err)
	}
	for i := range 3 {
		if _, err := again.Result(i); !errors.Is(err, resque.ErrGuard) {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if ids, err := s.Made(c, o); !slices.Equal(ids, []string{"1", "2", "3"}) || err != nil {
		t.Errorf("made %q, %v", ids, err)
	}
	if _, err := s.Made(c, Once{Key: "abc", Fingerprint: "f2"}); !errors.Is(err, ErrKeyReused) {
		t.Errorf("another request: %v", err)
	}
	if n := r.Int(t, "LLEN", "resque:queue:q"); n != 3 {
		t.Errorf("the queue has %d jobs", n)
	}
	if ms := r.Int(t, "PTTL", "resque:go:idem:abc"); ms <= 0 || ms > int(OnceTTL.Milliseconds()) {
		t.Errorf("the key lives for %d ms", ms)
	}
}

// TestOnceReplicated repeats a push when the replica that has to have it does not answer: the repetition waits too, although its
// connection has pushed nothing.
func TestOnceReplicated(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", strings.ReplaceAll(r.Addr, ":", " "))
	redistest.Eventually(t, time.Minute, "the replica has come", func() bool { return r.Int(t, "WAIT", 1, 1000) == 1 })
	s := Store{resque.New("").Replicated(1, time.Minute)}
	o := Once{Key: "abc", Fingerprint: "f1"}
	if err := s.PushBulk(r.Dial(t), onceBulk(t, s, o, "q", "1")); err != nil {
		t.Fatal(err)
	}
	replica.Pause()
	defer replica.Resume()
	s.Store = s.Replicated(1, 50*time.Millisecond)
	if ids, err := s.Made(r.Dial(t), o); !slices.Equal(ids, []string{"1"}) || !errors.Is(err, resque.ErrFewReplicas) {
		t.Errorf("made %q, %v", ids, err)
	}
	replica.Resume()
	s.Store = s.Replicated(1, time.Minute)
	if ids, err := s.Made(r.Dial(t), o); !slices.Equal(ids, []string{"1"}) || err != nil {
		t.Errorf("made %q, %v", ids, err)
	}
}

// TestOnceAmongRivals lets producers push at a time.
func TestOnceAmongRivals(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s, o := Store{resque.New("")}, Once{Key: "k", Fingerprint: "f"}
	var wg sync.WaitGroup
	for i := range 8 {
		c := r.Dial(t)
		b := onceBulk(t, s, o, "q", fmt.Sprint(i, "a"), fmt.Sprint(i, "b"))
		wg.Go(func() {
			if err := s.PushBulk(c, b); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ids, err := s.Made(r.Dial(t), o)
	if err != nil || len(ids) != 2 {
		t.Fatalf("made %q, %v", ids, err)
	}
	var want []string
	for _, id := range ids {
		want = append(want, fmt.Sprintf(`{"class":"C","args":[],"id":"%s"}`, id))
	}
	if diff := cmp.Diff(want, r.List(t, "LRANGE", "resque:queue:q", 0, -1)); diff != "" {
		t.Error(diff)
	}
}

// TestOnceAllOrNone has a job that Redis refuses behind the first one.
func TestOnceAllOrNone(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	c, s := r.Dial(t), Store{resque.New("")}
	r.Do(t, "SET", "resque:queue:wrong", "x")
	o := Once{Key: "k", Fingerprint: "f"}
	b := new(resque.Bulk)
	for i, g := range s.Once(o, []string{"1", "2"}) {
		if err := b.PutRaw([]byte(`{"class":"C","args":[]}`), resque.Place{Queue: []string{"q", "wrong"}[i]}, g); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.PushBulk(c, b); err == nil {
		t.Error("there is no error")
	}
	if keys := r.Keys(t); !slices.Equal(keys, []string{"resque:queue:wrong"}) {
		t.Fatalf("left %q", keys)
	}
	r.Do(t, "HSET", "resque:go:idem:k", "f", "v")
	if _, err := s.Made(c, o); err == nil {
		t.Error("a key of the wrong type is no error")
	}
	if err := s.PushBulk(c, onceBulk(t, s, o, "q", "1")); err == nil {
		t.Error("a key of the wrong type is no error of the push")
	}
}
