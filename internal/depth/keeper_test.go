package depth

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// members are a fleet, whose process m is the keeper.
type members []string

func (members) Keeps() bool         { return true }
func (m members) Members() []string { return m }

// ride is a Keeper whose renewals a test makes.
type ride struct {
	*Keeper
	t      *testing.T
	server *redistest.Server
	number int64
}

func newRide(t *testing.T, others ...string) *ride {
	server, store := redistest.Start(t), resque.New("")
	if err := store.Enter(server.Dial(t), resque.Process{ID: "m", Started: time.Unix(1, 0)}, time.Hour, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	b := part.Base{Log: slog.New(slog.DiscardHandler), Clock: clock.System, Store: store}
	return &ride{Keeper: NewKeeper(b, append(members{"m"}, others...)), t: t, server: server}
}

// renew makes one renewal.
func (r *ride) renew() {
	r.t.Helper()
	r.number++
	cargo := &resque.Cargo{Number: r.number}
	r.Load(cargo)
	renewed, err := r.base.Store.Renew(r.server.Dial(r.t), "m", time.Hour, time.Hour, cargo)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Answered(false, renewed.Due)
}

// A head that Redis refuses rests, as a large one does.
func TestARefusedHeadRests(t *testing.T) {
	t.Parallel()
	r := newRide(t)
	r.server.Do(t, "SADD", "resque:workers", "ruby:7:low") // so the queue is not counted, but looked at
	r.server.Do(t, "SADD", "resque:queues", "low")
	r.server.Do(t, "RPUSH", "resque:queue:low", "a", "b")
	for range 3 {
		r.renew()
	}
	q := r.watch.queues["low"]
	if q == nil || q.length != 2 {
		t.Fatalf("the queue is not followed: %+v", q)
	}
	r.server.Do(t, "DEL", "resque:queue:low")
	r.server.Do(t, "SET", "resque:queue:low", "of another type")
	if r.renew(); !q.restsUntil.After(r.watch.now) || len(r.watch.uncounted()) != 0 {
		t.Errorf("a head that was refused is asked again: it rests until %s", q.restsUntil)
	}
}

// A keeper follows so many queues and no more, those that it knew first, and forgets what has gone.
func TestQueuesAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	w := newWatch(now)
	w.others.heard, w.others.unread, w.others.workers.done = true, false, true
	w.found(&w.own, nil, "0")
	w.found(&w.names, []string{"mail", strings.Repeat("x", longName+1)}, "7")
	for page := range 100 {
		var names []string
		for n := range 100 {
			names = append(names, fmt.Sprintf("invented-%d-%d", page, n))
		}
		w.found(&w.names, names, "7")
	}
	w.found(&w.names, nil, "0")
	if len(w.queues) != mostQueues || len(w.order) != mostQueues || w.queues["mail"] == nil || len(w.names.whole) > mostNames {
		t.Errorf("%d queues, %d in order, %d names", len(w.queues), len(w.order), len(w.names.whole))
	}
	if names := w.pick(); len(names) != mostLooks {
		t.Errorf("a renewal looks at %d queues", len(names))
	}
	w.found(&w.names, []string{"mail", "other"}, "0") // the invented ones have gone
	w.answered(now.Add(time.Second))
	if len(w.queues) != 1 || w.queues["mail"] == nil || len(w.forgotten) != mostQueues-1 {
		t.Errorf("%d queues are followed, %d are forgotten", len(w.queues), len(w.forgotten))
	}
	w.found(&w.names, []string{"mail", "other"}, "0")
	if w.queues["other"] == nil {
		t.Error("there is no room for another queue")
	}
}

