package drain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// Jobs that clients hold go to the heads of their queues, in the order of their leases. Answers to calls go.
func TestLeased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hold := func(place, lease, payload string) {
		b.do("HSET", "resque:go:leased", place, payload)
		if lease != "" {
			b.do("ZADD", "resque:go:leases", lease, place)
		}
	}
	hold("4:workb", "1795405611754.5", job("B"))
	hold("4:worka", "1795405611753", job("A"))
	hold("4:workc", "1795405611755", job("C"))
	hold("4:maild", "", job("D"))
	hold("26:01M80NTA9RZYBB7STPTR000000x", "5", job("Answer"))
	b.do("RPUSH", "resque:queue:work", job("E"))
	report := b.drain()
	b.same("queue", jobsOf("A B C E"), b.list("resque:queue:work"))
	b.same("job without a lease", jobsOf("D"), b.list("resque:queue:mail"))
	b.same("requeued", 4, report.Requeued)
	for _, key := range b.server.Keys(t) {
		if strings.Contains(key, "go:") || strings.Contains(key, "01M8") {
			t.Errorf("%s is left", key)
		}
	}
	b.same("queues", 0, b.server.Int(t, "SISMEMBER", "resque:queues", "01M80NTA9RZYBB7STPTR000000"))
}

// A server that lives is named, and nothing is moved.
func TestTakers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("HSET", "resque:go:leased", "4:worka", job("A"))
	store := leases.New(resque.New(""))
	taker := leases.Taker{ID: "t", Host: "web", PID: 7, Started: time.Now()}
	if _, _, err := store.RenewTaker(b.server.Dial(t), taker, time.Hour, nil); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), b.config())
	if !errors.Is(err, ErrAlive) || !strings.Contains(err.Error(), "the HTTP server web:7") {
		t.Errorf("error %v", err)
	}
	b.same("queue", []string{}, b.list("resque:queue:work"))
}
