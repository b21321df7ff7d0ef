package inspect

import (
	"cmp"
	"time"

	"github.com/goworker/goworker/internal/resque/leases"
)

// stepHeld reads a page of the jobs that clients hold over HTTP.
func (w *walker) stepHeld() (done bool, err error) {
	jobs, next, err := leases.New(w.s).Scan(w.c, cmp.Or(w.cur.Held, "0"))
	if err != nil {
		if !w.skip("the jobs that clients hold", err) {
			return false, err
		}
		next = "0"
	}
	for i, j := range jobs {
		if int64(i) < w.cur.Ticket { // on the page before
			continue
		}
		if w.fits(subject{place: Leased, queue: j.Queue, raw: j.Payload}) {
			if w.left == 0 {
				return false, nil
			}
			e := w.entry(Leased, j.Queue, j.Payload)
			if e.ID == "" {
				e.ID = j.ID // it got one when it was given
			}
			if ms, ok := leases.LeaseEnds(j.Lease); ok {
				e.Lease = time.UnixMilli(ms)
			}
			w.found(e)
		}
		w.page.Looked, w.cur.Ticket = w.page.Looked+1, int64(i)+1
	}
	w.cur.Held, w.cur.Ticket = next, 0
	return next == "0", nil
}
