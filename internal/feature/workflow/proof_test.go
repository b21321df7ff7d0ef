package workflow_test

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
	histories = flag.Int("histories", 40, "how many histories TestWorkflows tries")
	seed      = flag.Uint64("histories.seed", 23, "what they are drawn from")
	only      = flag.Int("histories.only", -1, "the one history that TestWorkflows tries")
)

// Limits of a history: its steps before all ends well, and the steps of its workflow.
const (
	longest = 40
	largest = 14
)

// TestWorkflows plays random histories of random workflows: processes that are killed, replies that are lost, jobs that run
// twice, poison, keys of another program, and operators who cancel, pause, retry, mark. After each call all that Redis
// holds is what the model says. In the end all jobs end well, and each workflow is done.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	steps, counts := 0, make(map[string]int)
	for n := range *histories {
		if *only >= 0 && n != *only {
			continue
		}
		r := rand.New(rand.NewPCG(*seed, uint64(n)))
		shape := r.Uint64()
		done, wrong := g.draw(shape, r)
		for _, s := range done {
			counts[kinds[s.kind].name]++
		}
		steps += len(done)
		if wrong != "" {
			done, wrong = g.shrink(shape, done, wrong)
			d := draw(rand.New(rand.NewPCG(shape, 0)), largest)
			t.Fatalf("history %d of -histories.seed=%d is wrong: %s %+v\nafter these steps, the fewest that were found:\n\t%s\n%s",
				n, *seed, text(d.root), d.options, list(done), wrong)
		}
	}
	t.Logf("%d histories of %d steps: %+v %v", *histories, steps, g.tally, counts)
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
func (g *ground) draw(shape uint64, r *rand.Rand) (done []step, wrong string) {
	var all []int
	for kind, k := range kinds {
		for range k.weight {
			all = append(all, kind)
		}
	}
	wrong = g.play(shape, func(w *world) {
		for range 5 * longest {
			if len(done) == longest {
				return
			}
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
func (g *ground) again(shape uint64, steps []step) (wrong string) {
	return g.play(shape, func(w *world) {
		for _, s := range steps {
			w.take(s)
		}
	})
}

func (g *ground) play(shape uint64, f func(*world)) (wrong string) {
	w := g.begin()
	defer func() {
		if v := recover(); v != nil {
			why, ok := v.(fatal)
			if !ok {
				panic(v)
			}
			wrong = why.text + w.dump()
		}
		w.end()
	}()
	w.begins(draw(rand.New(rand.NewPCG(shape, 0)), largest))
	f(w)
	w.stop()
	return ""
}

// dump is what Redis holds of the workflow.
func (w *world) dump() string {
	if w.model == nil {
		return ""
	}
	letters, _ := redis.String(w.c.Do("GET", w.store.LettersKey(w.model.id).String()))
	fields, _ := redis.StringMap(w.c.Do("HGETALL", w.store.WorkflowKey(w.model.id).String()))
	lines := []string{"\n\tletters = " + letters}
	score, _ := redis.String(w.c.Do("ZSCORE", w.store.IndexKey().String(), w.model.id))
	now, _ := redis.Strings(w.c.Do("TIME"))
	lines = append(lines, fmt.Sprintf("index = %s, now %s", score, now))
	for name, value := range fields {
		lines = append(lines, name+" = "+value)
	}
	for n, one := range w.model.steps {
		if one != nil {
			lines = append(lines, fmt.Sprintf("step %d: %c in the model, place %s", n, one.letter, one.place))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n\t")
}

// shrink takes steps away for as long as the history stays wrong.
func (g *ground) shrink(shape uint64, steps []step, wrong string) ([]step, string) {
	for size := len(steps) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(steps); {
			less := slices.Delete(slices.Clone(steps), at, at+size)
			if still := g.again(shape, less); still != "" {
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
	did := kinds[s.kind].do(w, s)
	if did {
		w.now = w.now.Add(time.Minute)
	}
	w.check() // a refused call wrote nothing
	return did
}
