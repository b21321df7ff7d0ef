package aggregate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/feature/aggregate"
	"github.com/goworker/goworker/internal/feature/cancel"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/failed"
	"github.com/goworker/goworker/internal/feature/retry"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/playtest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/groups"
)

var flags = playtest.NewFlags("TestGroups", 24)

// longest is how many steps a history has before all ends well.
const longest = 50

// TestGroups plays random histories of items and their groups: processes that are killed, replies that are lost, items that are
// there twice, several processes that flush, a clock that steps, removed keys and those of another program. After each step
// each item is in one place, and groups and their jobs are what the model says. In the end each item has been in the list
// of one job that was done.
func TestGroups(t *testing.T) {
	t.Parallel()
	g := playtest.NewGround(t)
	tally := make(map[string]int)
	histories, steps, counts := playtest.Game[*world]{
		Kinds: kinds, Longest: longest,
		Begin: func(shape uint64) *world { return begin(g, shape, tally) },
		After: func(w *world, did bool) {
			if did {
				w.Now = w.Now.Add(time.Minute)
			}
			w.check()
		},
		Stop: (*world).stop, Dump: (*world).dump, Title: func(uint64) string { return "items" },
		End: func(w *world) {
			w.tally["kills"] += w.Kills
			w.tally["refused"] += w.Refused
			w.Close()
		},
	}.Try(t, flags)
	t.Logf("%d histories of %d steps: %v %v", histories, steps, tally, counts)
}

// class is one whose jobs are gathered, and how the arguments of an item look.
type class struct {
	name string
	of   aggregate.Of
	args func(key string, n int, r *rand.Rand) string
}

// classes are those whose jobs are gathered.
var classes = []class{
	{"Sum", aggregate.Of{Keys: []int{0}, Count: 4, Wait: time.Hour, Bytes: 1 << 20},
		func(key string, n int, _ *rand.Rand) string { return fmt.Sprintf(`%q,%d`, key, n) }},
	{"Pair", aggregate.Of{Count: 5, Wait: time.Hour, Quiet: 10 * time.Minute, Bytes: 1 << 20},
		func(key string, n int, _ *rand.Rand) string { return fmt.Sprintf(`%d,%q`, n, key) }},
	{"Wide", aggregate.Of{Keys: []int{1}, Count: 50, Wait: time.Hour, Bytes: 240},
		func(key string, n int, r *rand.Rand) string {
			return fmt.Sprintf(`"%d-%s",%q`, n, strings.Repeat("x", r.IntN(10)*r.IntN(20)), key)
		}},
}

func newClasses() playtest.Classes {
	all := make(playtest.Classes)
	for _, c := range classes {
		one, of := &outcome.Class{Name: c.name}, c.of
		outcome.Put(one, &of)
		outcome.Put(one, &retry.Policy{Limit: 1, Delay: func(int, error) time.Duration { return 0 }, Allows: func(error) bool { return true }})
		all[c.name] = one
	}
	return all
}

// world is one history and its model.
type world struct {
	*playtest.World
	store groups.Store
	tally map[string]int
	rand  *rand.Rand // of items; by the shape

	items map[int]int       // how often each is to be somewhere or done, by number
	done  map[int]int       // how often each was in the list of a job that is done
	waits map[string]*group // by how their jobs begin, and where
	jobs  map[string]made   // of groups, by id
	looks [][]string        // groups that processes found due, and have not flushed yet
	seen  []string          // ids that groups had
}

// group is one that waits.
type group struct {
	queue, class, head string
	of                 aggregate.Of
	items              []string
	bytes              int
	id, job            string // by Redis
	began, last        int64  // ms; 0: not read yet
	late               bool   // Redis refused to make its job, and it was put off
	lost               bool   // an operator removed its place in the index
}

// made is a job that a group became.
type made struct {
	queue, head string
	items       []string
}

