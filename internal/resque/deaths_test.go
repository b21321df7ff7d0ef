package resque

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// crash lets a new process reserve n jobs of low, hand out those up to the given
// ticket except the held ones, and die.
func (w *wire) crash(id string, n int, handed string, limit int) Recovered {
	w.t.Helper()
	m := w.enter(id)
	out := m.turn(Exchange{Want: n, Asks: asks("low"), Handed: handed})
	if len(out.Jobs) != n {
		w.t.Fatalf("process %s reserved %v, want %d jobs", id, texts(out.Jobs), n)
	}
	m.die()
	r := m.recover(limit)
	_, err := w.s.Leave(w.c, id)
	w.must(err)
	return r
}

// onTrial says of two jobs that the first is on trial, and that the second waits.
const onTrial = "2 2 *1"

// Only jobs that were with a worker count as found in a dead process.
func TestDeathsCountWhatRan(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 6)...)
	w.crash("one", 6, handed(4, 2), 3)
	w.crash("two", 6, handed(1), 3)
	w.crash("three", 6, "", 3)
	for i, want := range []int{2, 0, 1, 1, 0, 0} {
		w.same(fmt.Sprintf("deaths of l%d", i+1), want, w.deaths(fmt.Sprintf("l%d", i+1)))
	}
	w.same("queue", names("l", 6), w.queue("low"))
}

// Over the cap a job is filed as failed; those beside it go on.
func TestDeathsCap(t *testing.T) {
	t.Parallel()
	for _, multi := range []bool{false, true} {
		t.Run(fmt.Sprintf("multi-queue %v", multi), func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", job("Poison"), "innocent", job("Waits"))
			for i := range 4 {
				m := w.enter(fmt.Sprint("p", i))
				m.turn(Exchange{Want: 2, Asks: asks("low"), Handed: onTrial})
				m.die()
				got, err := w.s.Recover(w.c, m.Process, 3, noon, deadEnds(w.s, multi, noon))
				w.must(err)
				want := Recovered{Requeued: 2, Back: map[string]int{"low": 2}}
				if i == 3 {
					want = Recovered{Requeued: 1, Failed: 1, Back: map[string]int{"low": 1}}
				}
				w.same(fmt.Sprintf("death %d", i+1), want, got)
			}
			w.same("queue", []string{"innocent", job("Waits")}, w.queue("low"))
			list := w.s.failed()
			if multi {
				list = w.s.KeyOfFailures("low_failed")
				w.same("failed_queues", []string{"low_failed"}, w.server.List(t, "SMEMBERS", w.s.KeyOfFailureLists()))
			}
			w.same("failed", []string{
				`{"failed_at":"2026/11/21 12:00:00 UTC","payload":{"class":"Poison","args":[]},"exception":"Resque::DirtyExit",` +
					`"error":"The job was running in 4 processes that died, the last of them p3; it is not run again by itself.",` +
					`"backtrace":[],"worker":"p3.go:42-0:high,low","queue":"low"}`,
			}, w.server.List(t, "LRANGE", list, 0, -1))
			w.same("what is remembered", 0, w.server.Int(t, "EXISTS", w.s.recovered()))
			w.same("stats", [2]int{}, w.stats())
		})
	}
}

func TestDeathsWithoutCap(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1")
	for i := range 9 {
		w.same("recovered", Recovered{Requeued: 1}, w.crash(fmt.Sprint("p", i), 1, "1", 0))
	}
	w.same("deaths", 9, w.deaths("l1"))
}

// Any number of jobs of the same bytes count as one death of their process.
func TestDeathsOfTwins(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	twins := slices.Repeat([]string{job("Hourly")}, 300)
	twins[100], twins[250] = job("A"), job("B")
	w.push("low", twins...)
	for i := range 3 {
		w.same(fmt.Sprint("recovered ", i), Recovered{Requeued: 300}, w.crash(fmt.Sprint("p", i), 300, "300 *7", 3))
		w.same("deaths of the twins", i+1, w.deaths(job("Hourly")))
		w.same("deaths of the other", i+1, w.deaths(job("B")))
		w.same("queue", twins, w.queue("low"))
	}
	w.same("recovered at last", Recovered{Requeued: 290, Failed: 10}, w.crash("last", 300, "10 *7", 3))
	w.same("queue", twins[10:], w.queue("low"))
}

