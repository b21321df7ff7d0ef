package webhook

import (
	"time"

	"github.com/goworker/goworker/internal/resque/webhook"
)

// Hurry shortens the times of a Deliverer.
func (d *Deliverer) Hurry(every time.Duration, burst int, waits ...time.Duration) {
	d.pace = pace{
		Pace: webhook.Pace{Every: every, Burst: burst, Receiver: d.pace.Receiver, MostRest: mostRest}, tick: 20 * time.Millisecond, attend: 100 * time.Millisecond, orphan: time.Minute,
		waits: waits, gone: 500 * time.Millisecond, look: 100 * time.Millisecond, groups: 100 * time.Millisecond, over: 300 * time.Millisecond,
	}
}

// Orphan shortens how long the entries of a deliverer that died wait until another one claims them. A deliverer that stands still for so
// long gives its own up too.
func (d *Deliverer) Orphan(after time.Duration) { d.pace.orphan = after }

// Gone is how long nothing is sent after an answer 410.
func (d *Deliverer) Gone(within time.Duration) { d.pace.gone = within }

// Within shortens how long a program of exec: may run.
func (d *Deliverer) Within(within time.Duration) { d.target.(*execTarget).within = within }

var RetryAfter = retryAfter

// BodyOf is the body of a delivery of these events, each with arguments.
func BodyOf(events []string, args string, cut int64) []byte {
	var entries []webhook.Entry
	for _, e := range events {
		entries = append(entries, webhook.Entry{ID: "1-1", Event: e, Args: args})
	}
	return newDelivery("ops", "resque:", entries, cut).body
}
