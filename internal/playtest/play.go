// Package playtest plays random histories of a fleet against a model: the turns of its processes are steps that a test
// takes, one after the other, so that a history can be repeated and shortened.
package playtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Step is one step of a history: what is done, and three numbers that say to which process, job or key.
type Step struct {
	Kind    int
	A, B, C uint8
}

// Kind is one of the things that may happen. Do returns false where there is nothing of the kind to do.
type Kind[W any] struct {
	Name   string
	Weight int
	Do     func(W, Step) bool
}

// Game is what a test plays. W is the world of one history.
type Game[W any] struct {
	Kinds   []Kind[W]
	Longest int                  // the steps of a history
	Begin   func(shape uint64) W // a world, drawn from shape
	After   func(w W, did bool)  // compares, after each step
	Stop    func(W)              // brings a history to a good end
	End     func(W)              // gives back what a world holds
	Title   func(shape uint64) string
	Dump    func(W) string
}

// Flags are those of one test: how many histories it tries, from which seed, and the one that it tries alone.
type Flags struct {
	histories *int
	seed      *uint64
	only      *int
}

// NewFlags defines the flags, for a variable of the test's package.
func NewFlags(test string, seed uint64) Flags {
	return Flags{
		flag.Int("histories", 40, "how many histories "+test+" tries"),
		flag.Uint64("histories.seed", seed, "what they are drawn from"),
		flag.Int("histories.only", -1, "the one history that "+test+" tries"),
	}
}

// Fatal is why a history is wrong.
type Fatal struct{ Text string }

// Fatalf ends a history: it is wrong.
func Fatalf(format string, args ...any) { panic(Fatal{fmt.Sprintf(format, args...)}) }

// Try plays histories, and fails the test with the fewest steps it finds after which one is wrong. Else it returns how many
// histories and steps it has played, and how often each kind of step.
func (g Game[W]) Try(t *testing.T, f Flags) (histories, steps int, counts map[string]int) {
	t.Helper()
	counts = make(map[string]int)
	for n := range *f.histories {
		if *f.only >= 0 && n != *f.only {
			continue
		}
		r := rand.New(rand.NewPCG(*f.seed, uint64(n)))
		shape := r.Uint64()
		done, wrong := g.draw(shape, r)
		for _, s := range done {
			counts[g.Kinds[s.Kind].Name]++
		}
		histories, steps = histories+1, steps+len(done)
		if wrong != "" {
			done, wrong = g.shrink(shape, done, wrong)
			t.Fatalf("history %d of -histories.seed=%d is wrong: %s\nafter these steps, the fewest that were found:\n\t%s\n%s",
				n, *f.seed, g.Title(shape), g.list(done), wrong)
		}
	}
	return histories, steps, counts
}

func (g Game[W]) list(steps []Step) string {
	var lines []string
	for _, s := range steps {
		lines = append(lines, fmt.Sprintf("{%q, %d, %d, %d}", g.Kinds[s.Kind].Name, s.A, s.B, s.C))
	}
	return strings.Join(lines, "\n\t")
}

// draw plays a history of steps that are drawn while it goes on. It returns those that did something, and what is
// wrong, or "".
func (g Game[W]) draw(shape uint64, r *rand.Rand) (done []Step, wrong string) {
	var all []int
	for kind, k := range g.Kinds {
		for range k.Weight {
			all = append(all, kind)
		}
	}
	wrong = g.play(shape, func(w W) {
		for range 5 * g.Longest {
			if len(done) == g.Longest {
				return
			}
			s := Step{all[r.IntN(len(all))], uint8(r.UintN(256)), uint8(r.UintN(256)), uint8(r.UintN(256))}
			done = append(done, s)
			if !g.take(w, s) {
				done = done[:len(done)-1]
			}
		}
	})
	return done, wrong
}

// take takes one step, and compares: a refused call wrote nothing.
func (g Game[W]) take(w W, s Step) bool {
	did := g.Kinds[s.Kind].Do(w, s)
	g.After(w, did)
	return did
}

func (g Game[W]) play(shape uint64, f func(W)) (wrong string) {
	w := g.Begin(shape)
	defer g.End(w)
	defer func() {
		if v := recover(); v != nil {
			why, ok := v.(Fatal)
			if !ok {
				panic(v)
			}
			wrong = why.Text + g.Dump(w)
		}
	}()
	g.After(w, false)
	f(w)
	g.Stop(w)
	return ""
}

// shrink takes steps away for as long as the history stays wrong.
func (g Game[W]) shrink(shape uint64, steps []Step, wrong string) ([]Step, string) {
	for size := len(steps) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(steps); {
			less := slices.Delete(slices.Clone(steps), at, at+size)
			still := g.play(shape, func(w W) {
				for _, s := range less {
					g.take(w, s)
				}
			})
			if still != "" {
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

// Pick picks one of some by a number of a step.
func Pick[T any](all []T, n uint8) (one T) {
	if len(all) > 0 {
		one = all[int(n)%len(all)]
	}
	return one
}
