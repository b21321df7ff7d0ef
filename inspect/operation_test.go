package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/fingerprint"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// run runs an operation to its end, and returns how it stands then.
func run(t *testing.T, i *inspect.Inspector, p inspect.Plan) inspect.Operation {
	t.Helper()
	op, err := i.Operations().Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return drive(t, i.Operations().Run(t.Context(), op.ID))
}

func drive(t *testing.T, steps func(func(inspect.Operation, error) bool)) (last inspect.Operation) {
	t.Helper()
	for op, err := range steps {
		if err != nil {
			t.Fatalf("%v after %+v", err, op)
		}
		last = op
	}
	return last
}

func undo(t *testing.T, i *inspect.Inspector, id string) inspect.Operation {
	t.Helper()
	return drive(t, i.Operations().Undo(t.Context(), id))
}

// without returns a dump without the keys of operations.
func without(dump map[string]any) map[string]any {
	for key := range dump {
		if strings.HasPrefix(key, "resque:go:operat") || strings.HasPrefix(key, "resque:go:bin:") {
			delete(dump, key)
		}
	}
	return dump
}

// What an operation did in every place is taken back to the byte.
func TestOperationsTakeBack(t *testing.T) {
	i, server, _ := setup(t)
	for n := range 700 {
		server.Do(t, "RPUSH", "resque:queue:mail", fmt.Sprintf(`{"class":"Many","args":[%d]}`, n))
		if n < 300 {
			server.Do(t, "RPUSH", "resque:failed", fmt.Sprintf(`{"failed_at":"2026/11/22 10:00:00 UTC","payload":{"class":"Many","args":[%d]},"exception":"E","error":"boom","backtrace":null,"worker":"w:1:mail","queue":"mail"}`, n))
			server.Do(t, "ZADD", "resque:go:schedule", 4_000_000_000_000+n, fmt.Sprintf(`4:mail{"class":"Many","args":[%d],"id":"d%d"}`, n, n))
			item := fmt.Sprintf(`{"class":"Many","args":[%d],"queue":"mail"}`, 1000+n)
			server.Do(t, "RPUSH", fmt.Sprint("resque:delayed:", 4_000_000_000+n%7), item)
			server.Do(t, "ZADD", "resque:delayed_queue_schedule", 4_000_000_000+n%7, 4_000_000_000+n%7)
			server.Do(t, "SADD", "resque:timestamps:"+item, fmt.Sprint("delayed:", 4_000_000_000+n%7))
			server.Do(t, "RPUSH", "resque:go:lane:"+laneName, fmt.Sprintf(`{"class":"Many","args":[%d],"id":"l%d"}`, n, n))
		}
	}
	for n := range 700 { // behind the others: what goes back goes to the head
		server.Do(t, "RPUSH", "resque:queue:mail", fmt.Sprintf(`{"class":"Other","args":[%d]}`, n))
	}
	server.Do(t, "SADD", "resque:queues", "mail", "other")
	server.Do(t, "SADD", "resque:go:lanes", laneSet)
	server.Do(t, "ZADD", "resque:go:lanes:"+laneSet, 0, laneOwn)
	before := without(server.Dump(t, ""))
	many := inspect.Query{Class: "Many"}
	in := func(p ...inspect.Place) inspect.Query { return inspect.Query{Class: "Many", Places: p} }
	group := func(p ...inspect.Place) inspect.Query {
		return inspect.Query{Where: []inspect.Condition{{Name: "group", Value: fingerprint.Of("Many", "E", "boom").String()}}, Places: p}
	}
	for name, test := range map[string]struct {
		plan   inspect.Plan
		done   int64
		pieces bool // jobs go back in pieces, and only in these is their order as it was
	}{
		"remove":          {inspect.Plan{Verb: inspect.Drop, Query: in(inspect.Delayed, inspect.Queued, inspect.InLane, inspect.Failed)}, 700 + 4*300, false},
		"retry":           {inspect.Plan{Verb: inspect.Retry, Query: in(inspect.Failed)}, 300, false},
		"retry all":       {inspect.Plan{Verb: inspect.Retry}, 300, false},
		"retry a group":   {inspect.Plan{Verb: inspect.Retry, Query: group(inspect.Failed)}, 300, false},
		"remove a group":  {inspect.Plan{Verb: inspect.Drop, Query: group(inspect.Failed)}, 300, false},
		"run":             {inspect.Plan{Verb: inspect.Run, Query: in(inspect.Delayed)}, 600, true},
		"run at the head": {inspect.Plan{Verb: inspect.Run, Query: in(inspect.Delayed), To: inspect.Head}, 600, true},
		"move":            {inspect.Plan{Verb: inspect.MoveTo, Query: many, Queue: "other"}, 700 + 3*300, true},
		"move failures":   {inspect.Plan{Verb: inspect.MoveTo, Query: in(inspect.Failed), Queue: "other"}, 300, false},
		"delay":           {inspect.Plan{Verb: inspect.Delay, Query: in(inspect.Delayed, inspect.Queued), At: time.Unix(4_100_000_000, 0)}, 700 + 2*300, true},
		"clear":           {inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "mail"}}, 1400 + 300, false},
		"remove queue":    {inspect.Plan{Verb: inspect.ForgetQueue, Query: inspect.Query{Queue: "mail"}}, 1400 + 300, false},
		"move a queue":    {inspect.Plan{Verb: inspect.MoveTo, Query: inspect.Query{Queue: "mail", Places: []inspect.Place{inspect.Queued}}, Queue: "other"}, 1400, false},
	} {
		n, err := i.Operations().Count(t.Context(), test.plan)
		want(t, name+": counted", test.done, n.Jobs, err)
		op := run(t, i, test.plan)
		if op.State != inspect.OperationDone || op.Done != test.done || op.Refused != 0 {
			t.Errorf("%s: %+v", name, op)
		}
		if name == "move a queue" {
			moved := queue(t, server, "other")
			want(t, "the order of a queue that was moved", before["resque:queue:mail"], any(toAny(moved)), nil)
		}
		op = undo(t, i, op.ID)
		if op.State != inspect.OperationUndone || op.Back != test.done || op.Gone != 0 || op.Binned != 0 {
			t.Errorf("%s, taken back: %+v", name, op)
		}
		after := without(server.Dump(t, ""))
		if test.pieces {
			inOrder(before)
			inOrder(after)
		}
		sameJobs(t, name, before, after)
		before = without(server.Dump(t, ""))
		if t.Failed() {
			t.FailNow()
		}
	}
}

