package resque

import (
	"fmt"
	"strings"
	"testing"
)

// recordFields are those of a process's record but for the mark, sorted, with the beginnings of their values.
func (w *wire) recordFields(process string) (list []string) {
	w.t.Helper()
	for _, field := range sorted(w.server.List(w.t, "HKEYS", w.s.inflight(process))) {
		if field != markField {
			list = append(list, fmt.Sprintf("%s %.9s", field, w.server.Text(w.t, "HGET", w.s.inflight(process), field)))
		}
	}
	return list
}

// Payloads of at least so many bytes have fields of their own, but for those of jobs with a lock. What reads the record finds all jobs, and
// counts no payload as one.
func TestPayloadsApart(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	locked := string(uniqueJob("a", 1, "low").Payload)
	packed := "\x82\xa5class\xa1U\xa6unique\xa6done:a" + strings.Repeat("m", 16<<10)
	behind := strings.Replace(locked, `"}`, `","meta":{"a":"`+strings.Repeat("m", 16<<10)+`"}}`, 1)
	w.push("low", "short", "long enough", locked, behind, packed, "and longer")
	m := w.enter("p")
	for range 3 {
		m.turn(Exchange{}) // tickets of one digit and of two
		m.last += 3
	}
	jobs := m.turn(Exchange{Want: 9, Asks: asks("low"), Apart: 10}).Jobs
	w.same("the record", []string{"10 3:lowshor", "11 ~3:low", "12 3:low{\"cl", "13 3:low{\"cl", "14 3:low\x82\xa5cl", "15 ~3:low",
		"apart 2", "p11 long enou", "p15 and longe"}, w.recordFields("p"))
	read, unreadable, err := w.s.ReadReserved(w.c, "p", append(tickets(jobs...), 99))
	w.must(err)
	w.same("read back", jobs, read)
	w.same("unreadable", 0, len(unreadable))
	counts, err := w.s.InFlight(w.c, []string{"p", "gone"})
	w.must(err)
	w.same("counted", []int64{6, 0}, counts)
	live, _, err := w.s.LiveProcesses(w.c)
	w.must(err)
	one, _, _, err := w.s.LiveProcessOf(w.c, "p")
	w.must(err)
	n, err := w.s.ReservedJobs(w.c, "p")
	w.must(err)
	w.same("counted elsewhere", []int64{6, 6, 6}, []int64{live[0].Jobs, one.Jobs, int64(n)})
	scanned, _, err := w.s.ScanInFlight(w.c, "p", "0")
	w.must(err)
	w.same("scanned", sorted(payloads(jobs)), sorted(payloads(scanned)))
	running, err := w.s.Running(w.c, RunningPlace{})
	w.must(err)
	for i, j := range running.Jobs {
		head := jobs[i].Payload[:min(len(jobs[i].Payload), HeadSize)]
		w.same("shown", fmt.Sprint(jobs[i].Ticket, " low ", len(jobs[i].Payload), string(head)), fmt.Sprint(j.Ticket, " ", j.Queue, " ", j.Size, string(j.Payload)))
	}
	w.same("all are shown", len(jobs), len(running.Jobs))

	// Done jobs go with their payloads. A payload whose job has ended with an effect goes with a later exchange, and is no job until then.
	back := jobs[5]
	m.turn(Exchange{Done: tickets(jobs[0], jobs[1]), Spent: tickets(jobs[1]), Ended: []Ended{{Ticket: back.Ticket, Effects: w.s.Tail(back)}}})
	w.same("the queue", []string{"and longer"}, w.queue("low"))
	w.same("the record", []string{"12 3:low{\"cl", "13 3:low{\"cl", "14 3:low\x82\xa5cl", "apart 1", "p15 and longe"}, w.recordFields("p"))
	m.turn(Exchange{Done: tickets(jobs[2:5]...)})
	counts, err = w.s.InFlight(w.c, []string{"p"})
	w.must(err)
	w.same("counted", []int64{0}, counts)
	left, err := w.s.Leave(w.c, "p")
	w.must(err)
	w.same("left", 0, left)
	w.same("the record is gone", "none", w.server.Text(t, "TYPE", w.s.inflight("p")))
}

