package resque

import (
	"slices"
	"testing"
)

// Lanes with jobs that no key names are found and named again; empty ones are not.
func TestRelane(t *testing.T) {
	t.Parallel()
	each, all := Limit{Kind: LimitRunning, Name: "Mail, é", Keyed: true}, Limit{Kind: LimitStarts, Name: "All"}
	for name, lose := range map[string]func(w *wire, set Lanes){
		"the sets of lanes": func(w *wire, _ Lanes) { w.do("DEL", w.s.lanes()) },
		"the turns":         func(w *wire, set Lanes) { w.do("DEL", w.s.turns(set)) },
		"both":              func(w *wire, set Lanes) { w.do("DEL", w.s.lanes(), w.s.turns(set)) },
		"both, at maxmemory": func(w *wire, set Lanes) {
			w.do("DEL", w.s.lanes(), w.s.turns(set))
			w.do("CONFIG", "SET", "maxmemory", "1")
		},
		"nothing": func(*wire, Lanes) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			of := byTenant(each, all)
			w.push("low", "a:1", "a:2", "b:1", "c=,:1", "gone:1")
			w.sort("low", of)
			w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
			gone := of("gone:")
			w.do("DEL", w.s.lane(gone))
			w.do("ZREM", w.s.turns(gone.Lanes()), gone.Own)
			names := func() []string {
				return append(w.server.List(t, "SMEMBERS", w.s.lanes()), sorted(w.server.List(t, "ZRANGE", w.s.turns(gone.Lanes()), 0, -1))...)
			}
			want := names()
			lose(w, gone.Lanes())

			found := Strays{Lanes: map[Lanes][]Lane{}}
			for cursor, pages := uint64(0), 0; pages == 0 || cursor != 0; pages++ {
				page, next, err := w.s.Strays(w.c, cursor)
				w.must(err)
				for set, lanes := range page.Lanes {
					found.Lanes[set] = append(found.Lanes[set], lanes...)
				}
				cursor = next
			}
			if lanes := found.Lanes[gone.Lanes()]; len(lanes) != 3 || slices.Contains(lanes, gone) || !slices.Contains(lanes, of("c=,:")) {
				t.Errorf("found lanes %+v", lanes)
			}
			found.Lanes[gone.Lanes()] = append(found.Lanes[gone.Lanes()], gone)
			n, err := w.s.Relane(w.c, found.Lanes)
			w.must(err)
			if (n > 0) == (name == "nothing") {
				t.Errorf("%d were put back", n)
			}
			w.same("the set and its lanes", want, names())
			out := w.takeLanes("p", 0, 9, nil, of("a:"), of("b:"), of("c=,:"))
			w.same("the first is taken", []string{"a:1"}, payloads(out.Jobs))
		})
	}
}

// If Redis has lost a limit's number, the process's number applies and is written back; without
// one the limit is 1.
func TestTakeWithLostNumbers(t *testing.T) {
	t.Parallel()
	run, start := Limit{Kind: LimitRunning, Name: "Run", Keyed: true}, Limit{Kind: LimitStarts, Name: "Start", Keyed: true}
	for name, test := range map[string]struct {
		numbers map[string]string
		lose    func(w *wire)
		want    int
	}{
		"removed":                         {map[string]string{run.Spec(): "3", start.Spec(): "60000000 3"}, func(*wire) {}, 3},
		"of another type":                 {map[string]string{run.Spec(): "3", start.Spec(): "60000000 3"}, func(w *wire) { w.do("SET", w.s.limits(), "x") }, 3},
		"not registered":                  {nil, func(*wire) {}, 1},
		"of another type, not registered": {nil, func(w *wire) { w.do("SET", w.s.limits(), "x") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, limit := range []Limit{run, start} {
				w := newWire(t)
				w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
				w.push("low", "a:1", "a:2", "a:3", "a:4", "a:5")
				w.sort("low", byTenant(limit))
				test.lose(w)
				lane := byTenant(limit)("a:")
				out := w.turn(&Exchange{Process: "p", Epoch: 1, Take: &Take{Want: 9, Numbers: test.numbers, Lanes: []Lane{lane}, Look: []Look{{lane.Lanes(), 9}}, Queues: []string{"low"}}})
				w.same("jobs under "+limit.Spec(), test.want, len(out.Jobs))
				if number := test.numbers[limit.Spec()]; number != "" && name == "removed" {
					w.same("the number", number, w.server.Text(t, "HGET", w.s.limits(), limit.Spec()))
				}
			}
		})
	}
}
