package workflow_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/playtest"
)

var flags = playtest.NewFlags("TestWorkflows", 4)

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
	shaped := func(shape uint64) drawn { return draw(rand.New(rand.NewPCG(shape, 0)), largest) }
	histories, steps, counts := playtest.Game[*world]{
		Kinds: kinds, Longest: longest,
		Begin: func(shape uint64) *world {
			w := g.begin()
			w.shape = shaped(shape)
			return w
		},
		After: (*world).after, Stop: (*world).stop, End: (*world).end, Dump: (*world).dump,
		Title: func(shape uint64) string {
			d := shaped(shape)
			return fmt.Sprintf("%s %+v", text(d.root), d.options)
		},
	}.Try(t, flags)
	t.Logf("%d histories of %d steps: %+v %v", histories, steps, g.tally, counts)
}

// after follows each step, and comes first of all: it starts the workflow.
func (w *world) after(did bool) {
	if w.model == nil {
		w.begins(w.shape)
		return
	}
	if did {
		w.Now = w.Now.Add(time.Minute)
	}
	w.check()
}

// dump is what Redis holds of the workflow.
func (w *world) dump() string {
	if w.model == nil {
		return ""
	}
	letters, _ := redis.String(w.Conn.Do("GET", w.store.LettersKey(w.model.id).String()))
	fields, _ := redis.StringMap(w.Conn.Do("HGETALL", w.store.WorkflowKey(w.model.id).String()))
	lines := []string{"\n\tletters = " + letters}
	score, _ := redis.String(w.Conn.Do("ZSCORE", w.store.IndexKey().String(), w.model.id))
	now, _ := redis.Strings(w.Conn.Do("TIME"))
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
