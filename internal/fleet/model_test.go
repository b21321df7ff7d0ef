package fleet

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// The periods of the model are those of a fleet, each second a hundred: so the time that a test takes does not matter.
const (
	modelSecond = 100 * time.Second
	modelLease  = 8 * modelSecond
	modelGap    = 4 * modelSecond
	modelEvery  = 2 * modelSecond
	modelHour   = 3600 * modelSecond
)

// world is a fleet on one Redis whose clock a test moves. It compares what renewals say with what is so.
type world struct {
	t      *testing.T
	server *redistest.Server
	rng    *rand.Rand
	happen []string // what has happened, for a failure

	alive map[string]*renewer // processes of this release that live
	older map[string]*renewer // those that live of a release without the duties; each renewal of theirs reads all
	died  map[string]int      // rounds since the process died, or since the clock jumped

	fenced map[string]bool // in this round: their reapers have a while
}

// moveClock moves Redis's clock, as far as renewals see it: by this much all of its times are further ago. The pulse expires by the same
// clock.
const moveClock = `
	local by = tonumber(ARGV[1])
	local leases = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
	for i = 1, #leases, 2 do
		local at = tonumber(leases[i + 1])
		redis.call('ZADD', KEYS[1], string.format('%.0f', at < 0 and at + by or at - by), leases[i])
	end
	local since, last = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%d+)$')
	if not since then return end
	if by > tonumber(ARGV[2]) then redis.call('DEL', KEYS[2]) return end
	redis.call('SET', KEYS[2], string.format('%.0f %.0f', since - by, last - by), 'KEEPTTL')`

func (w *world) move(by time.Duration) {
	w.server.Do(w.t, "EVAL", moveClock, 2, "resque:go:processes", "resque:go:pulse", by.Milliseconds(), modelGap.Milliseconds())
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.happen, "\n"))
}

// step has one thing happen.
func (w *world) step() {
	pick := func(of map[string]*renewer) (id string, ok bool) {
		if len(of) == 0 || len(w.alive) < 2 && len(of) == len(w.alive) {
			return "", false
		}
		ids := slices.Sorted(maps.Keys(of))
		return ids[w.rng.IntN(len(ids))], true
	}
	id := fmt.Sprintf("h:%03d:%d", w.rng.IntN(1000), len(w.happen))
	what := "nothing"
	switch n := w.rng.IntN(14); {
	case n < 4:
		w.alive[id] = w.enter(id)
		what = "joins " + id
	case n < 5:
		w.older[id] = w.enter(id)
		w.server.Do(w.t, "HDEL", "resque:go:process:"+id, "duties")
		what = "an older release joins " + id
	case n < 9:
		of := w.alive
		if n == 8 {
			of = w.older
		}
		if id, ok := pick(of); ok && n < 6 {
			if _, err := of[id].store.Leave(of[id].c, id); err != nil {
				w.fail("%v", err)
			}
			delete(of, id)
			what = "leaves " + id
		} else if ok {
			delete(of, id)
			w.died[id] = 0
			what = "dies " + id
		}
	case n < 11:
		by := modelHour
		if n == 10 {
			by = -by
		}
		w.move(by)
		for id := range w.died {
			w.died[id] = 0
		}
		what = fmt.Sprint("the clock jumps by ", by)
	}
	w.happen = append(w.happen, what)
}

func (w *world) enter(id string) *renewer {
	return newRenewerOf(w.t, w.server, id, modelLease, modelGap)
}

// round is the time between two renewals. Those that live renew in any order, and some reap.
func (w *world) round() {
	w.move(modelEvery)
	w.fenced = make(map[string]bool)
	for id := range w.died {
		w.died[id]++
	}
	reaps := w.rng.IntN(3) > 0
	for pass := range 5 { // a round takes no time: several tell of what reapers did, and which records have duties
		everyone := append(slices.Sorted(maps.Keys(w.alive)), slices.Sorted(maps.Keys(w.older))...)
		w.rng.Shuffle(len(everyone), func(i, j int) { everyone[i], everyone[j] = everyone[j], everyone[i] })
		for _, id := range everyone {
			r := w.alive[id]
			if r == nil {
				w.older[id].renewAsOlder(w.t)
				continue
			}
			r.renew(w.t)
			w.compare(r)
			for _, l := range r.last.Dead() {
				if reaps && pass < 2 {
					w.reap(r, l)
				}
			}
		}
	}
	w.roles()
}