// A reaper that is killed and the next one that goes on count a death once.
func TestDeathsOncePerProcess(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", job("Hourly"), job("Hourly"), job("Hourly"))
	m := w.enter("p")
	m.turn(Exchange{Want: 3, Asks: asks("low"), Handed: "3"})
	m.die()
	r, err := w.s.recovery(w.c, m.Process, 1, noon, parseHanded("3"))
	w.must(err)
	r.end = deadEnds(w.s, false, noon)
	var total Recovered
	w.must(r.move(w.c, []int64{3}, &total))
	w.same("the others", Recovered{Requeued: 2}, m.recover(1))
	w.same("deaths", 1, w.deaths(job("Hourly")))
}

// A count is forgotten when it has not risen for a day, and when its job ends.
func TestDeathsAge(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "old", "young", "ends")
	w.crash("p", 3, "3", 3)
	tomorrow := noon.Add(deathsAge + time.Second)
	digest := func(s string) string { return Digest([]byte(s)) }
	w.do("HSET", w.s.recovered(), digest("young"), fmt.Sprintf("2 %d", noon.Add(time.Hour).UnixMilli()), "field", "garbage")
	deaths, err := w.s.Deaths(w.c, []string{digest("old"), digest("young"), "unknown", "field"}, tomorrow)
	w.must(err)
	for i, want := range []int{0, 2, 0, 0} {
		w.same(fmt.Sprint("count ", i), want, deaths[i].Count)
	}
	q := w.enter("q")
	jobs := q.reserve(3, "low")
	q.turn(Exchange{Ended: append(back(jobs[:2]...), Ended{Ticket: 3, Effects: []Effect{w.s.ResetDeaths(jobs[2])}})})
	w.same("deaths of the one that ended", 0, w.deaths("ends"))

	// Found again after a day, it counts from the start.
	m := w.enter("again")
	m.turn(Exchange{Want: 1, Asks: asks("low"), Handed: "1"})
	m.die()
	_, err = w.s.Recover(w.c, m.Process, 1, tomorrow, deadEnds(w.s, false, tomorrow))
	w.must(err)
	deaths, err = w.s.Deaths(w.c, []string{digest("old")}, tomorrow)
	w.must(err)
	w.same("count after a day", 1, deaths[0].Count)

	w.must(w.s.ForgetDeaths(w.c, tomorrow))
	w.same("fields", sorted([]string{digest("old"), digest("young")}), sorted(w.server.List(t, "HKEYS", w.s.recovered())))
	w.must(w.s.ForgetDeaths(w.c, tomorrow.Add(2*deathsAge)))
	w.must(w.s.ForgetDeaths(w.c, tomorrow.Add(2*deathsAge)))
	w.same("all are forgotten", 0, w.server.Int(t, "EXISTS", w.s.recovered()))
}

// A count that another reaper changed between the reading and the script is read again.
func TestDeathsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1", "l2")
	m := w.enter("p")
	m.turn(Exchange{Want: 2, Asks: asks("low"), Handed: "2"})
	m.die()
	// The first call of the script finds another count than was read; the second does not.
	c := &meddler{Conn: w.c, before: 4, meddle: func() {
		w.do("HSET", w.s.recovered(), Digest([]byte("l1")), fmt.Sprintf("2 %d", noon.UnixMilli()))
	}}
	got, err := w.s.Recover(c, m.Process, 3, noon, deadEnds(w.s, false, noon))
	w.must(err)
	w.same("recovered", Recovered{Requeued: 2, Back: map[string]int{"low": 2}}, got)
	w.same("deaths", [2]int{3, 1}, [2]int{w.deaths("l1"), w.deaths("l2")})
}

// When a reaper files a job as failed, the job's lock is released with that.
func TestDeathsFreeTheLock(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.taken(uniqueJob("a", 1, "low"))
	w.push("low", "innocent")
	w.crash("one", 2, onTrial, 1)
	w.refused("a1", uniqueJob("a", 2, "low"))
	w.same("the second death", Recovered{Requeued: 1, Failed: 1}, w.crash("two", 2, onTrial, 1))
	w.taken(uniqueJob("a", 2, "low"))
	w.same("queue", []string{"innocent", string(uniqueJob("a", 2, "").Payload)}, w.queue("low"))
}
