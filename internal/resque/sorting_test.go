package resque

import (
	"fmt"
	"strings"
	"testing"
)

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

// A batch of one lane goes there by a script of its own, all of it or nothing: none where another job is at the head, or fewer are left.
// One with a line feed or a priority goes by the other script.
func TestSortIntoOneLane(t *testing.T) {
	t.Parallel()
	fair := byTenant(Limit{Kind: LimitNone, Name: "Mail", Keyed: true})
	lane := fair("a:")
	for _, tt := range []struct {
		name        string
		read, there []string
		moved       int
		lane, queue string
	}{
		{"as they were read", []string{"a", "b", "c"}, []string{"a", "b", "c", "d"}, 3, "a b c", "d"},
		{"one was taken", []string{"a", "b", "c"}, []string{"b", "c", "d"}, 0, "", "b c d"},
		{"one was put in front", []string{"a", "b"}, []string{"x", "a", "b"}, 0, "", "x a b"},
		{"the last was taken", []string{"a", "b", "c"}, []string{"a", "b"}, 0, "", "a b"},
		{"two are one there", []string{"a", "b"}, []string{"a\nb", "c"}, 0, "", "a\nb c"},
		{"empty ones", []string{"", ""}, []string{"", "", "c"}, 2, " ", "c"},
		{"with a line feed", []string{"a\n", "b"}, []string{"a\n", "b"}, 2, "a\n b", ""},
		{"with a priority", []string{"a", `{"priority":3,"class":"A"}`}, []string{"a", `{"priority":3,"class":"A"}`}, 2, `{"priority":3,"class":"A"} a`, ""},
	} {
		w := newWire(t)
		var raws [][]byte
		for _, job := range tt.read {
			raws = append(raws, []byte(job))
		}
		w.push("low", tt.there...)
		lanes := make([]Lane, len(raws))
		for i := range lanes {
			lanes[i] = lane
		}
		called := false
		for range 2 { // the second call is by the digest
			moved, _, err := w.s.Sort(w.c, "low", raws, lanes, Next{Meanwhile: func() { called = true }})
			w.must(err)
			if !called || moved != tt.moved || strings.Join(w.queue("low"), " ") != tt.queue ||
				strings.Join(w.server.List(t, "LRANGE", w.s.lane(lane), 0, -1), " ") != tt.lane {
				t.Errorf("%s: %d are moved, and the queue has %q", tt.name, moved, w.queue("low"))
			}
			if moved > 0 {
				w.same(tt.name+", the turns", []string{lane.Own}, w.server.List(t, "ZRANGE", w.s.turns(lane.Lanes()), 0, -1))
				w.same(tt.name+", the sets", []string{lane.Lanes().member()}, w.server.List(t, "SMEMBERS", w.s.lanes()))
				break
			}
		}
	}
}

// A batch of several lanes goes there as far as the queue still holds it, whatever bytes are in the jobs.
func TestSortIntoLanes(t *testing.T) {
	t.Parallel()
	fair := byTenant(Limit{Kind: LimitNone, Name: "Mail", Keyed: true})
	lanes := []Lane{fair("a:"), fair("b:")} // in turn
	for _, tt := range []struct {
		name        string
		read, there []string
		moved       int
	}{
		{"as they were read", []string{"a", "b", "c"}, []string{"a", "b", "c", "d"}, 3},
		{"the first was taken", []string{"a", "b", "c"}, []string{"b", "c", "d"}, 0},
		{"the last was taken", []string{"a", "b", "c"}, []string{"a", "b"}, 2},
		{"one in the middle was taken", []string{"a", "b", "c", "d"}, []string{"a", "c", "d"}, 1},
		{"all were taken", []string{"a", "b"}, nil, 0},
		{"one was put in front", []string{"a", "b"}, []string{"x", "a", "b"}, 0},
		{"two are one there", []string{"a", "b", "c"}, []string{"a\nb", "c", "d"}, 0},
		{"another is longer", []string{"a", "b", "c"}, []string{"a", "bb", "c"}, 1},
		{"another is shorter", []string{"a", "bb", "c"}, []string{"a", "b", "c"}, 1},
		{"empty ones", []string{"", "", ""}, []string{"", "", "", "c"}, 3},
		{"an empty one, and another", []string{"", "b"}, []string{"", "c"}, 1},
		{"with a line feed", []string{"a\n", "b", "\n"}, []string{"a\n", "b", "\n"}, 3},
		{"with a line feed, and one was taken", []string{"a\n", "b", "\n"}, []string{"a\n", "\n"}, 1},
	} {
		w := newWire(t)
		var raws [][]byte
		var of []Lane
		var wants [2][]string
		for i, job := range tt.read {
			raws, of = append(raws, []byte(job)), append(of, lanes[i%2])
			if i < tt.moved {
				wants[i%2] = append(wants[i%2], job)
			}
		}
		w.push("low", tt.there...)
		moved, _, err := w.s.Sort(w.c, "low", raws, of, Next{})
		w.must(err)
		w.same(tt.name+": moved", tt.moved, moved)
		w.same(tt.name+": the queue", append([]string{}, tt.there[moved:]...), w.queue("low"))
		for i, want := range wants {
			w.same(tt.name+": a lane", append([]string{}, want...), w.server.List(t, "LRANGE", w.s.lane(lanes[i]), 0, -1))
		}
	}
}

