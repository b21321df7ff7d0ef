package inspect

import (
	"bytes"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// ticketsTogether is how many jobs of an in-flight record are read in one step.
const ticketsTogether = 100

func (w *walker) stepRunning() (done bool, err error) {
	ids, err := w.s.ProcessIDs(w.c)
	if err != nil {
		return w.skip("the processes", err), ignoreWrongType(err)
	}
	at, there := slices.BinarySearch(ids, w.cur.Process)
	if at == len(ids) {
		return true, nil
	}
	if w.cur.Process = ids[at]; !there {
		w.cur.Ticket = 0
	}
	tickets, err := w.s.Tickets(w.c, ids[at])
	if err != nil && !w.skip("the in-flight record of process "+ids[at], err) {
		return false, err
	}
	first, _ := slices.BinarySearch(tickets, w.cur.Ticket+1)
	tickets = tickets[first:]
	last := len(tickets) <= ticketsTogether
	if !last {
		tickets = tickets[:ticketsTogether]
	}
	jobs, unreadable, err := w.s.ReadReserved(w.c, ids[at], tickets)
	if err != nil {
		return false, err
	}
	now, err := w.doingIn(ids[at])
	if err != nil {
		return false, err
	}
	w.page.Refused = append(w.page.Refused, unreadable...)
	for _, j := range jobs {
		s := subject{place: Running, queue: j.Queue, raw: j.Payload, process: ids[at], version: now.version, began: now.began(j)}
		if !w.fits(s) {
			w.page.Looked, w.cur.Ticket = w.page.Looked+1, j.Ticket
			continue
		}
		if w.left == 0 {
			return false, nil
		}
		e := w.entry(Running, j.Queue, j.Payload)
		e.Process, e.Ticket, e.Began = ids[at], j.Ticket, s.began
		w.found(e)
		w.page.Looked, w.cur.Ticket = w.page.Looked+1, j.Ticket
	}
	if !last {
		w.cur.Ticket = tickets[len(tickets)-1]
		return false, nil
	}
	w.cur.Process, w.cur.Ticket = ids[at]+"\x00", 0 // the first id behind it
	return at+1 == len(ids), nil
}

// doing is what a process says of itself and of its jobs, as far as a query asks for it.
type doing struct {
	version string
	shown   []resque.Working
}

// doingIn reads it.
func (w *walker) doingIn(process string) (d doing, err error) {
	times := w.asks(onSince, onUntil)
	if !times && !w.asks(onVersion) {
		return d, nil
	}
	p, err := w.s.ProcessOf(w.c, process)
	if d.version = p.Version; err != nil || !times {
		return d, err
	}
	d.shown, err = w.s.WorkingIn(w.c, p)
	return d, err
}

// began is when a job began to run, zero if no worker shows it.
func (d doing) began(j resque.Reserved) time.Time {
	if len(d.shown) == 0 {
		return time.Time{}
	}
	raw := payload.Safe(j.Payload)
	at := slices.IndexFunc(d.shown, func(w resque.Working) bool { return w.Queue == j.Queue && bytes.Equal(w.Payload, raw) })
	if at < 0 {
		return time.Time{}
	}
	return d.shown[at].RunAt
}
