package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	var m members
	if m.Leads() || m.Peers() != 1 || m.Members() != nil {
		t.Error("before the first renewal nothing is known")
	}
	m.saw("b", resque.Renewed{Processes: 3, All: true, Members: []string{"c", "b"}})
	if !m.Leads() || m.Peers() != 3 || !slices.Equal(m.Members(), []string{"c", "b"}) {
		t.Errorf("leads %v, %d peers, the members are %q", m.Leads(), m.Peers(), m.Members())
	}
	m.saw("b", resque.Renewed{Processes: 4})
	if m.Leads() || m.Peers() != 4 || m.Members() != nil {
		t.Errorf("behind another one: leads %v, %d peers, the members are %q", m.Leads(), m.Peers(), m.Members())
	}
	m.saw("b", resque.Renewed{Processes: 1, All: true})
	if m.Leads() {
		t.Error("a process that the fleet does not know leads")
	}
}

// Of a process that is asked about for the first time it is not known whether it lives. Then renewals read it, and those that were
// asked about last.
func TestVigil(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	newRenewer(t, server, "lives")
	server.Do(t, "ZADD", "resque:go:processes", -5, "fenced")
	r := newRenewer(t, server, "me")
	renew := func() { r.renew(t) }
	all := []string{"lives", "fenced", "gone"}
	ask := func() (alive string) {
		for _, p := range all {
			if r.Alive(p) {
				alive += p + " "
			}
		}
		return alive
	}
	if alive := ask(); alive != "lives fenced gone " {
		t.Errorf("before a renewal %salive", alive)
	}
	if renew(); ask() != "lives " {
		t.Errorf("after a renewal %salive", ask())
	}
	server.Do(t, "ZREM", "resque:go:processes", "lives")
	server.Do(t, "ZADD", "resque:go:processes", 5, "gone")
	if renew(); ask() != "gone " {
		t.Errorf("after another renewal %salive", ask())
	}
	for n := range mostWatched - 1 {
		r.Alive(fmt.Sprint(n))
	}
	if renew(); r.Alive("0") || !r.Alive("fenced") {
		t.Error("those that were asked about last are watched, and no more")
	}
	if len(r.vigil.watched) != mostWatched || len(r.vigil.dead) > mostWatched {
		t.Errorf("%d are watched, %d of them dead", len(r.vigil.watched), len(r.vigil.dead))
	}
}

// In a fleet one process reads the members each time. The others do it again when the process before them has gone, which is another
// one for each.
func TestOneReadsTheMembers(t *testing.T) {
	t.Parallel()
	const n = 60
	server := redistest.Start(t)
	var fleet []*renewer
	for i := range n {
		fleet = append(fleet, newRenewer(t, server, fmt.Sprintf("p%02d", i)))
	}
	round := func() (read int) {
		for _, r := range fleet {
			if r.renew(t) {
				read++
			}
		}
		return read
	}
	for range 3 {
		round()
	}
	for range 3 {
		if read := round(); read != 1 || !fleet[0].Leads() || !fleet[0].keeper.Keeps() || fleet[0].keeper.Behind() != "" {
			t.Errorf("%d read the members", read)
		}
	}
	behind := make(map[string]int)
	for _, r := range fleet {
		behind[r.keeper.Behind()]++
	}
	if len(behind) < n/6 {
		t.Errorf("%d processes are all that others are behind of: %v", len(behind), behind)
	}
	for _, r := range fleet[1:] {
		if r.Leads() || r.keeper.Keeps() || r.Peers() != n {
			t.Errorf("%s leads: %v, keeps: %v, has %d peers", r.id, r.Leads(), r.keeper.Keeps(), r.Peers())
		}
	}
}

// A process behind many others learns of one that joins before it, ends what is left of one that another reaper has left, and leads
// when all have gone.
func TestLargeFleet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var others []string
	args := []any{"resque:go:processes"}
	for i := range 300 {
		others = append(others, fmt.Sprintf("a%04d", i))
		args = append(args, time.Now().Add(time.Hour).UnixMilli(), others[i])
		b.redis.Do(t, "HSET", "resque:go:process:"+others[i], "epoch", 1, "duties", resque.Duties)
	}
	b.redis.Do(t, "ZADD", args...)
	b.start()
	redistest.Eventually(t, time.Minute, "the fleet is known", func() bool { return b.Peers() == 301 })
	redistest.Eventually(t, time.Minute, "a renewal reads no members", func() bool { b.Wake(); return b.Members() == nil })
	b.redis.Do(t, "ZADD", "resque:go:processes", -time.Now().Add(-time.Minute).UnixMilli(), "fenced")
	redistest.Eventually(t, time.Minute, "the fenced process is gone", func() bool {
		b.Wake()
		return b.redis.Do(t, "ZSCORE", "resque:go:processes", "fenced") == nil
	})
	if b.Leads() || b.Keeps() {
		t.Error("it leads, or is the keeper, behind 300 others")
	}
	gone := []any{"resque:go:processes"}
	for _, id := range others {
		gone = append(gone, id)
	}
	b.redis.Do(t, "ZREM", gone...)
	redistest.Eventually(t, time.Minute, "it leads, and knows that it is alone", func() bool { b.Wake(); return b.Leads() && b.Keeps() && b.Peers() == 1 })
	b.redis.Do(t, "ZADD", "resque:go:processes", time.Now().Add(time.Hour).UnixMilli(), others[7])
	redistest.Eventually(t, time.Minute, "it is behind the process that joined", func() bool { b.Wake(); return !b.Leads() && !b.Keeps() && b.Peers() == 2 })
}

// In a large fleet not all try to take the jobs of each dead process: 32 do in the mean, and the leader.
func TestReapersShare(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dead := make([]resque.Lease, 4000)
	taken := func(all int) int {
		b.reaper.observe(slices.Clone(dead), all, time.Now())
		if p := b.reaper.pending.Swap(nil); p != nil {
			return len(p.dead)
		}
		return 0
	}
	if n := taken(4000 + mostReapers); n != 4000 {
		t.Errorf("of a small fleet each takes %d of 4000", n)
	}
	if n := taken(4000 + 10*mostReapers); n < 200 || n > 800 { // 400 in the mean, and 19 off it are usual
		t.Errorf("of ten times as many each takes %d of 4000", n)
	}
	b.saw("me", resque.Renewed{All: true, Members: []string{"me"}})
	if n := taken(4000 + 10*mostReapers); n != 4000 {
		t.Errorf("the leader takes %d of 4000", n)
	}
}
