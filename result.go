package goworker

import (
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/outcome"
)

// DefaultResultTTL is how long what became of a job is kept after its end; see WithResult.
const DefaultResultTTL = results.DefaultTTL

// PendingTTL is how long it is kept while the job is not over: from each change of its state and, if it is
// delayed, from when it is due.
const PendingTTL = results.PendingTTL

// MaxResult is how many bytes a result has at most, as JSON. A longer one is not kept: the job is done, and what is
// kept says why there is no result.
const MaxResult = results.MaxResult

// WithResult keeps what becomes of a job under its id: its state, times, worker and attempt, its last 20 tries,
// and in the end what its handler returned or its error. All of it is removed ttl after the job has ended; 0 is
// DefaultResultTTL. It must not be negative, nor longer than a hundred years.
//
// Given to Register or Define it holds for every job of the class that is enqueued here; given to Client.Enqueue, for
// that job. A second job with the same id starts over. Jobs without it send and store what they always did.
//
// Ruby's workers run the job, and write nothing of this.
func WithResult(ttl time.Duration) JobOption { return keepResult(ttl) }

type keepResult time.Duration

func (k keepResult) register(to *options) { to.onEnqueue(k) }

func (k keepResult) enqueue(to *enqueueOptions) {
	to.named = true
	ttl := time.Duration(k)
	option := fmt.Sprintf("WithResult(%s)", ttl)
	to.Once("how long the job's result is kept", option)
	switch {
	case ttl < 0:
		to.Wrong("%s: it cannot be negative; give 0 for %s", option, DefaultResultTTL)
	case ttl > results.MaxTTL:
		to.Wrong("%s: it is longer than a hundred years; give less", option)
	case ttl == 0:
		ttl = DefaultResultTTL
	}
	outcome.Put(to.to, results.TTL(max(ttl, time.Millisecond)))
}

// CaptureLogs keeps the job's log lines beside its result, while they are few: at most 100 lines and 64 KiB of JSON
// over all its runs. Lines beyond that are dropped. They are those of Logger, and those that reach a LogHandler with the
// job's context. It needs WithResult, of the job or of its class.
func CaptureLogs() JobOption { return captureLogs{} }

type captureLogs struct{}

func (c captureLogs) register(to *options) { to.onEnqueue(c) }

func (captureLogs) enqueue(to *enqueueOptions) {
	to.named = true
	to.Once("whether the job's log lines are captured", "CaptureLogs")
	outcome.Put(to.to, results.Logs(true))
}

// value returns what the handler returned, nil if its class has no result.
func (d *Delivery) value() any {
	if _, none := d.Result.(None); none {
		return nil
	}
	return d.Result
}