func begin(g *playtest.Ground, shape uint64, tally map[string]int) *world {
	w := &world{
		World: g.NewWorld(), store: groups.New(g.Store), tally: tally, rand: rand.New(rand.NewPCG(shape, 0)),
		items: make(map[int]int), done: make(map[int]int), waits: make(map[string]*group), jobs: make(map[string]made),
	}
	w.Rules = playtest.Rules{
		Queues: []string{"a", "b"}, Classes: newClasses(),
		Features: []func(outcome.Deps) outcome.Feature{cancel.New, expiry.New, aggregate.New, retry.New, failed.New},
		Ended: func(raw []byte, o *outcome.Outcome, j *outcome.Job) any {
			return end{parse(raw), j.Queue, o.State}
		},
		Committed: func(e any, _ bool) { w.ended(e.(end)) },
		Poison:    func([]byte) {},
	}
	return w
}

// end is what became of a job.
type end struct {
	job
	queue string
	state outcome.State
}

func (w *world) ended(e end) {
	switch e.state {
	case outcome.Gathered:
		w.tally["gathered"]++
		w.gather(e)
	case outcome.Done:
		for _, n := range e.numbers() {
			w.done[n]++
		}
		if e.Gathered == 0 {
			w.tally["alone"]++
		}
	}
}

// job is what a payload says.
type job struct {
	Class    string
	Args     []json.RawMessage
	ID       string
	Gathered int
}

func parse(raw []byte) (j job) {
	if err := json.Unmarshal(raw, &j); err != nil {
		playtest.Fatalf("%v in %s", err, raw)
	}
	return j
}

func (j job) of() aggregate.Of {
	return classes[slices.IndexFunc(classes, func(c class) bool { return c.name == j.Class })].of
}

// parts are the arguments that make the key, and the others.
func (j job) parts() (keys, rest []string) {
	of := j.of()
	for i, a := range j.Args {
		if slices.Contains(of.Keys, i) {
			keys = append(keys, string(a))
		} else {
			rest = append(rest, string(a))
		}
	}
	return keys, rest
}

// element is what stands for an item in its group's list.
func (j job) element() string {
	_, rest := j.parts()
	if len(rest) == 1 {
		return rest[0]
	}
	return "[" + strings.Join(rest, ",") + "]"
}

// list are the elements of a group's job.
func (j job) list() (items []string) {
	var raw []json.RawMessage
	if err := json.Unmarshal(j.Args[len(j.Args)-1], &raw); err != nil {
		playtest.Fatalf("%v in the list %s", err, j.Args[len(j.Args)-1])
	}
	for _, r := range raw {
		items = append(items, string(r))
	}
	return items
}

// numbers are those of the items that a job is or is made of.
func (j job) numbers() (all []int) {
	elements := []string{j.element()}
	if j.Gathered > 0 {
		elements = j.list()
	}
	for _, e := range elements {
		n := 0
		if _, err := fmt.Sscanf(strings.TrimLeft(e, `["`), "%d", &n); err != nil {
			playtest.Fatalf("no number in %s", e)
		}
		all = append(all, n)
	}
	return all
}

// gather has the model learn that an item became a part of its group.
func (w *world) gather(e end) {
	keys, _ := e.parts()
	head := fmt.Sprintf(`{"class":%q,"args":[`, e.Class)
	for _, k := range keys {
		head += k + ","
	}
	head += "["
	name, item, of := e.queue+" "+head, e.element(), e.of()
	size, room := len(item)+1, of.Bytes-len(head)-groups.Tail
	if g := w.waits[name]; g != nil && (g.last > w.clock() || g.bytes+size > room) {
		w.flushed(name)
	}
	g := w.waits[name]
	if g == nil {
		g = &group{queue: e.queue, class: e.Class, head: head, of: of}
		w.waits[name] = g
	}
	g.items, g.bytes, g.last = append(g.items, item), g.bytes+size, 0
	if full := len(g.items) >= of.Count || g.bytes >= room; full && !w.refuses(e.queue) {
		w.flushed(name)
	}
}

