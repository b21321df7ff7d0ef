package leases

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func texts(payloads ...string) (all [][]byte) {
	for _, p := range payloads {
		all = append(all, []byte(p))
	}
	return all
}

func (b *bundle) publish(all ...Publish) []error {
	b.Helper()
	before := b.now()
	p, err := b.s.Publish(b.c, all)
	b.must(err)
	if p.Now < before || p.Now > b.now() || len(p.Errors) != len(all) {
		b.Errorf("it was %d and the answer is %+v", before, p)
	}
	return p.Errors
}

// Jobs of one queue keep their order; delayed ones go into the schedule.
func TestPublish(t *testing.T) { each(t, testPublish) }

func testPublish(t *testing.T, b *bundle) {
	errs := b.publish(
		Publish{Queue: "a", Payloads: texts("1", "2")}, Publish{Queue: "b", Payloads: texts("3")}, Publish{Queue: "a", Payloads: texts("4")},
		Publish{Queue: "c", Payloads: texts("5"), At: 1795319212344}, Publish{Queue: "none"}, Publish{Queue: "a", Payloads: texts("6"), At: 7},
	)
	b.same("errors", make([]error, 6), errs)
	b.same("a", []string{"1", "2", "4"}, b.queue("a"))
	b.same("b", []string{"3"}, b.queue("b"))
	b.same("queues", []string{"a", "b"}, sorted(b.list("SMEMBERS", "resque:queues")))
	b.same("schedule", []string{"1:a6", "7", "1:c5", "1795319212344"}, b.list("ZRANGE", "resque:go:schedule", 0, -1, "WITHSCORES"))
	var many []string
	for i := range 2500 {
		many = append(many, fmt.Sprint(i))
	}
	b.publish(Publish{Queue: "many", Payloads: texts(many...)}, Publish{Queue: "many", Payloads: texts(many...), At: 9})
	b.same("many", many, b.queue("many"))
	b.same("many later", 2502, b.int("ZCARD", "resque:go:schedule"))
	b.must(func() error { _, err := b.s.Publish(b.c, nil); return err }())
}

// A queue that is full, or whose key is another program's, holds no other up.
func TestPublishRefused(t *testing.T) { each(t, testPublishRefused) }

func testPublishRefused(t *testing.T, b *bundle) {
	b.do("SET", "resque:queue:wrong", "x")
	errs := b.publish(
		Publish{Queue: "a", Payloads: texts("1", "2"), Most: 3}, Publish{Queue: "a", Payloads: texts("3", "4"), Most: 3}, Publish{Queue: "a", Payloads: texts("5"), Most: 3},
		Publish{Queue: "wrong", Payloads: texts("6")}, Publish{Queue: "a", Payloads: texts("7")}, Publish{Queue: "a", Payloads: texts("8"), Most: 5}, Publish{Queue: "wrong", Payloads: texts("9"), At: 5},
	)
	var full *FullError
	if !errors.As(errs[1], &full) || *full != (FullError{"a", 2, 3}) || !strings.Contains(full.Error(), "queue a has 2 jobs and may have 3") {
		t.Errorf("full: %v", errs[1])
	}
	if errs[3] == nil || !strings.Contains(errs[3].Error(), "resque:queue:wrong") || !resque.IsWrongType(errs[3]) {
		t.Errorf("of another type: %v", errs[3])
	}
	for _, i := range []int{0, 2, 4, 5, 6} {
		b.must(errs[i])
	}
	b.same("a", []string{"1", "2", "5", "7", "8"}, b.queue("a"))

	b.do("DEL", "resque:queues", "resque:go:schedule")
	b.do("SET", "resque:queues", "x")
	b.do("SET", "resque:go:schedule", "x")
	for i, err := range b.publish(Publish{Queue: "b", Payloads: texts("1")}, Publish{Queue: "b", Payloads: texts("1"), At: 5}, Publish{Queue: "b", Payloads: texts("1"), At: 6}) {
		key := []string{"resque:queues", "resque:go:schedule", "resque:go:schedule"}[i]
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	b.same("nothing was pushed", 0, b.int("EXISTS", "resque:queue:b"))
}

// The queue of a call's answer has no name and goes by itself.
func TestPublishReply(t *testing.T) {
	t.Parallel()
	b := setup(t)
	queue := "shop." + httpjob.NewID(1795319212344, 0)
	b.must(b.publish(Publish{Queue: queue, Payloads: texts("answer")})[0])
	b.same("queues", 0, b.int("SCARD", "resque:queues"))
	if ttl := b.int("TTL", "resque:queue:"+queue); ttl < 590 || ttl > 600 {
		t.Errorf("the answer stays for %d s", ttl)
	}
}

// Jobs that too few replicas have are there, and the error says so.
func TestPublishReplicated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.s.Store = b.s.Replicated(1, 5*time.Millisecond)
	p, err := b.s.Publish(b.c, []Publish{{Queue: "q", Payloads: texts("1", "2")}})
	var few *resque.ReplicasError
	if !errors.As(err, &few) || few.Jobs != 2 || few.To != "1 queue" || p.Errors[0] != nil {
		t.Errorf("%+v, %v", p, err)
	}
	b.same("q", []string{"1", "2"}, b.queue("q"))
	if _, err := b.s.Publish(redistest.Answering(redis.Error("LOADING Redis is loading")), []Publish{{Queue: "q", Payloads: texts("1")}}); err == nil || !strings.HasPrefix(err.Error(), "publishing jobs for 1 request: ") {
		t.Error(err)
	}
}
