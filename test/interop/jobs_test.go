package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// awkward arguments: what escapes, what is not ASCII, nesting, every kind of
// value, and the largest whole number that JavaScript holds.
const awkward = `["<a href=\"x\">&</a>","é 日本 🙂 ` + "\u2028" + `",{"k":[1,2.5,null,true],"":{}},[],9007199254740991,-0.5]`

// delivered is what a handler saw of a job.
type delivered struct {
	Queue, Class, ID string
	Args             []json.RawMessage
	Raw              string
}

// tell is a handler that passes on its arguments.
func tell(to chan<- delivered) func(context.Context, *goworker.Job) error {
	return func(ctx context.Context, _ *goworker.Job) error {
		d := goworker.FromContext(ctx)
		to <- delivered{d.Queue, d.Class, d.ID, d.Args, string(d.Raw())}
		return nil
	}
}

func TestNodeEnqueuesGoRuns(t *testing.T) {
	server, peer := setup(t)
	got := make(chan delivered, 1)
	d := newDaemon(server, "mail")
	d.Register("Echo", tell(got))
	d.run(t)

	peer.queue(t, "enqueue", "mail", "Echo", json.RawMessage(awkward))
	job := receive(t, got, "the job ran")
	args, err := json.Marshal(job.Args)
	if err != nil {
		t.Fatal(err)
	}
	want := delivered{
		Queue: "mail", Class: "Echo", Args: job.Args,
		Raw: `{"class":"Echo","queue":"mail","args":` + awkward + `}`,
	}
	if diff := cmp.Diff(want, job); diff != "" {
		t.Errorf("the job (-want +got):\n%s", diff)
	}
	if !sameJSON(t, args, []byte(awkward)) {
		t.Errorf("arguments: %s, want %s", args, awkward)
	}
	redistest.Eventually(t, patience, "the job is counted", func() bool {
		return server.Int(t, "GET", "resque:stat:processed") == 1
	})
	if n := server.Int(t, "LLEN", "resque:failed"); n != 0 {
		t.Errorf("%d failures, want none", n)
	}
}

// With the setting for node-resque's scheduler, we leave delayed jobs to it while it is the leader.
func TestNodeDelaysGoRuns(t *testing.T) {
	server, peer := setup(t)
	scheduler := peer.start(t, "scheduler.mjs")
	scheduler.next(t, "leader")
	got := make(chan delivered, 1)
	d := newDaemon(server, "mail", func(s *goworker.WorkerSettings) { s.NodeScheduler = true })
	d.Register("Later", tell(got))
	d.run(t)

	peer.queue(t, "enqueueIn", 1, "mail", "Later", []any{"x"})
	scheduler.next(t, "transferred")
	if job := receive(t, got, "the delayed job ran"); job.Class != "Later" || len(job.Args) != 1 {
		t.Errorf("the job: %+v", job)
	}
	// Not so soon that its time may be past before it is sent: then it is not delayed at all.
	if err := d.EnqueueIn(3*time.Second, &goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Later", Args: []any{"y"}}}); err != nil {
		t.Fatal(err)
	}
	scheduler.next(t, "transferred")
	if job := receive(t, got, "the job that we delayed ran"); job.Class != "Later" || string(job.Args[0]) != `"y"` {
		t.Errorf("the job: %+v", job)
	}
}

// Without a scheduler we move what node-resque delayed, and cancel it.
func TestNodeDelaysGoPumps(t *testing.T) {
	server, peer := setup(t)
	got := make(chan delivered, 1)
	d := newDaemon(server, "mail")
	d.Register("Later", tell(got))
	d.run(t)

	peer.queue(t, "enqueueIn", 3_600_000, "mail", "Later", []any{"never"})
	if n, err := d.RemoveDelayed(&goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Later", Args: []any{"never"}}}); n != 1 || err != nil {
		t.Errorf("cancelled %d, %v", n, err)
	}
	peer.queue(t, "enqueueIn", 1, "mail", "Later", []any{"x"})
	if job := receive(t, got, "the delayed job ran"); job.Raw != `{"class":"Later","args":["x"]}` {
		t.Errorf("the job: %+v", job)
	}
	redistest.Eventually(t, patience, "nothing of them is left", func() bool {
		return server.Int(t, "EXISTS", "resque:delayed_queue_schedule", `resque:timestamps:{"class":"Later","queue":"mail","args":["never"]}`) == 0
	})
}

func TestGoEnqueuesNodeRuns(t *testing.T) {
	server, peer := setup(t)
	var args []any
	decoder := json.NewDecoder(bytes.NewReader([]byte(awkward)))
	decoder.UseNumber()
	if err := decoder.Decode(&args); err != nil {
		t.Fatal(err)
	}
	d := newDaemon(server, "mail") // enqueues only
	t.Cleanup(d.Close)
	for _, job := range []*goworker.Job{
		{Queue: "mail", Payload: goworker.Payload{Class: "Echo", Args: args}},
		{Queue: "mail", Payload: goworker.Payload{Class: "Boom", Args: []any{"out of paper"}}},
		{Queue: "mail", Payload: goworker.Payload{Class: "Echo"}},
	} {
		if err := d.Enqueue(job); err != nil {
			t.Fatal(err)
		}
	}
	if got := decode[int](t, peer.queue(t, "length", "mail")); got != 3 {
		t.Errorf("node counts %d jobs, want 3", got)
	}

	worker := peer.start(t, "worker.mjs", "mail")
	if e := worker.next(t, "success"); e.Class != "Echo" || e.Queue != "mail" || !sameJSON(t, e.Result, []byte(awkward)) {
		t.Errorf("node ran %s in %s and got %s, want Echo in mail with %s", e.Class, e.Queue, e.Result, awkward)
	}
	if e := worker.next(t, "failure"); e.Class != "Boom" || e.Error != "out of paper" {
		t.Errorf("node failed %s with %q, want Boom with its own argument", e.Class, e.Error)
	}
	if e := worker.next(t, "success"); string(e.Result) != "[]" {
		t.Errorf("a job without arguments got %s", e.Result)
	}
}