// compare compares whom a renewal found dead with who died.
func (w *world) compare(r *renewer) {
	dead := make(map[string]bool)
	for _, l := range r.last.Dead() {
		if dead[l.Process] = true; w.alive[l.Process] != nil || w.older[l.Process] != nil {
			w.fail("%s takes %s for dead, which lives", r.id, l.Process)
		}
	}
	for id, rounds := range w.died {
		if rounds > int(modelLease/modelEvery) && !dead[id] && !w.fenced[id] {
			w.fail("%s does not find %s, which died %d rounds ago; its lease is %s", r.id, id, rounds, w.server.Text(w.t, "ZSCORE", "resque:go:processes", id))
		}
	}
}

func (w *world) reap(r *renewer, l resque.Lease) {
	fenced, err := r.store.Fence(r.c, l.Process, l.Value)
	w.fenced[l.Process] = w.fenced[l.Process] || fenced
	if err == nil && fenced && w.rng.IntN(3) > 0 { // else the reaper dies, or its queues refuse the jobs
		_, err = r.store.Leave(r.c, l.Process)
		delete(w.fenced, l.Process)
		delete(w.died, l.Process)
		w.happen = append(w.happen, r.id+" reaped "+l.Process)
	}
	if err != nil {
		w.fail("%v", err)
	}
}

// roles compares who leads and keeps with who should, and counts those that read the members each time.
func (w *world) roles() {
	leases, _, err := resque.New("").Leases(w.server.Dial(w.t))
	if err != nil {
		w.fail("%v", err)
	}
	leader, keeper := "", ""
	for _, l := range leases {
		if l.Fenced() {
			continue
		}
		if leader == "" || l.Process < leader {
			leader = l.Process
		}
		if w.server.Do(w.t, "HGET", "resque:go:process:"+l.Process, "duties") != nil && (keeper == "" || l.Process < keeper) {
			keeper = l.Process
		}
	}
	read := 0
	for id, r := range w.alive {
		if r.Leads() != (id == leader) || r.keeper.Keeps() != (id == keeper) || r.Peers() != len(leases) {
			w.fail("%s leads: %v, keeps: %v, has %d peers; the leader is %s, the keeper %s, and there are %d", id, r.Leads(), r.keeper.Keeps(), r.Peers(), leader, keeper, len(leases))
		}
		if r.keeper.Behind() == "" {
			read++
		}
	}
	if read > 1 {
		w.fail("%d processes read the members each time", read)
	}
}

// Whatever happens to a fleet of processes of this release and of an older one, and to Redis's clock: no process that lives is found dead,
// each that died is found in time, one process leads, one is the keeper, and at most one reads the members of the fleet each time.
func TestFleetModel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for range 6 {
		seed := rand.Uint64()
		server.Do(t, "FLUSHALL")
		w := &world{
			t: t, server: server, rng: rand.New(rand.NewPCG(seed, 1)), happen: []string{fmt.Sprint("seed ", seed)},
			alive: make(map[string]*renewer), older: make(map[string]*renewer), died: make(map[string]int),
		}
		for n := range 5 {
			id := fmt.Sprintf("h:%03d:x", n*200+100)
			w.alive[id] = w.enter(id)
		}
		for range 30 {
			for range w.rng.IntN(3) {
				w.step()
			}
			w.round()
		}
	}
}

// A clock of Redis that jumps an hour forth and back makes no process look dead, and one that died before it, or between the jumps, is
// found when the fleet has renewed for a lease period.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{modelHour, -modelHour} {
		w := &world{
			t: t, server: redistest.Start(t), rng: rand.New(rand.NewPCG(1, 1)),
			alive: make(map[string]*renewer), older: make(map[string]*renewer), died: make(map[string]int),
		}
		for n := range 5 {
			id := fmt.Sprintf("h:%03d:x", n)
			w.alive[id] = w.enter(id)
		}
		old := w.enter("h:9:x")
		w.older["h:9:x"] = old
		die := func(id string) { delete(w.alive, id); w.died[id] = 0 }
		for range 5 {
			w.round()
		}
		die("h:000:x")
		w.move(by)
		w.round()
		die("h:003:x")
		w.died["h:000:x"] = 0
		w.move(-by)
		for n := range 20 {
			if w.round(); n < 2 && len(w.died) != 2 {
				t.Errorf("%v rounds after the jumps are reaped: %q", n, w.happen)
			}
		}
		if len(w.died) != 0 || len(w.alive) != 3 {
			t.Errorf("after %v and back nobody has taken %v", by, w.died)
		}
	}
}