const (
	laneSet  = "4:mailf:A/key"
	laneOwn  = "c:A/key=x"
	laneName = "4:mail7:f:A/key" + laneOwn
)

// inOrder sorts what is in lists.
func inOrder(dump map[string]any) {
	for _, value := range dump {
		if list, ok := value.([]string); ok {
			slices.Sort(list)
		}
	}
}

func toAny(texts []string) any { return texts }

// sameJobs compares dumps. Jobs of a lane and of other places may have changed the time of the lane's turn.
func sameJobs(t *testing.T, name string, before, after map[string]any) {
	t.Helper()
	for key := range before {
		if !same(before[key], after[key]) {
			is, was := fmt.Sprint(after[key]), fmt.Sprint(before[key])
			at := 0
			for at < min(len(is), len(was)) && is[at] == was[at] {
				at++
			}
			t.Errorf("%s: %s is not as it was, from byte %d on:\n%.200s\nwas\n%.200s", name, key, at, is[at:], was[at:])
		}
	}
	for key := range after {
		if before[key] == nil {
			t.Errorf("%s: there is a key %s: %.300v", name, key, after[key])
		}
	}
}

func same(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// Removed jobs with a lock or a result end as cancelled, and do not come back.
func TestOperationsEndFeatures(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[],"id":"u","unique":"done:lock"}`, `{"class":"A","args":[],"id":"r","result":60000}`, `{"class":"A","args":[]}`)
	server.Do(t, "HSET", "resque:go:unique:lock", "u", "0 0 q"+`4:mail{"class":"A","args":[],"id":"u","unique":"done:lock"}`)
	server.Do(t, "HSET", "resque:go:result:r", "state", "pending", "ttl", 60000)
	plan := inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Queue: "mail"}}
	n, err := i.Operations().Count(t.Context(), plan)
	want(t, "counted", "3 jobs, 2 end, 3 samples", fmt.Sprintf("%d jobs, %d end, %d samples", n.Jobs, n.Ended, len(n.Samples)), err)
	op := run(t, i, plan)
	want(t, "done", "3 2 1", fmt.Sprint(op.Done, op.Ended, op.Binned), nil)
	want(t, "the lock", 0, server.Int(t, "EXISTS", "resque:go:unique:lock"), nil)
	want(t, "the result", "cancelled", server.Text(t, "HGET", "resque:go:result:r", "state"), nil)
	bin, err := i.Operations().Bin(t.Context(), "")
	want(t, "bin", "queue mail 1", fmt.Sprint(bin[0].Place, " ", bin[0].Jobs), err)
	op = undo(t, i, op.ID)
	want(t, "back", "1 0", fmt.Sprint(op.Back, op.Gone), nil)
	want(t, "queue", []string{`{"class":"A","args":[]}`}, queue(t, server, "mail"), nil)
	want(t, "the lists of the operation", 0, len(keysOf(t, server, "resque:go:bin:")), nil)
	for _, err := range i.Operations().Undo(t.Context(), op.ID) {
		if !errors.Is(err, inspect.ErrOperationOver) {
			t.Errorf("undone twice: %v", err)
		}
	}
}

func keysOf(t *testing.T, server *redistest.Server, prefix string) (keys []string) {
	for _, key := range server.Keys(t) {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys
}

// failures fills the list of failures of queue mail.
func failures(t *testing.T, server *redistest.Server, n int) {
	server.Do(t, "EVAL", `for n = 1, ARGV[1] do redis.call('RPUSH', 'resque:failed', '{"failed_at":"2026/11/22 10:00:00 UTC","payload":{"class":"A","args":[' .. n .. '],"id":"f' .. n .. '"},"exception":"E","error":"e","backtrace":null,"worker":"w:1:mail","queue":"mail"}') end`, 0, n)
}

// A pace holds an operation up between its steps. An operator stops it there from elsewhere, another program runs it on, and a program
// that breaks off leaves it to others.
func TestOperationsStopAndGoOn(t *testing.T) {
	i, server, _ := setup(t)
	failures(t, server, 1200)
	ops := i.By("ada", "a test").Operations()
	op, err := ops.Start(t.Context(), inspect.Plan{Verb: inspect.Retry})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "state", inspect.OperationReady, op.State, nil)
	for last, err := range ops.Run(t.Context(), op.ID) {
		if err == nil && last.Done >= 500 {
			err = ops.Stop(t.Context(), op.ID, "enough")
		}
		if err != nil && !errors.Is(err, inspect.ErrOperationStopped) {
			t.Fatal(err)
		}
	}
	op, err = ops.Get(t.Context(), op.ID)
	want(t, "stopped", "stopped enough 500", fmt.Sprint(op.State, " ", op.Why, " ", op.Done), err)
	for last, err := range ops.Run(t.Context(), op.ID) {
		if err != nil || last.State != inspect.OperationRunning {
			t.Fatalf("%+v, %v", last, err)
		}
		for _, err := range ops.Run(t.Context(), op.ID) {
			if !errors.Is(err, inspect.ErrOperationBusy) {
				t.Errorf("two programs run it: %v", err)
			}
		}
		break
	}
	op, err = ops.Wait(t.Context(), op.ID)
	want(t, "broken off", "stands 750", fmt.Sprint(op.State, " ", op.Done), err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for last, err := range ops.Run(ctx, op.ID) {
		if err == nil {
			cancel()
		} else if !errors.Is(err, context.Canceled) || last.Done != 1000 {
			t.Errorf("%+v, %v", last, err)
		}
	}
	op = drive(t, ops.Run(t.Context(), op.ID))
	want(t, "done", "done 1200", fmt.Sprint(op.State, " ", op.Done), nil)
	want(t, "the queue", 1200, len(queue(t, server, "mail")), nil)
	for _, err := range ops.Run(t.Context(), op.ID) {
		if !errors.Is(err, inspect.ErrOperationOver) {
			t.Errorf("run twice: %v", err)
		}
	}
	audit, err := i.Audit(t.Context(), 10)
	var said []string
	for _, e := range audit {
		said = append(said, fmt.Sprint(e.What, " ", e.Intent, " ", e.Changed, " ", e.Who))
	}
	want(t, "audit", []string{"Operations.retry false 1200 ada", "Operations.Stop false 1 ada", "Operations.retry true 0 ada"}, said, err)
	for _, err := range ops.Run(t.Context(), "nothing") {
		if !errors.Is(err, inspect.ErrNoOperation) {
			t.Errorf("%v", err)
		}
	}
}

// Two operations run at a time.
func TestOperationsAtATime(t *testing.T) {
	i, server, _ := setup(t)
	failures(t, server, 3)
	ops := i.Operations()
	begin := func() string {
		op, err := ops.Start(t.Context(), inspect.Plan{Verb: inspect.Retry, Pace: 1})
		if err != nil {
			t.Fatal(err)
		}
		return op.ID
	}
	first, second, third := begin(), begin(), begin()
	for range ops.Run(t.Context(), first) {
		for range ops.Run(t.Context(), second) {
			for _, err := range ops.Run(t.Context(), third) {
				if !errors.Is(err, inspect.ErrOperationsFull) || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), second) {
					t.Errorf("a third runs: %v", err)
				}
			}
			break
		}
		drive(t, ops.Run(t.Context(), third))
		break
	}
	all, err := ops.List(t.Context())
	want(t, "listed", 3, len(all), err)
}

// A brake stops an operation whose jobs fail again, whose queue is long, or that is slow. It can be run on.
func TestOperationsBrake(t *testing.T) {
	i, server, _ := setup(t)
	failures(t, server, 1000)
	ops := i.Operations()
	fails := func(plan inspect.Plan, job func()) inspect.Operation {
		op, err := ops.Start(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		for last, err := range ops.Run(t.Context(), op.ID) {
			if err != nil {
				t.Fatal(err)
			}
			op = last
			job()
		}
		return op
	}
	fail := func(job string) {
		server.Do(t, "RPUSH", "resque:failed", `{"failed_at":"2026/11/22 11:00:00 UTC","payload":`+job+`,"exception":"E","error":"e","backtrace":null,"worker":"w:1:mail","queue":"mail"}`)
	}
	var went []string
	again := func() { // a worker takes the jobs, and each third fails again
		jobs := queue(t, server, "mail")
		went = append(went, jobs...)
		for n, job := range jobs {
			server.Do(t, "LPOP", "resque:queue:mail")
			if n%3 == 0 {
				fail(job)
			}
		}
	}
	op := fails(inspect.Plan{Verb: inspect.Retry, Query: inspect.Query{Places: []inspect.Place{inspect.Failed}, Class: "A"}, Brake: inspect.Brake{Failed: 0.1}}, again)
	if op.State != inspect.OperationStopped || !strings.Contains(op.Why, "have failed again, more than 10 %") || op.Done != 500 || op.Again != 84 {
		t.Errorf("%+v", op)
	}
	for last, err := range ops.Run(t.Context(), op.ID) { // what failed again has been mended: the brake counts from here on
		if op = last; err != nil {
			t.Fatal(err)
		}
		for _, job := range went { // of those from before it was run on
			fail(job)
		}
		went = nil
		server.Do(t, "DEL", "resque:queue:mail")
	}
	want(t, "run on", "done 1000 584", fmt.Sprint(op.State, " ", op.Done, " ", op.Again), nil)
	server.Do(t, "DEL", "resque:failed")
	failures(t, server, 1000)
	op = fails(inspect.Plan{Verb: inspect.Retry, Brake: inspect.Brake{Waiting: 300}}, func() {})
	if op.State != inspect.OperationStopped || op.Why != "brake: 500 jobs wait in queue mail, more than 300" {
		t.Errorf("%+v", op)
	}
	op = drive(t, ops.Run(t.Context(), op.ID))
	if op.State != inspect.OperationStopped {
		t.Errorf("run on: %+v", op)
	}
	op = fails(inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Queue: "mail"}, Brake: inspect.Brake{Slow: 1}}, func() {})
	if op.State != inspect.OperationStopped || !strings.Contains(op.Why, "Redis worked at a step of 10 jobs") {
		t.Errorf("%+v", op)
	}
	for n := range 3 { // a page of two shares, each of them a step
		server.Do(t, "ZADD", "resque:go:schedule", 4_000_000_000_000, fmt.Sprintf(`4:mail{"class":"D","args":[%d],"id":"d%d"}`, n, n))
		server.Do(t, "RPUSH", "resque:delayed:4000000000", fmt.Sprintf(`{"class":"D","args":[%d],"queue":"mail"}`, n))
	}
	server.Do(t, "ZADD", "resque:delayed_queue_schedule", 4_000_000_000, 4_000_000_000)
	op = fails(inspect.Plan{Verb: inspect.Run, Query: inspect.Query{Class: "D"}, Brake: inspect.Brake{Waiting: 1}}, func() {})
	if op.State != inspect.OperationStopped || op.Done != 3 {
		t.Errorf("of two shares: %+v", op)
	}
}

// An operation on given jobs is made at once.
func TestOperationsOnGivenJobs(t *testing.T) {
	i, server, _ := setup(t)
	everywhere(t, server)
	before := without(server.Dump(t, ""))
	jobs := []inspect.Entry{one(t, i, id("mine")), one(t, i, id("laned")), one(t, i, inspect.Query{Class: "A", Places: []inspect.Place{inspect.Failed}})}
	op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Drop, Jobs: jobs})
	want(t, "removed", "done 3 given", fmt.Sprint(op.State, " ", op.Done, map[bool]string{true: " given"}[op.Given]), err)
	for _, e := range jobs[:2] {
		want(t, "left", []string(nil), found(t, i, id(e.ID), 500), nil)
	}
	undo(t, i, op.ID)
	after := without(server.Dump(t, ""))
	inOrder(before)
	inOrder(after)
	delete(before, "resque:go:lanes:4:mailf:A%2Fkey") // the lane is the next one of its queue
	delete(after, "resque:go:lanes:4:mailf:A%2Fkey")
	sameJobs(t, "given", before, after)
}

// Of equal jobs as many go back as the operation has moved.
func TestOperationsTakeEqualJobsBack(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "SADD", "resque:queues", "mail", "other")
	for queue, jobs := range map[string]int{"mail": 2, "other": 3} {
		for range jobs {
			server.Do(t, "RPUSH", "resque:queue:"+queue, `{"class":"A","args":[]}`)
		}
	}
	op := run(t, i, inspect.Plan{Verb: inspect.MoveTo, Query: inspect.Query{Queue: "mail"}, Queue: "other"})
	want(t, "moved", "2 5", fmt.Sprint(op.Done, " ", len(queue(t, server, "other"))), nil)
	op = undo(t, i, op.ID)
	want(t, "taken back", "2 2 3", fmt.Sprint(op.Back, " ", len(queue(t, server, "mail")), " ", len(queue(t, server, "other"))), nil)
}

// A whole queue whose jobs no other queue can take is refused once, in two steps.
func TestOperationsToAQueueOfAnotherType(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "SADD", "resque:queues", "mail")
	server.Do(t, "EVAL", `for n = 1, 300 do redis.call('RPUSH', 'resque:queue:mail', '{"class":"A","args":[' .. n .. ']}') end`, 0)
	server.Do(t, "SET", "resque:queue:other", "x")
	op := run(t, i, inspect.Plan{Verb: inspect.MoveTo, Query: inspect.Query{Queue: "mail", Places: []inspect.Place{inspect.Queued}}, Queue: "other"})
	want(t, "refused", "0 300 300", fmt.Sprint(op.Done, " ", op.Refused, " ", len(queue(t, server, "mail"))), nil)
}

// Each key of an operation that has another type, or is removed, costs the operation at most. No job is lost.
func TestOperationsWithoutTheirKeys(t *testing.T) {
	i, server, _ := setup(t)
	ops := i.Operations()
	for _, key := range []string{"resque:go:operation:", "resque:go:operations", "resque:go:operating", "resque:go:bin:", "resque:queue:mail", "resque:queues", "resque:failed"} {
		for _, remove := range []bool{true, false} {
			server.Do(t, "FLUSHALL")
			failures(t, server, 300)
			server.Do(t, "SADD", "resque:queues", "mail")
			server.Do(t, "RPUSH", "resque:queue:mail", "{}")
			op, err := ops.Start(t.Context(), inspect.Plan{Verb: inspect.Retry})
			if err != nil {
				t.Fatal(err)
			}
			name := key
			switch key {
			case "resque:go:operation:":
				name += op.ID
			case "resque:go:bin:":
				name += op.ID + ":went:failed:failed"
			}
			for n := 0; ; n++ {
				broken := n == 0
				for last, err := range ops.Run(t.Context(), op.ID) {
					if op = last; err != nil {
						if n > 0 && !errors.Is(err, inspect.ErrOperationOver) && !(remove && key == "resque:go:operation:" && errors.Is(err, inspect.ErrNoOperation)) {
							t.Errorf("%s, removed %v: %v", key, remove, err)
						}
						break
					}
					if broken {
						broken = false
						server.Do(t, "RENAME", name, "aside")
						if !remove {
							server.Do(t, "SET", name, "x")
						}
					}
				}
				if n == 1 {
					break
				}
				if !remove {
					server.Do(t, "DEL", name)
					server.Do(t, "RENAME", "aside", name)
				}
				server.Do(t, "DEL", "resque:go:operating")
			}
			if key == "resque:failed" && remove {
				continue
			}
			aside, _ := redis.Strings(server.Dial(t).Do("LRANGE", "aside", 0, -1))
			seen := make(map[string]int)
			for _, job := range append(queue(t, server, "mail"), aside...) {
				if seen[job]++; seen[job] > 1 && job != "{}" {
					t.Fatalf("%s, removed %v: %s is there twice", key, remove, job)
				}
			}
			if key != "resque:go:operation:" && key != "resque:failed" && (op.State != inspect.OperationDone || op.Done+op.Refused < 300) {
				t.Errorf("%s, removed %v: %+v", key, remove, op)
			}
		}
	}
}

// In a full Redis an operation makes room: it begins, removes, clears, and takes back. One that would fill Redis is refused, and can
// be run on when there is room.
func TestOperationsOutOfMemory(t *testing.T) {
	i, server, _ := setup(t)
	failures(t, server, 300)
	server.Do(t, "SADD", "resque:queues", "mail")
	server.Do(t, "RPUSH", "resque:queue:mail", "{}", "{}")
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	ops := i.By("ada", "").Operations()
	retry, err := ops.Start(t.Context(), inspect.Plan{Verb: inspect.Retry})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range ops.Run(t.Context(), retry.ID) {
		if err == nil || !strings.Contains(err.Error(), "Redis is out of memory, free some or raise its maxmemory") {
			t.Errorf("retried: %v", err)
		}
	}
	retry, err = ops.Get(t.Context(), retry.ID)
	if err != nil || retry.State != inspect.OperationStopped || retry.Done+retry.Refused != 0 || !strings.Contains(retry.Why, "out of memory") {
		t.Errorf("%+v, %v", retry, err)
	}
	clear := run(t, i, inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "mail"}})
	want(t, "cleared", int64(2), clear.Done, nil)
	removed := run(t, i, inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Places: []inspect.Place{inspect.Failed}}})
	want(t, "removed", "300 300", fmt.Sprint(removed.Done, removed.Binned), nil)
	want(t, "taken back", int64(300), undo(t, i, removed.ID).Back, nil)
	n, err := ops.EmptyBin(t.Context(), clear.ID)
	want(t, "emptied", int64(2), n, err)
	op, err := ops.Get(t.Context(), clear.ID)
	want(t, "in the bin", int64(0), op.Binned, err)
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	want(t, "retried", int64(300), drive(t, ops.Run(t.Context(), retry.ID)).Done, nil)
}

// Without the permission to rename a queue is not cleared, the error says what to add, and everything else goes on.
func TestOperationsACL(t *testing.T) {
	redistest.OwnUser(t)
	i, server, l := setup(t)
	everywhere(t, server)
	rules := redistest.MinimalACL(t)
	server.Do(t, "ACL", append([]any{"SETUSER"}, anys(rules)...)...)
	server.Do(t, "ACL", "SETUSER", rules[0], "-rename", "-persist", "-acl|whoami")
	l.login = rules[0] + ":" + redistest.ACLPassword
	ops := i.By("ada", "").Operations()
	op, err := ops.Start(t.Context(), inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "mail"}})
	if err != nil {
		t.Fatal(err)
	}
	before := server.Dump(t, "")
	for _, err := range ops.Run(t.Context(), op.ID) {
		if err == nil || !strings.Contains(err.Error(), "+rename") && !strings.Contains(err.Error(), "lacks a permission") {
			t.Errorf("cleared: %v", err)
		}
	}
	sameJobs(t, "not cleared", without(before), without(server.Dump(t, "")))
	removed := run(t, i, inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Queue: "low"}})
	server.Do(t, "ACL", "SETUSER", rules[0], "+rename")
	cleared := run(t, i, inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "mail"}})
	undo(t, i, cleared.ID) // piece by piece, without PERSIST
	undo(t, i, removed.ID)
	after := without(server.Dump(t, ""))
	delete(before, "resque:go:lanes:4:mailf:A%2Fkey") // the lane is the next one of its queue
	delete(after, "resque:go:lanes:4:mailf:A%2Fkey")
	sameJobs(t, "taken back", without(before), after)
	want(t, "the queue stays", -1, server.Int(t, "PTTL", "resque:queue:mail"), nil)
	audit, err := i.Audit(t.Context(), 1)
	want(t, "without ACL WHOAMI", "?", audit[0].User, err)
}

func anys(texts []string) (all []any) {
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

// The runner of an operation is killed at some of its requests, and another program goes on. test/operate/operations kills at all.
func TestOperationsOfTheKilled(t *testing.T) {
	i, server, l := setup(t)
	for nth := 2; nth < 20; nth += 3 {
		server.Do(t, "FLUSHALL")
		failures(t, server, 600)
		op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Retry})
		if err != nil {
			t.Fatal(err)
		}
		mortal := redistest.NewMortal(nth, nth%2 == 0)
		dies := *l
		dies.mortal = mortal
		for range inspect.New(&dies).Operations().Run(mortal.Life(t.Context()), op.ID) {
		}
		want(t, "killed", true, mortal.Dead(), nil)
		server.Do(t, "DEL", "resque:go:operating")
		op = drive(t, i.Operations().Run(t.Context(), op.ID))
		want(t, fmt.Sprint("killed at ", nth), int64(600), op.Done, nil)
		jobs := queue(t, server, "mail")
		slices.Sort(jobs)
		want(t, fmt.Sprint("jobs, killed at ", nth), 600, len(slices.Compact(jobs)), nil)
	}
}

// The runner that removes a queue is killed, and a producer uses the queue before another program goes on: its name stays.
func TestOperationsForgetAQueueInUse(t *testing.T) {
	i, server, l := setup(t)
	kept := 0
	for nth := 2; nth < 12; nth++ {
		server.Do(t, "FLUSHALL")
		server.Do(t, "SADD", "resque:queues", "mail")
		server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[1]}`)
		op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.ForgetQueue, Query: inspect.Query{Queue: "mail"}})
		if err != nil {
			t.Fatal(err)
		}
		mortal := redistest.NewMortal(nth, true)
		dies := *l
		dies.mortal = mortal
		for range inspect.New(&dies).Operations().Run(mortal.Life(t.Context()), op.ID) {
		}
		server.Do(t, "SADD", "resque:queues", "mail")
		server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[2]}`)
		server.Do(t, "DEL", "resque:go:operating")
		for range i.Operations().Run(t.Context(), op.ID) {
		}
		n := server.Int(t, "EXISTS", "resque:queue:mail")
		want(t, fmt.Sprint("killed at ", nth, ": the queue is known"), n, server.Int(t, "SISMEMBER", "resque:queues", "mail"), nil)
		kept += n
	}
	if kept == 0 {
		t.Error("no second run has found a new job")
	}
}

// While lanes of a queue have jobs, its name stays, however many they are and whenever the runner that removes the queue is killed.
func TestOperationsForgetAQueueLast(t *testing.T) {
	i, server, l := setup(t)
	const lanes = 300 // two steps
	between := 0
	for nth, dead := 10, true; dead; nth++ {
		server.Do(t, "FLUSHALL")
		server.Do(t, "SADD", "resque:queues", "mail")
		for n := range lanes {
			lane := resque.NewLane("mail", resque.Limit{Kind: resque.LimitRunning, Name: "A/key", Keyed: true, Key: fmt.Sprint(n)})
			laned(t, server, lane, `{"class":"A","args":[1]}`)
		}
		op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.ForgetQueue, Query: inspect.Query{Queue: "mail"}})
		if err != nil {
			t.Fatal(err)
		}
		mortal := redistest.NewMortal(nth, true)
		dies := *l
		dies.mortal = mortal
		for range inspect.New(&dies).Operations().Run(mortal.Life(t.Context()), op.ID) {
		}
		dead = mortal.Dead()
		left := server.Int(t, "EVAL", `return #redis.call('KEYS', KEYS[1]) * (1 - 2 * redis.call('SISMEMBER', KEYS[2], 'mail'))`, 2, "resque:go:lane:*", "resque:queues")
		if left > 0 {
			t.Errorf("killed at %d: %d lanes have jobs, and the queue is not known", nth, left)
		}
		if -lanes < left && left < 0 { // the name is there: the number is negative
			between++
		}
		server.Do(t, "DEL", "resque:go:operating")
		for range i.Operations().Run(t.Context(), op.ID) {
		}
		op, err = i.Operations().Get(t.Context(), op.ID)
		want(t, fmt.Sprint("killed at ", nth, ": removed, and queues"), fmt.Sprint(lanes, " 0"), fmt.Sprint(op.Done, " ", server.Int(t, "SCARD", "resque:queues")), err)
	}
	if between == 0 {
		t.Error("no run was killed between two steps")
	}
}