// refuses reports whether no job can be made of a group of this queue now: it stays, and takes more items.
func (w *world) refuses(queue string) bool {
	return slices.ContainsFunc(w.Spoiled, func(key string) bool { return key == w.Store.KeyOfQueue(queue) || key == "resque:queues" })
}

// flushed has the model learn that a group became a job.
func (w *world) flushed(name string) {
	g := w.waits[name]
	delete(w.waits, name)
	w.tally["flushed"]++
	w.fresh(g)
}

// fresh keeps the job of a group, whose id Redis says as long as the group waits. A group that began and ended in one commit has
// one that is not known.
func (w *world) fresh(g *group) {
	id := g.job
	if id == "" {
		id = fmt.Sprint("unseen ", len(w.jobs))
	}
	w.jobs[id] = made{g.queue, g.head, g.items}
}

// clock is Redis's time in ms.
func (w *world) clock() int64 {
	t, err := redis.Int64s(w.Do("TIME"), nil)
	w.Must(err)
	return t[0]*1000 + t[1]/1000
}

// due is when a group is to become a job.
func (g *group) due() int64 {
	at := g.began + g.of.Wait.Milliseconds()
	if g.of.Quiet > 0 {
		at = min(at, g.last+g.of.Quiet.Milliseconds())
	}
	return at
}

// check compares what Redis holds with the model.
func (w *world) check() {
	w.checkGroups()
	have := maps.Clone(w.done)
	found := make(map[string]bool)
	w.each(func(place string, raw []byte) {
		j := parse(raw)
		for _, n := range j.numbers() {
			have[n]++
		}
		if j.Gathered == 0 {
			return
		}
		w.identify(j)
		m, known := w.jobs[j.ID]
		head, items := headOf(j), j.list()
		if !known || m.head != head || !slices.Equal(m.items, items) || len(items) != j.Gathered {
			playtest.Fatalf("%s: the job %s is none that the model knows: %+v", place, raw, m)
		}
		found[j.ID] = true
	})
	for _, g := range w.waits {
		for _, item := range g.items {
			n := 0
			_, _ = fmt.Sscanf(strings.TrimLeft(item, `["`), "%d", &n)
			have[n]++
		}
	}
	for n := range have {
		if w.items[n] != have[n] {
			playtest.Fatalf("item %d is in %d places or done, want %d", n, have[n], w.items[n])
		}
	}
	for n, want := range w.items {
		if have[n] != want {
			playtest.Fatalf("item %d is in %d places or done, want %d", n, have[n], want)
		}
	}
}

// headOf is how the payload of a group's job begins.
func headOf(j job) string {
	head := fmt.Sprintf(`{"class":%q,"args":[`, j.Class)
	for _, k := range j.Args[:len(j.Args)-1] {
		head += string(k) + ","
	}
	return head + "["
}

// identify gives a job whose group was never seen the id that Redis gave it.
func (w *world) identify(j job) {
	if _, known := w.jobs[j.ID]; known {
		return
	}
	for id, m := range w.jobs {
		if strings.HasPrefix(id, "unseen ") && m.head == headOf(j) && slices.Equal(m.items, j.list()) {
			delete(w.jobs, id)
			w.jobs[j.ID] = m
			return
		}
	}
}

// each calls f for every job that Redis holds, but for those in groups.
func (w *world) each(f func(place string, raw []byte)) {
	for _, queue := range w.Queues {
		key := w.Store.KeyOfQueue(queue)
		if slices.Contains(w.Spoiled, key) {
			continue
		}
		for _, raw := range w.List("LRANGE", key, 0, -1) {
			f("queue "+queue, []byte(raw))
		}
	}
	framed := func(place string, all []string) {
		for _, raw := range all {
			if _, p, ok := resque.CutPrefix([]byte(raw)); ok && strings.HasPrefix(string(p), "{") {
				f(place, p)
			}
		}
	}
	if key := w.Store.KeyOfSchedule(); !slices.Contains(w.Spoiled, key) {
		framed("schedule", w.List("ZRANGE", key, 0, -1))
	}
	for _, p := range w.Procs {
		framed("record of "+p.ID, p.Reserved())
	}
	for _, raw := range w.List("LRANGE", "resque:failed", 0, -1) {
		failure, err := payload.ParseFailure([]byte(raw))
		w.Must(err)
		f("failed", failure.Payload)
	}
}