func TestNodeDeletesOurJobsByClass(t *testing.T) {
	server, peer := setup(t)
	d := newDaemon(server, "mail")
	t.Cleanup(d.Close)
	for i, class := range []string{"Echo", "Keep", "Echo"} {
		if err := d.Enqueue(&goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: class, Args: []any{i}}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := decode[int](t, peer.queue(t, "delByFunction", "mail", "Echo")); n != 2 {
		t.Errorf("node deleted %d jobs, want 2", n)
	}
	want := []string{`{"class":"Keep","args":[1]}`}
	if diff := cmp.Diff(want, server.List(t, "LRANGE", "resque:queue:mail", 0, -1)); diff != "" {
		t.Errorf("the queue (-want +got):\n%s", diff)
	}
}

// Two implementations on one queue share its jobs, and neither takes the other's
// worker for dead: node sends no heartbeat and we send no ping.
func TestNodeWorksBesideUs(t *testing.T) {
	server, peer := setup(t)
	const jobs = 200
	var mu sync.Mutex
	ran := map[string]int{}
	count := func(id string) {
		mu.Lock()
		defer mu.Unlock()
		ran[id]++
	}
	total := func() int {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, times := range ran {
			n += times
		}
		return n
	}

	worker := peer.start(t, "worker.mjs", "mail")
	name := worker.next(t, "start").Name
	d := newDaemon(server, "mail")
	d.Register("Echo", func(id string) error {
		count(id)
		time.Sleep(time.Millisecond) // leave some for the other
		return nil
	})
	d.run(t)
	redistest.Eventually(t, patience, "both are registered", func() bool {
		return server.Int(t, "SCARD", "resque:workers") == 3
	})
	for i := range jobs {
		job := &goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Echo", Args: []any{fmt.Sprint(i)}}}
		if err := d.Enqueue(job); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, patience, "all jobs ran", func() bool {
		for {
			select {
			case e := <-worker.events:
				if e.Event == "success" {
					count(decode[[]string](t, e.Result)[0])
				}
			default:
				return total() >= jobs
			}
		}
	})
	for id, times := range ran {
		if times != 1 {
			t.Errorf("job %s ran %d times", id, times)
		}
	}
	redistest.Eventually(t, patience, "all jobs are counted", func() bool {
		return server.Int(t, "GET", "resque:stat:processed") == jobs
	})

	d.stop(t)
	if diff := cmp.Diff([]string{name + ":mail"}, server.List(t, "SMEMBERS", "resque:workers")); diff != "" {
		t.Errorf("the workers after we have left (-want +got):\n%s", diff)
	}
	if server.Int(t, "EXISTS", "resque:worker:ping:"+name) != 1 {
		t.Errorf("our leaving took node's ping with it")
	}
}

// The shape of a php-resque payload is its own: one argument that is an object,
// an id, the time of enqueueing. The handler gets the first two and a failure
// record keeps all, so that a retry from PHP's tools finds them.
func TestPHPPayload(t *testing.T) {
	server, _ := setup(t)
	const payload = `{"class":"My_Job","args":[{"name":"x","path":"a\/b"}],"id":"7f4d2a9c5b8e4f108a6b3c2d1e0f9a8b","prefix":"","queue_time":1795229105.068746}`
	type call struct{ ID, Name, Path string }
	got := make(chan call, 1)
	d := newDaemon(server, "mail")
	d.Register("My_Job", func(ctx context.Context, arg struct{ Name, Path string }) error {
		got <- call{goworker.FromContext(ctx).ID, arg.Name, arg.Path}
		return fmt.Errorf("not today")
	})
	d.run(t)

	server.Do(t, "SADD", "resque:queues", "mail")
	server.Do(t, "RPUSH", "resque:queue:mail", payload)
	want := call{"7f4d2a9c5b8e4f108a6b3c2d1e0f9a8b", "x", "a/b"}
	if diff := cmp.Diff(want, receive(t, got, "the job ran")); diff != "" {
		t.Errorf("the call (-want +got):\n%s", diff)
	}
	redistest.Eventually(t, patience, "the failure is filed", func() bool {
		return server.Int(t, "LLEN", "resque:failed") == 1
	})
	record := server.List(t, "LRANGE", "resque:failed", 0, -1)[0]
	if !bytes.Contains([]byte(record), []byte(`"payload":`+payload)) {
		t.Errorf("the failure does not keep the payload's bytes: %s", record)
	}
}

// sameJSON compares values, not bytes.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	return cmp.Equal(decode[any](t, a), decode[any](t, b))
}
