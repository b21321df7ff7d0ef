package jobs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

func TestEnqueueAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI()})
	defer d.Close()
	var all []*goworker.Job
	for i := range 10 {
		all = append(all, &goworker.Job{Queue: fmt.Sprint("q", i%3), Payload: goworker.Payload{Class: "J", Args: []any{i, "<é>"}}})
	}
	monitor := server.Monitor(t)
	if err := d.EnqueueAll(all...); err != nil {
		t.Fatal(err)
	}
	if err := d.EnqueueAll(); err != nil {
		t.Error(err)
	}
	if err := d.Enqueue(all[4]); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"q0": {`{"class":"J","args":[0,"<é>"]}`, `{"class":"J","args":[3,"<é>"]}`, `{"class":"J","args":[6,"<é>"]}`, `{"class":"J","args":[9,"<é>"]}`},
		"q1": {`{"class":"J","args":[1,"<é>"]}`, `{"class":"J","args":[4,"<é>"]}`, `{"class":"J","args":[7,"<é>"]}`, `{"class":"J","args":[4,"<é>"]}`},
		"q2": {`{"class":"J","args":[2,"<é>"]}`, `{"class":"J","args":[5,"<é>"]}`, `{"class":"J","args":[8,"<é>"]}`},
	}
	for queue, jobs := range want {
		if got := server.List(t, "LRANGE", "resque:queue:"+queue, 0, -1); !slices.Equal(got, jobs) {
			t.Errorf("queue %s holds %q, want %q", queue, got, jobs)
		}
	}
	// One round trip each: the first is refused because Redis has not seen the script.
	pushes := 0
	for _, c := range monitor.Commands() {
		if strings.HasPrefix(strings.ToUpper(c[0]), "EVAL") {
			pushes++
		}
	}
	if pushes != 3 {
		t.Errorf("%d scripts were sent, want 3", pushes)
	}
}

func TestEnqueueAllRefuses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI()})
	defer d.Close()
	good := &goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "J"}}
	tests := []struct {
		bad  *goworker.Job
		want []string
	}{
		{nil, []string{"needs a queue and a class"}},
		{&goworker.Job{Payload: goworker.Payload{Class: "J"}}, []string{"needs a queue and a class"}},
		{&goworker.Job{Queue: "q"}, []string{"needs a queue and a class"}},
		{&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "Odd", Args: []any{func() {}}}}, []string{"Odd", "args[0]"}},
	}
	for _, test := range tests {
		err := d.EnqueueAll(good, good, test.bad, good)
		if err == nil {
			t.Errorf("job %+v was taken", test.bad)
			continue
		}
		for _, part := range append(test.want, "job 3 of 4", "nothing was enqueued") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error %q does not say %q", err, part)
			}
		}
		if err := d.Enqueue(test.bad); err == nil || strings.Contains(err.Error(), "job 1") {
			t.Errorf("Enqueue of %+v: %v", test.bad, err)
		}
	}
	if keys := server.Keys(t); len(keys) > 0 {
		t.Errorf("keys %q", keys)
	}
}

// Batches from several goroutines at once do not mix.
func TestEnqueueAllFromMany(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI(), Connections: 3})
	defer d.Close()
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for range 20 {
				var all []*goworker.Job
				for i := range 7 {
					all = append(all, &goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "J", Args: []any{g, i}}})
				}
				if err := d.EnqueueAll(all...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	queue := server.List(t, "LRANGE", "resque:queue:q", 0, -1)
	if len(queue) != 6*20*7 {
		t.Fatalf("%d jobs", len(queue))
	}
	for i, text := range queue {
		g := queue[i-i%7][len(`{"class":"J","args":[`):][:1]
		if want := fmt.Sprintf(`{"class":"J","args":[%s,%d]}`, g, i%7); text != want {
			t.Fatalf("job %d is %s, want %s", i, text, want)
		}
	}
}

func TestEnqueueWith(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI()})
	defer d.Close()
	job := &goworker.Job{Queue: "low", Payload: goworker.Payload{Class: "Echo", Args: []any{1}}}
	given, err := d.EnqueueWith(job, goworker.WithID("mine"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := d.EnqueueWith(job)
	if err != nil {
		t.Fatal(err)
	}
	if given.ID != "mine" || len(made.ID) != 16 {
		t.Errorf("receipts %+v, %+v", given, made)
	}
	if _, err := d.EnqueueWith(job, goworker.WithID("x"), nil); err == nil || err.Error() != "goworker: enqueueing Echo: option 2 of the job is nil; leave it out; nothing was enqueued" {
		t.Errorf("a nil option: %v", err)
	}
	want := []string{`{"class":"Echo","args":[1],"id":"mine"}`, `{"class":"Echo","args":[1],"id":"` + made.ID + `"}`}
	if got := server.List(t, "LRANGE", "resque:queue:low", 0, -1); !slices.Equal(got, want) {
		t.Errorf("queue holds %q, want %q", got, want)
	}
}