// A queue whose jobs are all in a lane is known again when its removal is taken back.
func TestOperationsRememberAQueueOfLanes(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "SADD", "resque:queues", "mail")
	laned(t, server, resque.NewLane("mail", resque.Limit{Kind: resque.LimitRunning, Name: "A/key", Keyed: true, Key: "x"}), `{"class":"A","args":[1],"id":"laned"}`)
	op := run(t, i, inspect.Plan{Verb: inspect.ForgetQueue, Query: inspect.Query{Queue: "mail"}})
	want(t, "removed", "1 0", fmt.Sprint(op.Done, server.Int(t, "SCARD", "resque:queues")), nil)
	undo(t, i, op.ID)
	want(t, "the queue is known", 1, server.Int(t, "SISMEMBER", "resque:queues", "mail"), nil)
}

// A job that expires does so as long after the time to which it is delayed as it would have, and comes back from there.
func TestOperationsDelayWhatExpires(t *testing.T) {
	i, server, _ := setup(t)
	const hour = int64(3_600_000)
	now := time.Now().UnixMilli()
	job := func(id string, expires int64) string {
		return fmt.Sprintf(`{"class":"A","args":[],"id":"%s","expires_at":%d}`, id, expires)
	}
	server.Do(t, "RPUSH", "resque:queue:mail", job("waits", now+600_000))
	server.Do(t, "ZADD", "resque:go:schedule", now+hour, "4:mail"+job("later", now+hour+600_000))
	op := run(t, i, inspect.Plan{Verb: inspect.Delay, Query: inspect.Query{Queue: "mail"}, At: time.UnixMilli(now + 2*hour)})
	want(t, "delayed", int64(2), op.Done, nil)
	for _, id := range []string{"waits", "later"} {
		expires := server.Int(t, "EVAL", `for _, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do if m:find('"' .. ARGV[1] .. '"', 1, true) then return tonumber(m:match('expires_at":(%d+)')) end end return 0`, 1, "resque:go:schedule", id)
		if left := int64(expires) - now - 2*hour; left < 300_000 || left > 600_000 {
			t.Errorf("%s expires %d ms after it is due", id, left)
		}
	}
	op = undo(t, i, op.ID)
	want(t, "taken back", "2 0", fmt.Sprint(op.Back, " ", op.Gone), nil)
	want(t, "the delayed job", now+hour, int64(server.Int(t, "ZSCORE", "resque:go:schedule", "4:mail"+job("later", now+hour+600_000))), nil)
	want(t, "the waiting job", []string{job("waits", now+600_000)}, queue(t, server, "mail"), nil)
}

