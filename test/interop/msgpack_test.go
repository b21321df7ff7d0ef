package interop

import (
	"errors"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

// Behaviour 27: a worker of node-resque on * works beside a MessagePack queue, and never sees it. An item in a queue that it reads
// would end it.
func TestNodeWorksBesideMessagePack(t *testing.T) {
	server, peer := setup(t)
	worker := peer.start(t, "worker.mjs", "*")
	worker.next(t, "start")
	calc := goworker.MessagePack("calc")
	d := newDaemon(server, calc)
	ran := make(chan delivered, 1000)
	d.Register("Count", tell(ran))
	d.Register("Fail", func(int) error { return errors.New("broken") }, goworker.Retry(1, goworker.Delays{1}))
	d.run(t)
	c := d.Client()
	for i := range 100 {
		for _, j := range []*goworker.Job{goworker.NewJob(calc, "Count", i), goworker.NewJob(calc, "Fail", i), goworker.NewJob("mail", "Echo", i)} {
			if _, err := c.Enqueue(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 100 {
		receive(t, ran, "a job of the MessagePack queue ran")
		if e := worker.next(t, "success"); e.Queue != "mail" {
			t.Errorf("node took a job of queue %s", e.Queue)
		}
	}
	redistest.Eventually(t, patience, "all have failed", func() bool { return server.Int(t, "LLEN", "resque:failed") == 100 })
	if names := decode[[]string](t, peer.queue(t, "queues")); len(names) != 1 || names[0] != "mail" {
		t.Errorf("node knows the queues %q", names)
	}
	for _, raw := range server.List(t, "LRANGE", "resque:failed", 0, -1) {
		if f, err := payload.ParseFailure([]byte(raw)); err != nil || f.Queue != calc || f.Payload[0] != '{' {
			t.Fatalf("failure %s: %v", raw, err)
		}
	}
	if rest := worker.stop(t); len(rest) > 0 {
		t.Errorf("node also said %v", rest)
	}
}
