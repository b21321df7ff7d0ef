package fleet

import (
	"context"
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
