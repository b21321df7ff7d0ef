package results_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	histories = flag.Int("histories", 1000, "how many histories TestDocuments tries")
	seed      = flag.Uint64("histories.seed", 22, "what they are drawn from")
)

// longest is how many steps a history has.
const longest = 20

// TestDocuments plays random histories of jobs with documents: processes that are killed, replies that are
// lost, notes that come late, cancels, and operators who remove keys. After each step every document
// is what the model says. It says done only of a job whose commit said so, and running only of one whose ticket
// stands in a record.
func TestDocuments(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	steps, counts := 0, make(map[string]int)
	for n := range *histories {
		r := rand.New(rand.NewPCG(*seed, uint64(n)))
		done, wrong := g.draw(r)
		for _, s := range done {
			counts[kinds[s.kind].name]++
		}
		steps += len(done)
		if wrong != "" {
			done, wrong = g.shrink(done, wrong)
			t.Fatalf("history %d of -histories.seed=%d is wrong after these steps, the fewest that were found:\n\t%s\n%s", n, *seed, list(done), wrong)
		}
	}
	t.Logf("%d histories of %d steps: %v", *histories, steps, counts)
}

func list(steps []step) string {
	var lines []string
	for _, s := range steps {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n\t")
}

// draw plays a history of steps that are drawn while it goes on. It returns those that did something, and what is
// wrong, or "".
func (g *ground) draw(r *rand.Rand) (done []step, wrong string) {
	var all []int
	for kind, k := range kinds {
		for range k.weight {
			all = append(all, kind)
		}
	}
	wrong = g.play(func(w *world) {
		for len(done) < longest {
			s := step{all[r.IntN(len(all))], uint8(r.UintN(256)), uint8(r.UintN(256)), uint8(r.UintN(256))}
			done = append(done, s)
			if !w.take(s) {
				done = done[:len(done)-1]
			}
		}
	})
	return done, wrong
}

// again plays a history.
func (g *ground) again(steps []step) (wrong string) {
	return g.play(func(w *world) {
		for _, s := range steps {
			w.take(s)
		}
	})
}

func (g *ground) play(f func(*world)) (wrong string) {
	w := g.begin()
	defer func() {
		if v := recover(); v != nil {
			why, ok := v.(fatal)
			if !ok {
				panic(v)
			}
			wrong = why.text
		}
		w.end()
	}()
	f(w)
	w.stop()
	return ""
}

// shrink takes steps away for as long as the history stays wrong.
func (g *ground) shrink(steps []step, wrong string) ([]step, string) {
	for size := len(steps) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(steps); {
			less := slices.Delete(slices.Clone(steps), at, at+size)
			if still := g.again(less); still != "" {
				steps, wrong, shorter = less, still, true
			} else {
				at += size
			}
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return steps, wrong
}

// take takes one step, and compares. It returns false if there was nothing to do.
func (w *world) take(s step) bool {
	if !kinds[s.kind].do(w, s) {
		return false
	}
	w.now = w.now.Add(time.Minute)
	w.check()
	return true
}

// check compares what Redis holds with the model.
func (w *world) check() {
	m := w.model
	for _, id := range ids {
		w.must(w.c.Send("TYPE", w.store.KeyOfResult(id)))
		w.must(w.c.Send("HGETALL", w.store.KeyOfResult(id)))
		w.must(w.c.Send("PTTL", w.store.KeyOfResult(id)))
		w.must(w.c.Send("GET", w.store.KeyOfProgress(id)))
		w.must(w.c.Send("PTTL", w.store.KeyOfProgress(id)))
		w.must(w.c.Send("LRANGE", w.store.KeyOfJobLogs(id), 0, -1))
	}
	w.must(w.c.Send("TYPE", w.store.KeyOfCancelled()))
	w.must(w.c.Send("ZRANGE", w.store.KeyOfCancelled(), 0, -1))
	w.must(w.c.Flush())
	replies := make([]any, 6*len(ids)+2)
	for i := range replies {
		replies[i], _ = w.c.Receive() // keys of another type answer with an error
	}
	next := func() (reply any, err error) {
		reply, replies = replies[0], replies[1:]
		return reply, nil
	}
	for _, id := range ids {
		kind, _ := redis.String(next())
		fields, _ := redis.StringMap(next())
		ttl, _ := redis.Int64(next())
		progress, _ := redis.String(next())
		progress, _, _ = strings.Cut(progress, timed)
		left, _ := redis.Int64(next())
		logs, _ := redis.Strings(next())
		d := m.docs[id]
		switch want := map[bool]string{true: "hash", false: "none"}[d != nil]; {
		case m.other[id] && kind == "string":
		case kind != want:
			w.fatalf("the document of %s is a %s, want %s", id, kind, want)
		case d != nil:
			if wrong := d.differs(fields, w.began.Add(-time.Second), time.Now().Add(time.Second)); wrong != "" {
				w.fatalf("the document of %s: %s", id, wrong)
			}
			w.lives("the document of "+id, ttl, d.life)
			w.holds(id, d)
			if !slices.Equal(logs, d.logs) {
				w.fatalf("the log of %s is %q, want %q", id, logs, d.logs)
			}
		}
		p := m.progress[id]
		if p == nil {
			p = new(text)
		}
		if progress != p.value {
			w.fatalf("the progress of %s is %s, want %s", id, progress, p.value)
		}
		if p.life != 0 {
			w.lives("the progress of "+id, left, p.life)
		}
	}
	kind, _ := redis.String(next())
	entries, _ := redis.Strings(next())
	var want []string
	for _, id := range ids {
		if m.wanted[id] {
			want = append(want, "j:"+id)
		}
	}
	slices.Sort(entries)
	if !slices.Equal(entries, want) || m.other["go:cancelled"] != (kind == "string") {
		w.fatalf("cancelled are %q, want %q", entries, want)
	}
	for _, soft := range m.soft {
		if len(m.other) == 0 {
			w.fatalf("Redis refused %v", soft)
		}
	}
	m.soft = nil
}

// timed is where the time of a progress begins.
const timed = `,"at":`

// lives compares the rest of a key's time with what it had.
func (w *world) lives(what string, left int64, life time.Duration) {
	const history = 20 * time.Second // takes less
	if is := time.Duration(left) * time.Millisecond; is > life+time.Second || is < life-history {
		w.fatalf("%s stays for %v, want %v", what, is, life)
	}
}

// holds proves what a document never says.
func (w *world) holds(id string, d *document) {
	switch d.fields["state"] {
	case "done":
		if !w.model.done[id] {
			w.fatalf("the document of %s says done, and no such commit was applied", id)
		}
	case "running":
		if w.model.orphans[id] {
			return
		}
		for _, p := range w.procs {
			for _, value := range w.list("HVALS", w.inflight(p.ID)) {
				if strings.Contains(value, fmt.Sprintf(`"id":%q`, id)) {
					return
				}
			}
		}
		w.fatalf("the document of %s says running, and its ticket is in no record", id)
	}
}
