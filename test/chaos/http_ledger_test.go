package main

import (
	"testing"
	"time"
)

// The checker of jobs over HTTP finds jobs that are lost, given too often, too early or after their ack, and what Redis itself
// lost it counts apart.
func TestWebChecker(t *testing.T) {
	a := empty(t)
	w := a.newWeb(0)
	l := newLedgers()
	const second = int64(time.Second)
	// given has a job delivered at some seconds, for two seconds each.
	given := func(name string, seconds ...int64) *leasedStory {
		s := new(leasedStory)
		for i, at := range seconds {
			s.given = append(s.given, delivery{process: "c", at: at * second, attempt: i + 1, id: name, begun: at * 1000, ends: at*1000 + 2000})
		}
		w.jobs[name], l.leased[name] = &webJob{tries: 2, push: 'a'}, s
		return s
	}
	given("a-lost")
	given("b-often", 1, 4, 7).acked = []int64{8 * second}
	given("c-after", 1, 4).acked = []int64{3 * second}
	given("d-early", 1, 2).acked = []int64{3 * second}
	given("e-good", 1, 4).acked = []int64{5 * second}
	given("f-unheard", 1).given[0].says = "ack"
	given("g-late", 4, 1).acked = []int64{5 * second} // a server that stood still
	given("h-refused", 1).acked = []int64{5 * second}
	w.jobs["h-refused"].push = 'r'
	given("i-unknown")
	w.jobs["i-unknown"].push = 'u'

	// Redis lost its data at five seconds.
	given("m-undone", 1, 4, 7, 10).acked = []int64{3 * second, 11 * second} // it lost both deliveries
	given("n-often", 1, 4, 7, 10).acked = []int64{3 * second, 11 * second}  // it lost one
	given("o-gone", 1)
	given("p-kept", 1)
	again := given("q-again", 1, 6, 8) // it lost the key when the job was done, and the publish was repeated
	again.acked, again.given[1].id, again.given[2].id = []int64{2 * second, 9 * second}, "q-2", "q-2"
	w.keyless["q-again"] = 5000
	last := given("r-last", 5, 7, 9) // the same, and its first delivery was in the last millisecond
	last.acked, last.given[1].id, last.given[2].id = []int64{10 * second}, "r-2", "r-2"
	w.keyless["r-last"] = 5000
	w.compare(5000, map[string]standing{"m-undone": {"", 0}, "n-often": {"leased 6000", 2}, "o-gone": {"ready", 0}, "p-kept": {"ready", 1}},
		map[string]standing{"m-undone": {"ready", 0}, "n-often": {"ready", 1}, "p-kept": {"ready", 1}})

	for _, safe := range []bool{false, true} {
		a.problems, a.notes = nil, nil
		r := newResult()
		w.check(webLoss{safe: safe})(l, &r)
		found := map[string]bool{}
		for _, p := range a.problems {
			found[p] = true
		}
		want := []string{
			"job b-often of 2 tries was delivered 3 times", "job c-after was delivered 1s after its ack", "job d-early was delivered again 1000 ms before its lease ended",
			"the publish of job h-refused was refused, and yet it was delivered", "job n-often of 2 tries was delivered 4 times",
		}
		if safe {
			want = append(want, "the publish of job o-gone was acknowledged, and no replica had it")
		}
		for _, p := range want {
			if !found[p] {
				t.Errorf("it was not found that %s", p)
			}
		}
		if len(found) != len(want) {
			t.Errorf("found %q", a.problems)
		}
		if len(r.lost) != 2 || r.undone != 1 || r.refused != 1 || r.unknown != 1 {
			t.Errorf("lost %q, lost by Redis %d, refused %d, unknown %d", r.lost, r.undone, r.refused, r.unknown)
		}
		if w.losses != (losses{jobs: 1, ends: 1, moves: 1}) || len(a.notes) != 1 {
			t.Errorf("%+v, %q", w.losses, a.notes)
		}
	}
}

// A consumer may have a job twice, once after its lease has ended. What it notes of one lease says nothing of the other.
func TestLedgerTellsLeasesApart(t *testing.T) {
	l := newLedgers()
	for _, line := range []struct {
		event byte
		more  []string
	}{
		{'D', []string{"1", "3000", "id", "2000"}},
		{'D', []string{"2", "6000", "id", "2000"}},
		{'T', []string{"6000", "7000"}},
		{'B', []string{"ack", "7000"}}, // it is done, and the answer is lost
		{'U', []string{"7000"}},
		{'B', []string{"ack", "3000"}},
		{'L', []string{"3000", "404"}},
	} {
		l.addLeased("c", line.event, "j", 0, line.more)
	}
	if s := l.leased["j"]; !s.unheard("ack") || s.given[0].says != "" || s.given[1].ends != 7000 {
		t.Errorf("%+v", s.given)
	}
}