// checkGroups compares the groups that wait with those of the model, and learns their ids and times.
func (w *world) checkGroups() {
	found, now := 0, w.clock()
	scores := map[string]float64{}
	if !slices.Contains(w.Spoiled, w.store.GroupsKey().String()) {
		all, err := redis.Values(w.Do("ZRANGE", w.store.GroupsKey().String(), 0, -1, "WITHSCORES"), nil)
		w.Must(err)
		for i := 0; i < len(all); i += 2 {
			id, _ := redis.String(all[i], nil)
			scores[id], _ = redis.Float64(all[i+1], nil)
		}
	}
	prefix := w.store.GroupKey("").String()
	for _, key := range w.List("KEYS", prefix+"*") {
		if slices.Contains(w.Spoiled, key) {
			continue
		}
		found++
		id, list := strings.TrimPrefix(key, prefix), w.List("LRANGE", key, 0, -1)
		queue, _, _ := groups.SplitID(id)
		var began, last int64
		var wait, quiet, sum int
		var job string
		if _, err := fmt.Sscanf(list[0], "%d %d %d %s ", &began, &wait, &quiet, &job); err != nil {
			playtest.Fatalf("group %s begins with %s: %v", id, list[0], err)
		}
		_, head, _ := strings.Cut(list[0], job+" ")
		g := w.waits[queue+" "+head]
		if g == nil {
			playtest.Fatalf("the model knows no group %s: %q", id, list)
		}
		var items []string
		for _, element := range list[1:] {
			words := strings.SplitN(element, " ", 3)
			_, _ = fmt.Sscan(words[0], &sum)
			_, _ = fmt.Sscan(words[1], &last)
			items = append(items, words[2])
		}
		if !slices.Equal(items, g.items) || sum != g.bytes {
			playtest.Fatalf("group %s holds %q of %d bytes, want %q of %d", id, items, sum, g.items, g.bytes)
		}
		if g.began == 0 {
			g.began, g.id, g.job = began, id, job
			w.seen = append(w.seen, id)
			if began > now || began < now-time.Minute.Milliseconds() {
				playtest.Fatalf("group %s began at %d, now %d", id, began, now)
			}
		}
		if g.last == 0 {
			g.last = last
		}
		if began != g.began || last != g.last || job != g.job {
			playtest.Fatalf("group %s: began %d, last %d, job %s, and it was %+v", id, began, last, job, g)
		}
		score, indexed := scores[id]
		if len(w.Spoiled) == 0 && !g.late && !g.lost && (!indexed || int64(score) > g.due()) {
			playtest.Fatalf("group %s is due at %d, and stands in the index at %.0f", id, g.due(), score)
		}
	}
	if spoiled := slices.ContainsFunc(w.Spoiled, func(key string) bool { return strings.HasPrefix(key, prefix) }); found != len(w.waits) && !spoiled {
		playtest.Fatalf("%d groups wait, want %d", found, len(w.waits))
	}
}

// dump is what Redis holds.
func (w *world) dump() string {
	var lines []string
	for name, g := range w.waits {
		lines = append(lines, fmt.Sprintf("\n\tgroup %s: %+v", name, *g))
	}
	for id, m := range w.jobs {
		lines = append(lines, fmt.Sprintf("\n\tjob %s: %+v", id, m))
	}
	w.each(func(place string, raw []byte) { lines = append(lines, fmt.Sprintf("\n\t%s: %s", place, raw)) })
	for _, key := range w.List("KEYS", "resque:go:group*") {
		lines = append(lines, "\n\t"+key)
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

var errOops = errors.New("oops")
