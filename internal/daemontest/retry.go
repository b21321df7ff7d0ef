package daemontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/goworker/goworker"
)

// Delayed are the jobs in resque-scheduler's schedule; they are taken out of it, as its
// scheduler does.
func (b *Bundle) Delayed() (all []string) {
	b.T.Helper()
	for _, second := range b.Redis.List(b.T, "ZRANGE", "resque:delayed_queue_schedule", 0, -1) {
		for _, item := range b.Redis.List(b.T, "LRANGE", "resque:delayed:"+second, 0, -1) {
			all = append(all, item)
			b.Redis.Do(b.T, "DEL", "resque:timestamps:"+item)
		}
		b.Redis.Do(b.T, "DEL", "resque:delayed:"+second, "resque:delayed_queue_schedule")
	}
	return all
}

// Tries notes what the runs of the class Try saw.
type Tries struct {
	*Bundle
	Mu  sync.Mutex
	Saw []string // "attempt/left"
}

// Trying is a bundle whose class Try takes an id and returns what f returns.
func Trying(t *testing.T, f func(d *goworker.Delivery) error, opts ...goworker.Option) *Tries {
	t.Helper()
	return TryingOn(Setup(t), f, opts...)
}

func TryingOn(b *Bundle, f func(d *goworker.Delivery) error, opts ...goworker.Option) *Tries {
	s := &Tries{Bundle: b}
	s.Daemon.Register("Try", func(ctx context.Context, id string) error {
		d := goworker.FromContext(ctx)
		s.Mu.Lock()
		s.Saw = append(s.Saw, fmt.Sprint(d.Attempt, "/", d.RetriesLeft))
		s.Mu.Unlock()
		s.Runs.Start(id)
		defer s.Runs.End(id)
		return f(d)
	}, opts...)
	return s
}

func (s *Tries) Seen() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return strings.Join(s.Saw, " ")
}

// Scheduled are the jobs that wait in our own schedule, without their queue. Those that
// due has called are not waiting any more.
func (b *Bundle) Scheduled() []string {
	b.T.Helper()
	var all []string
	for _, member := range b.Waiting() {
		all = append(all, strings.TrimPrefix(member, "4:work"))
	}
	return all
}

func (b *Bundle) Waiting(more ...any) []string {
	b.T.Helper()
	return b.Redis.List(b.T, "ZRANGE", append([]any{"resque:go:schedule", 2, "+inf", "BYSCORE"}, more...)...)
}

// Due makes all jobs that wait run now.
func (b *Bundle) Due() {
	b.T.Helper()
	for _, member := range b.Waiting() {
		b.Redis.Do(b.T, "ZADD", "resque:go:schedule", 1, member)
	}
}

var ErrNoLuck = errors.New("no luck")

func Unlucky(*goworker.Delivery) error { return ErrNoLuck }
