package resque

import "testing"

// A look returns the first jobs that are not sorted. An exchange moves them into their lanes and takes from these.
func TestExchangeSortsBeforeItTakes(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	fair := byTenant(Limit{Kind: LimitNone, Name: "Mail", Keyed: true})
	a, b := fair("a:"), fair("b:")
	w.push("low", "a:1", "a:2", "a:3")
	w.sort("low", fair)
	w.push("low", "b:1", "b:2", "b:3")
	take := func(last int64, heads int, lanes ...Lane) *Exchange {
		return &Exchange{Process: "p", Epoch: 1, Last: last, Take: &Take{Want: 2, Lanes: lanes, Look: []Look{{a.Lanes(), 9}}, Queues: []string{"low"}, Heads: heads}}
	}
	out := w.turn(take(0, 2, a))
	w.same("what waits to be sorted", []int64{3}, out.Taken.Waiting)
	w.same("the first of it", [][]byte{[]byte("b:1"), []byte("b:2")}, out.Taken.Heads)
	x := take(2, 0, a, b)
	x.Sorting = &Sorting{"low", out.Taken.Heads, []Lane{b, b}}
	w.do("SCRIPT", "LOAD", sortScript.Text())
	out = w.turn(x)
	w.same("what was sorted", 2, out.Sorted)
	w.same("what was taken", []string{"a:3", "b:1"}, payloads(out.Jobs))
	w.same("without a wish no job is shown", 0, len(out.Taken.Heads))
	w.same("what was not read stays", []string{"b:3"}, w.queue("low"))
}

// An exchange that cannot sort does all else.
func TestExchangeThatCannotSort(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w *wire){
		"without the script":     func(w *wire) { w.do("SCRIPT", "FLUSH") },
		"when the jobs are gone": func(w *wire) { w.do("LPOP", w.s.KeyOfQueue("low")) },
		"when the lane's key has another type": func(w *wire) {
			w.do("SET", w.s.lane(byTenant(Limit{Kind: LimitNone, Name: "Mail", Keyed: true})("b:")), "x")
		},
	} {
		w := newWire(t)
		w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
		fair := byTenant(Limit{Kind: LimitNone, Name: "Mail", Keyed: true})
		a, b := fair("a:"), fair("b:")
		w.push("low", "a:1")
		w.sort("low", fair)
		w.push("low", "b:1")
		w.do("SCRIPT", "LOAD", sortScript.Text())
		spoil(w)
		out := w.turn(&Exchange{Process: "p", Epoch: 1, Sorting: &Sorting{"low", [][]byte{[]byte("b:1")}, []Lane{b}},
			Take: &Take{Want: 2, Lanes: []Lane{a}, Look: []Look{{a.Lanes(), 9}}, Queues: []string{"low"}}})
		if out.Sorted != 0 || len(out.Jobs) != 1 {
			t.Errorf("%s: %d jobs are sorted, and %q taken", name, out.Sorted, payloads(out.Jobs))
		}
	}
}
