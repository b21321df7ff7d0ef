package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/resque"
)

// Members that end in one commit leave what they leave one by one: late ones, one twice, failures and the last one too.
func TestArriveTogether(t *testing.T) {
	t.Parallel()
	const members = 12
	w := newWire(t)
	rapid.Check(t, func(rt *rapid.T) {
		w.do("FLUSHDB")
		w.last = 0
		w.must(w.s.Enter(w.c, resque.Process{ID: "p", Started: time.Unix(1, 0)}, time.Hour, time.Unix(1, 0)))
		kept := rapid.SampledFrom([]string{"0", "n", "1"}).Draw(rt, "kept")
		for _, id := range []string{"a", "b"} {
			p := &Plan{ID: id, Letters: []byte(strings.Repeat("s", members) + "w"), Fields: []any{
				"j0", "1 0 0 j 0 0 - - - -", "j1", fmt.Sprintf("%d 0 0 j %d 1 - - - -", members, members),
				fmt.Sprint("s", members), stepOf{members, "low", "0 - - - - 1 -", ""}.template(id, "s v [0+12] 0 0"),
			}}
			w.start(p)
		}
		var ends []*Arrival
		for range rapid.IntRange(1, 20).Draw(rt, "ends") {
			a := &Arrival{Step: rapid.IntRange(0, members-1).Draw(rt, "step"), Letter: Done, Place: "1 - - - - " + kept + " low"}
			switch rapid.IntRange(0, 19).Draw(rt, "how") {
			case 0:
				a.Letter, a.Value, a.Again = Failed, []byte("{}"), Again(Sent, "low", []byte("{}"))
			case 1:
				a.Trace = Untraced
			case 2:
				a.Place = "1 - 3 - - " + kept + " low"
			}
			if a.Letter == Done && rapid.Bool().Draw(rt, "result") {
				a.Value = fmt.Append(nil, rapid.IntRange(0, 2).Draw(rt, "value"))
			}
			ends = append(ends, a)
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 12), len(ends), len(ends)).Draw(rt, "together")
		ended := func(id string, all []*Arrival) {
			var x resque.Exchange
			for i, a := range all {
				own := *a
				own.Workflow = id
				x.Ended = append(x.Ended, resque.Ended{Ticket: int64(i + 1), Effects: []resque.Effect{w.s.Arrive(&own)}})
			}
			if out := w.turn(x); len(out.Refused) > 0 {
				rt.Fatalf("refused: %v", out.Refused)
			}
		}
		for i, size := range sizes {
			n := min(size, len(ends))
			ended("a", ends[:n])
			for _, a := range ends[:n] {
				ended("b", []*Arrival{a})
			}
			ends = ends[n:]
			if w.letters("a") != w.letters("b") {
				rt.Fatalf("call %d: letters %s, one by one %s", i, w.letters("a"), w.letters("b"))
			}
			a, b := w.fields("a"), w.fields("b")
			if fmt.Sprint(a) != fmt.Sprint(b) {
				rt.Fatalf("call %d: %v\none by one: %v", i, a, b)
			}
		}
	})
}

// fields is the hash of a workflow, without what differs between two of the same shape.
func (w *wire) fields(id string) map[string]string {
	w.t.Helper()
	fields, err := redis.StringMap(w.c.Do("HGETALL", w.s.WorkflowKey(id)))
	w.must(err)
	for _, name := range []string{"id", "began", "until", "over", "looked", "s12"} {
		delete(fields, name)
	}
	return fields
}