// A queue is counted where all that take from it say how many.
func TestCountable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		others others
		want   bool
	}{
		"no others":                     {others{}, true},
		"a worker of Ruby":              {others{workers: pages{whole: []string{"high", "mail"}}}, false},
		"one on all queues":             {others{workers: pages{whole: []string{"*"}}}, false},
		"one on a pattern":              {others{workers: pages{whole: []string{"ma*"}}}, false},
		"one on others":                 {others{workers: pages{whole: []string{"high", "x*"}}}, true},
		"an older process":              {others{records: map[string]asks{"p": {[]string{"mail"}, 0}}}, false},
		"an older process on others":    {others{records: map[string]asks{"p": {[]string{"high"}, 0}}}, true},
		"a process that counts":         {others{records: map[string]asks{"p": {[]string{"mail"}, resque.Duties}}}, true},
		"an older server":               {others{takers: map[string]int{"s": 0}}, false},
		"a server that counts":          {others{takers: map[string]int{"s": resque.Duties}, leases: 3}, true},
		"clients hold, without servers": {others{leases: 3}, false},
	} {
		if got := tt.others.countable("mail"); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Queues of Resque and goworker's own are followed under their names.
func TestOwnQueues(t *testing.T) {
	t.Parallel()
	r := newRide(t)
	for _, name := range []string{"mail", "msgpack:mail"} {
		r.server.Do(t, "SADD", r.base.Store.KeyOfNames(name), name)
		r.server.Do(t, "RPUSH", r.base.Store.KeyOfQueue(name), "a", "b", "c")
	}
	for range 3 {
		r.renew()
	}
	for _, name := range []string{"mail", "msgpack:mail"} {
		if q := r.watch.queues[name]; q == nil || q.length != 3 {
			t.Errorf("%s is followed as %+v", name, q)
		}
	}
}

// A record that was not there, or that Redis refused, is read again: then the queues are counted that it was thought to take from.
func TestARecordThatComesLater(t *testing.T) {
	t.Parallel()
	r := newRide(t, "p")
	r.server.Do(t, "SADD", "resque:queues", "mail")
	r.server.Do(t, "ZADD", "resque:go:takers", "+inf", "late")
	r.server.Do(t, "SET", "resque:go:taker:late", "of another type")
	counted := func() bool {
		for range 2 * each {
			r.renew()
		}
		return r.watch.others.known() && r.watch.others.countable("mail")
	}
	if counted() {
		t.Error("it is counted although nobody knows what the process and the server do")
	}
	r.server.Do(t, "HSET", "resque:go:process:p", "epoch", 1, "queues", "mail", "duties", resque.Duties)
	if counted() {
		t.Error("it is counted although nobody knows what the server does")
	}
	r.server.Do(t, "DEL", "resque:go:taker:late")
	if counted() {
		t.Error("it is counted although the server has no record")
	}
	r.server.Do(t, "HSET", "resque:go:taker:late", "started", 1, "duties", resque.Duties)
	if !counted() {
		t.Errorf("it is not counted: %+v", r.watch.others)
	}
}

// After Redis's clock has jumped back, a keeper begins again. What was found out by the time before is not gone on with.
func TestClockJumpsBack(t *testing.T) {
	t.Parallel()
	r := newRide(t)
	now := time.Unix(1_800_000_000, 0)
	r.Answered(false, resque.Due{Now: now})
	before := r.watch
	r.Answered(false, resque.Due{Now: now.Add(2 * time.Second)})
	if r.watch != before {
		t.Error("it begins again with each renewal")
	}
	back := now.Add(-time.Hour)
	if r.Answered(false, resque.Due{Now: back}); r.watch == before || !r.watch.now.Equal(back) {
		t.Error("it goes on with times of the future")
	}
	r.watch.resume(map[string]resque.Depth{
		"later": {At: now, Length: 1, Pushed: 7, Method: resque.AgeCounted},
		"low":   {At: back.Add(-time.Second), Length: 1, Pushed: 7, Method: resque.AgeCounted},
	})
	if later, low := r.watch.queues["later"], r.watch.queues["low"]; !later.looked.IsZero() || low.looked.IsZero() {
		t.Errorf("it goes on with a time of the future (%s), or not with one of a moment ago (%s)", later.looked, low.looked)
	}
}

// Where Redis refuses what the keeper writes, processes count on. The keeper forgets what they count where that is of many queues.
func TestAKeeperThatIsRefusedPrunes(t *testing.T) {
	t.Parallel()
	r := newRide(t)
	r.server.Do(t, "SADD", "resque:queues", "low")
	r.server.Do(t, "RPUSH", "resque:queue:low", "a")
	r.server.Do(t, "SET", r.base.Store.KeyOfDepths(), "of another type")
	for renewals := 0; !r.off; renewals++ {
		if r.renew(); renewals > 20 {
			t.Fatal("Redis does not refuse the keeper")
		}
	}
	taken := r.base.Store.KeyOfTaken()
	r.server.Do(t, "HSET", taken, "low", 1)
	for range 20 {
		r.renew()
	}
	if n := r.server.Int(t, "HLEN", taken); n != 1 {
		t.Errorf("of one queue that was counted %d are left", n)
	}
	for n := range 3000 {
		r.server.Do(t, "HSET", taken, fmt.Sprintf("invented-%d", n), 1)
	}
	most := 2 * mostQueues
	for renewals := 0; r.server.Int(t, "HLEN", taken) > most; renewals++ {
		if r.renew(); renewals > 200 {
			t.Fatalf("%d queues are left", r.server.Int(t, "HLEN", taken))
		}
	}
	if len(r.watch.queues) != 0 || len(r.watch.forgotten) > most {
		t.Errorf("it follows %d queues, and is to forget %d", len(r.watch.queues), len(r.watch.forgotten))
	}
}

// A process counts so many queues until a renewal says them, and none with a long name.
func TestCountIsBounded(t *testing.T) {
	t.Parallel()
	c := NewCount(part.Base{})
	c.Took("low", 1)
	c.Took(strings.Repeat("x", longName+1), 1)
	for n := range 2 * mostUnsaid {
		c.Took(fmt.Sprintf("invented-%d", n), 1)
	}
	c.Took("low", 1)
	if len(c.taken) != mostUnsaid || c.taken["low"] != 2 || c.taken[strings.Repeat("x", longName+1)] != 0 {
		t.Errorf("%d queues are counted, low %d times", len(c.taken), c.taken["low"])
	}
}