// Jobs that begin alike go from the head of their queue into their lane, up to one that may be of another: of another class or form, or with a
// name of a class or an escape behind that.
func TestSortAlike(t *testing.T) {
	t.Parallel()
	lane := NewLane("low", Limit{Kind: LimitRunning, Name: "Mail"})
	of := Alike{[]byte(`{"class":"Mail"`), lane}
	job := func(rest string) string { return `{"class":"Mail"` + rest + `}` }
	a, b := job(`,"args":["a"]`), job(`,"args":[]`)
	for _, tt := range []struct {
		name  string
		there []string
		most  int
		moved int
	}{
		{"all", []string{a, b, a}, 9, 3},
		{"as many as are wished", []string{a, b, a}, 2, 2},
		{"none", nil, 9, 0},
		{"up to another class", []string{a, `{"class":"Mailer","args":[]}`, a}, 9, 1},
		{"up to another order", []string{a, b, `{"args":[],"class":"Mail"}`, a}, 9, 2},
		{"up to a priority", []string{a, `{"priority":3,"class":"Mail"}`}, 9, 1},
		{"up to a class behind", []string{b, job(`,"args":[],"class":"Other"`)}, 9, 1},
		{"up to a class at once", []string{b, job(`class":1`)}, 9, 1},
		{"up to an escape", []string{b, job(`,"cl\\u0061ss":"Other"`)}, 9, 1},
		{"none at the head", []string{"x", a}, 9, 0},
		{"what is no job", []string{job(`,"args":[1`), ""}, 9, 1},
	} {
		w := newWire(t)
		w.push("low", tt.there...)
		moved, size, err := w.s.SortAlike(w.c, of, tt.most)
		w.must(err)
		w.same(tt.name+": moved", tt.moved, moved)
		w.same(tt.name+": bytes", len(strings.Join(tt.there[:tt.moved], "")), size)
		w.same(tt.name+": the queue", append([]string{}, tt.there[moved:]...), w.queue("low"))
		w.same(tt.name+": the lane", append([]string{}, tt.there[:moved]...), w.server.List(t, "LRANGE", w.s.lane(lane), 0, -1))
		w.same(tt.name+": the turns", min(1, moved), w.server.Int(t, "ZCARD", w.s.turns(lane.Lanes())))
		w.same(tt.name+": the sets", min(1, moved), w.server.Int(t, "SISMEMBER", w.s.lanes(), lane.Lanes().member()))
	}
}

// The jobs that are read with a sort are those behind the ones that were read before.
func TestSortReadsFurther(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	fair := byTenant(Limit{Kind: LimitNone, Name: "Mail", Keyed: true})
	w.push("low", "a:1", "a:2", "a:3", "a:4", "a:5", "a:6")
	w.do("SCRIPT", "LOAD", sortLaneScript.Text())
	moved, next, err := w.s.Sort(w.c, "low", [][]byte{[]byte("a:1"), []byte("a:2")}, []Lane{fair("a:"), fair("a:")}, Next{Skip: 1, Most: 2})
	w.must(err)
	w.same("moved and read", "2 [a:4 a:5]", fmt.Sprintf("%d %s", moved, next))
}
