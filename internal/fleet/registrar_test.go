package fleet

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// free are slots on which no job runs.
type free struct{}

func (free) Limit(context.Context, int) error { return nil }

func (free) Occupied(context.Context, bool) (map[int]bool, error) { return nil, nil }

// Worker ids are registered when the record of the process covers them: it may be killed between the two. Later the record covers
// these only.
func TestWorkersAreCovered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Slots = free{}
	b.start()
	m := b.redis.Monitor(t)
	if err := b.Change(t.Context(), func(w *Wanted) { w.Workers, w.Queues = 5, "work,mail" }); err != nil {
		t.Fatal(err)
	}
	id := b.Session().Process.ID
	record := "resque:go:process:" + id
	b.eventually("the old ids are gone", func() bool {
		return b.redis.Int(t, "SCARD", "resque:workers") == 5 && b.redis.Int(t, "HEXISTS", record, "id_queues_old") == 0
	})
	first := func(command, key, value string) int {
		return slices.IndexFunc(m.Inner(), func(c []string) bool { return c[0] == command && c[1] == key && slices.Contains(c[2:], value) })
	}
	covered, added := first("HSET", record, "work,mail"), first("SADD", "resque:workers", id+"-4:work,mail")
	old := first("HSET", record, `["work"]`)
	if covered < 0 || old < 0 || added < max(covered, old) {
		t.Errorf("the ids are covered by command %d, with the old ones by %d, and added by %d of %q", covered, old, added, m.Inner())
	}
}

// A list that the program cannot work is not tried again: the ids of before come back, all callers that wanted it learn why, and so do the
// log and the function that the change has given.
func TestListThatCannotBeWorked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Slots = free{}
	b.start()
	broken, tried, refused := errors.New("broken"), 0, 0
	list := func(w *Wanted) {
		w.Queues = "work,mail"
		w.Apply = func(context.Context) error { tried++; return broken }
		w.Refused = func() { refused++ }
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Change(gone, list); !errors.Is(err, context.Canceled) && !errors.Is(err, broken) {
		t.Errorf("the first caller, who does not wait, gets %v", err)
	}
	if err := b.Change(t.Context(), list); !errors.Is(err, broken) {
		t.Errorf("the change returns %v", err)
	}
	if w := b.Wanted(); w.Queues != "work" || w.Apply != nil || w.Workers != 2 {
		t.Errorf("it wants %+v", w)
	}
	if err := b.Change(t.Context(), func(w *Wanted) { w.Workers = 3 }); err != nil {
		t.Fatal(err)
	}
	if tried == 0 || tried > 2 || refused != tried || b.log.count("the queues do not change") != tried {
		t.Errorf("it was tried %d times, refused %d times, and logged %d times", tried, refused, b.log.count("the queues do not change"))
	}
	id := b.Session().Process.ID
	b.eventually("the new ids are gone", func() bool {
		ids := b.redis.List(t, "SMEMBERS", "resque:workers")
		slices.Sort(ids)
		return slices.Equal(ids, []string{id + "-0:work", id + "-1:work", id + "-2:work"}) && b.redis.Int(t, "HEXISTS", "resque:go:process:"+id, "id_queues_old") == 0
	})
}