// A waiting unique job that was delayed and taken back expires when it would have, and its lock knows it.
func TestOperationsTakeExpiryBack(t *testing.T) {
	i, server, _ := setup(t)
	raw := fmt.Sprintf(`{"class":"A","args":[],"id":"u","unique":"done:lock","expires_at":%d}`, time.Now().Add(time.Hour).UnixMilli())
	server.Do(t, "RPUSH", "resque:queue:mail", raw)
	server.Do(t, "SADD", "resque:queues", "mail")
	server.Do(t, "HSET", "resque:go:unique:lock", "u", "0 0 q4:mail"+raw)
	before := without(server.Dump(t, ""))
	op := run(t, i, inspect.Plan{Verb: inspect.Delay, Query: inspect.Query{Queue: "mail"}, At: time.Now().Add(48 * time.Hour)})
	want(t, "delayed", "1 1", fmt.Sprint(op.Done, server.Int(t, "ZCARD", "resque:go:schedule")), nil)
	op = undo(t, i, op.ID)
	want(t, "taken back", "1 0", fmt.Sprint(op.Back, " ", op.Gone), nil)
	sameJobs(t, "taken back", before, without(server.Dump(t, "")))
}

// The document of a job says where it is when an operation has taken it back.
func TestOperationsTakeDocumentsBack(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[],"id":"r","result":60000}`)
	server.Do(t, "HSET", "resque:go:result:r", "state", "pending", "queue", "mail", "ttl", 60000)
	for _, p := range []inspect.Plan{{Verb: inspect.MoveTo, Queue: "other"}, {Verb: inspect.Delay, At: time.Now().Add(time.Hour)}} {
		before := server.Dump(t, "resque:go:result:")
		p.Query = inspect.Query{Queue: "mail"}
		op := run(t, i, p)
		if same(before, server.Dump(t, "resque:go:result:")) {
			t.Errorf("%s has not changed the document", p.Verb)
		}
		undo(t, i, op.ID)
		want(t, string(p.Verb)+": the queue", "mail", server.Text(t, "HGET", "resque:go:result:r", "queue"), nil)
		want(t, string(p.Verb)+": due", 0, server.Int(t, "HEXISTS", "resque:go:result:r", "due"), nil)
	}
}

// What is wrong with a plan.
func TestMistakesOfPlans(t *testing.T) {
	i, _, _ := setup(t)
	search := func(text string) inspect.Query {
		q, err := inspect.ParseQuery(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	for says, p := range map[string]inspect.Plan{
		`operation "" is not known`:                               {},
		"a condition about what the jobs are":                     {Verb: inspect.Drop},
		"would end the jobs of all queues; name a queue":          {Verb: inspect.Revoke, Query: search("for:>5m")},
		"or state:running and for:>5m for those that hang":        {Verb: inspect.Revoke, Query: search("state:running")},
		`"cancel" would end`:                                      {Verb: inspect.Revoke, Query: search("state:running -until:5m")},
		`"remove" would change the jobs of all queues`:            {Verb: inspect.Drop, Query: inspect.Query{Where: []inspect.Condition{{Name: "state", Value: "queued"}}}},
		`"delay" would change the jobs of all queues`:             {Verb: inspect.Delay, At: time.Unix(1, 0), Query: inspect.Query{Where: []inspect.Condition{{Name: "class", Value: "A", Not: true}}}},
		"needs the queue to which the jobs go; set Queue":         {Verb: inspect.MoveTo, Query: inspect.Query{Class: "A"}},
		"needs a time; set At":                                    {Verb: inspect.Delay, Query: inspect.Query{Class: "A"}},
		"which is no end of a queue; use Head or Tail":            {Verb: inspect.Run, Query: inspect.Query{Class: "A"}, To: "middle"},
		"does not change jobs that are running":                   {Verb: inspect.Drop, Query: inspect.Query{Class: "A", Places: []inspect.Place{inspect.Running}}},
		"a share is from 0 to 1":                                  {Verb: inspect.Retry, Brake: inspect.Brake{Failed: 20}},
		"set the Queue of its Query and no Jobs":                  {Verb: inspect.ClearQueue},
		"only a job that was found can be changed":                {Verb: inspect.Drop, Jobs: make([]inspect.Entry, 1)},
		"takes at most 250, not 251":                              {Verb: inspect.Drop, Jobs: make([]inspect.Entry, 251)},
		"clearing queue mial: nothing knows a queue of this name": {Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "mial"}},
	} {
		_, err := i.Operations().Start(t.Context(), p)
		if plan := new(inspect.PlanError); p.Query.Queue == "" && len(p.Jobs) != 1 && !errors.As(err, &plan) {
			t.Errorf("%v is no PlanError", err)
		}
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "goworker: ") {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	all, err := i.Operations().List(t.Context())
	want(t, "operations", 0, len(all), err)
}

// Over shards an operation is one, though each shard has its own record: it adds what they did, and is taken back on all.
func TestOperationsOverShards(t *testing.T) {
	i, servers := sharded(t)
	for n, server := range servers {
		failures(t, server, 100*n)
	}
	op := run(t, i, inspect.Plan{Verb: inspect.Retry})
	want(t, "done", "done 300", fmt.Sprint(op.State, " ", op.Done), nil)
	want(t, "on the last", 200, len(queue(t, servers[2], "mail")), nil)
	op = undo(t, i, op.ID)
	want(t, "undone", "undone 300", fmt.Sprint(op.State, " ", op.Back), nil)
	op = run(t, i, inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Places: []inspect.Place{inspect.Failed}}})
	bin, err := i.Operations().Bin(t.Context(), op.ID)
	want(t, "bin", "2 redis://shard1 failure list failed 100", fmt.Sprint(len(bin), " ", bin[0].Shard, " ", bin[0].Place, " ", bin[0].Jobs), err)
	retry, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Retry, Brake: inspect.Brake{Waiting: 150}})
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range servers {
		failures(t, server, 200)
	}
	retry = drive(t, i.Operations().Run(t.Context(), retry.ID))
	want(t, "the brake of the first", "stopped 200", fmt.Sprint(retry.State, " ", retry.Done), nil)
	servers[0].Stop()
	for _, err := range i.Operations().Undo(t.Context(), op.ID) {
		if err == nil || !strings.Contains(err.Error(), "shard redis://shard0") {
			t.Errorf("one is away: %v", err)
		}
	}
}

// Failures that are equal in all that is known of them are each removed.
func TestOperationsOnEqualFailures(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "EVAL", `for n = 1, 1100 do redis.call('RPUSH', 'resque:failed', '{"failed_at":"2026/11/22 10:00:00 UTC","payload":{"class":"' .. (n % 11 == 5 and 'B' or 'A') .. '","args":[' .. n % 3 .. ']},"exception":"E","error":"e","backtrace":null,"worker":"w:1:mail","queue":"mail"}') end`, 0)
	op := run(t, i, inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Class: "A", Places: []inspect.Place{inspect.Failed}}})
	want(t, "removed", int64(1000), op.Done, nil)
	want(t, "left", 100, server.Int(t, "LLEN", "resque:failed"), nil)
}
