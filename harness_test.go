package goworker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// prepare makes a payload ready to run. The Delivery is never nil: with an error it says as much about
// the job as is known.
func prepare(r *registry, queue string, raw []byte) (*Delivery, error) {
	j := r.Read(queue, raw)
	return r.delivery(j, nil), j.Err
}

// prepared takes a payload the way a worker gets it.
func prepared(t testing.TB, r *registry, raw string) (*Delivery, error) {
	t.Helper()
	return prepare(r, "mail", []byte(raw))
}

// runJob registers fn as class C and performs one job with these arguments.
func runJob(t testing.TB, fn any, args string, opts ...Option) (*Delivery, error) {
	t.Helper()
	r := newRegistry()
	r.register("C", fn, opts)
	d, err := prepared(t, r, `{"class":"C","args":`+args+`}`)
	if err != nil {
		t.Fatal(err)
	}
	return d, d.perform(context.Background())
}

// soon is how long a test waits for what should happen at once.
const soon = time.Minute

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

var errNoLuck = errors.New("no luck")

// safeBuffer is a log that a test reads while a daemon writes it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// count is how many lines contain a text.
func (b *safeBuffer) count(part string) (n int) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// lookup returns the entry of a class, nil if it has none: a class of Define has no handler.
func (r *registry) lookup(class string) *entry {
	c := r.Class(class)
	if c == nil {
		return nil
	}
	e, _ := c.Handler.(*entry)
	return e
}