// A payload whose ticket is gone is removed when the record is read back, and with the exchange that names it, even where none is put apart
// any more. A field of another program keeps the process in the fleet.
func TestSpentPayloads(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1", "l2", "l3")
	m := w.enter("p")
	jobs := m.turn(Exchange{Want: 3, Asks: asks("low"), Apart: 1}).Jobs
	m.turn(Exchange{Ended: back(jobs[0], jobs[1])})
	w.same("fields", []string{"3 ~3:low", "apart 3", "p1 l1", "p2 l2", "p3 l3"}, w.recordFields("p"))
	m.turn(Exchange{Spent: []int64{2, 7}})
	w.same("fields", []string{"3 ~3:low", "apart 2", "p1 l1", "p3 l3"}, w.recordFields("p"))
	_, held, whole, err := w.s.Resync(w.c, "p")
	w.must(err)
	w.same("read back", []any{[]int64{3}, true}, []any{held, whole})
	w.same("fields", []string{"3 ~3:low", "apart 1", "p3 l3"}, w.recordFields("p"))
	w.push("high", "h1", "h2")
	q := w.enter("q")
	q.turn(Exchange{Done: tickets(q.turn(Exchange{Want: 1, Asks: asks("high"), Apart: 1}).Jobs...), Spent: []int64{1}})
	w.same("without any", 0, len(w.recordFields("q")))
	q.turn(Exchange{Ended: failed(q.turn(Exchange{Want: 1, Asks: asks("high"), Apart: 1}).Jobs...)})
	_, _, _, err = w.s.Resync(w.c, "q")
	w.must(err)
	w.same("without any", 0, len(w.recordFields("q")))

	w.do("HDEL", w.s.inflight("p"), "p3")
	w.do("HSET", w.s.inflight("p"), 9, "")
	read, unreadable, err := w.s.ReadReserved(w.c, "p", []int64{3, 9})
	w.must(err)
	w.do("HDEL", w.s.inflight("p"), 9)
	if len(read) > 0 || len(unreadable) != 2 || !strings.Contains(unreadable[0].Error(), "payload of ticket 3 is gone") {
		t.Errorf("a ticket without its payload: %v, %v", read, unreadable)
	}
	m.epoch++
	out := m.turn(Exchange{Ended: back(jobs[2])})
	if len(out.Refused) != 1 || !out.Refused[0].NoBytes() {
		t.Errorf("it goes back: %+v", out.Refused)
	}
	ended := back(jobs[2])
	ended[0].Bytes = jobs[2].Payload
	w.same("with its bytes", 0, len(m.turn(Exchange{Ended: ended}).Refused))
	w.same("the queue", []string{"l3", "l1", "l2"}, w.queue("low"))
	w.do("HSET", w.s.inflight("p"), "other", "3:lowx")
	left, err := w.s.Leave(w.c, "p")
	w.must(err)
	w.same("left", 1, left)
}

// The jobs of a dead process go back, and the payloads with the record. To a release that does not know the mark such a value is unreadable,
// so it leaves the job and the process.
func TestRecoverPayloadsApart(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 450)...)
	m := w.enter("p")
	first := m.turn(Exchange{Want: 300, Asks: asks("low"), Apart: 3}).Jobs
	m.turn(Exchange{Want: 150, Asks: asks("low")})
	m.turn(Exchange{Done: tickets(first[0], first[299])})
	if j, ok := parseReserved(11, []byte(w.server.Text(t, "HGET", w.s.inflight("p"), 11))); ok {
		t.Errorf("an older release reads %+v", j)
	}
	m.die()
	w.same("recovered", Recovered{Requeued: 448}, m.recover(3))
	w.same("the queue", fmt.Sprint(names("l", 450)[1:299], names("l", 450)[300:]), fmt.Sprint(w.queue("low")[:298], w.queue("low")[298:]))
	left, err := w.s.Leave(w.c, "p")
	w.must(err)
	w.same("left", 0, left)
	w.same("the record is gone", "none", w.server.Text(t, "TYPE", w.s.inflight("p")))
}

// A job from a lane has the lane in front, and goes back there from the record.
func TestTakePayloadsApart(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m := w.enter("p")
	lane := NewLane("low", Limit{Kind: LimitRunning, Name: "Mail"})
	w.do("HSET", w.s.limits(), "c:Mail", 100)
	w.push("low", "short", "long enough", "and longer")
	w.sort("low", func(string) Lane { return lane })
	jobs := m.turn(Exchange{Apart: 10, Take: &Take{Want: 3, Lanes: []Lane{lane}}}).Jobs
	w.same("jobs", []string{"short", "long enough", "and longer"}, payloads(jobs))
	for i, want := range []string{lanePrefix(lane) + "short", "~" + lanePrefix(lane), "~" + lanePrefix(lane)} {
		w.same("the ticket has", want, w.server.Text(t, "HGET", w.s.inflight("p"), i+1))
	}
	read, _, err := w.s.ReadReserved(w.c, "p", []int64{1, 2, 3})
	w.must(err)
	w.same("read back", jobs, read)
	m.turn(Exchange{Ended: []Ended{{Ticket: 3, Effects: w.s.ToLane(jobs[2], lane)}}})
	m.die()
	w.same("recovered", Recovered{Requeued: 2}, m.recover(3))
	w.same("the lane", []string{"short", "long enough", "and longer"}, w.server.List(t, "LRANGE", w.s.lane(lane), 0, -1))
}
