package goworker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// newClient returns a client of a Redis of its own.
func newClient(t *testing.T, opts ...goworker.ClientOption) (*goworker.Client, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, server
}

// A job without options has the bytes that Ruby writes, and no id.
func TestClientEnqueuesAsRubyDoes(t *testing.T) {
	t.Parallel()
	client, server := newClient(t)
	receipt, err := client.Enqueue(t.Context(), goworker.NewJob("mail", "SendEmail", "ada", 3))
	if err != nil || receipt != (goworker.Receipt{}) {
		t.Errorf("receipt %+v, %v", receipt, err)
	}
	if diff := cmp.Diff([]string{`{"class":"SendEmail","args":["ada",3]}`}, server.List(t, "LRANGE", "resque:queue:mail", 0, -1)); diff != "" {
		t.Error(diff)
	}
	if queues := server.List(t, "SMEMBERS", "resque:queues"); len(queues) != 1 || queues[0] != "mail" {
		t.Errorf("queues %q", queues)
	}
}

// Options of each job hold in one step, and each has its receipt.
func TestClientEnqueuesMany(t *testing.T) {
	t.Parallel()
	client, server := newClient(t)
	due := time.Now().Add(time.Hour)
	job := goworker.NewJob("mail", "SendEmail", "ada")
	items := []goworker.Item{
		{Job: job},
		{Job: job, Options: []goworker.EnqueueOption{goworker.WithID("a")}},
		{Job: job, Options: []goworker.EnqueueOption{goworker.WithID("b"), goworker.ProcessAt(due)}},
		{Job: job, Options: []goworker.EnqueueOption{goworker.WithID("c"), goworker.Unique()}},
		{Job: job, Options: []goworker.EnqueueOption{goworker.WithID("d"), goworker.Unique()}},
		{Job: job, Options: []goworker.EnqueueOption{goworker.ExpiresAt(due), goworker.WithID("e")}},
		{Job: job, Options: []goworker.EnqueueOption{goworker.ProcessAt(due), goworker.ResqueScheduler()}},
	}
	receipts, err := client.EnqueueMany(t.Context(), items...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range receipts {
		text := r.ID
		if r.Duplicate != nil {
			text += " held by " + r.Duplicate.Holder
		}
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"", "a", "b", "c", " held by c", "e", ""}, got); diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
	lock := ""
	var jobs []string
	for _, payload := range server.List(t, "LRANGE", "resque:queue:mail", 0, -1) {
		if at := strings.Index(payload, `"unique":"`); at > 0 {
			lock = payload[at : at+strings.Index(payload[at:], ",")]
			payload = strings.Replace(payload, lock, "LOCK", 1)
		}
		jobs = append(jobs, payload)
	}
	want := []string{
		`{"class":"SendEmail","args":["ada"]}`,
		`{"class":"SendEmail","args":["ada"],"id":"a"}`,
		`{"class":"SendEmail","args":["ada"],LOCK,"id":"c"}`,
		fmt.Sprintf(`{"class":"SendEmail","args":["ada"],"expires_at":%d,"id":"e"}`, due.UnixMilli()),
	}
	if diff := cmp.Diff(want, jobs); diff != "" {
		t.Errorf("the queue (-want +got):\n%s", diff)
	}
	if n := server.Int(t, "ZCARD", "resque:go:schedule"); n != 1 {
		t.Errorf("%d jobs in goworker's schedule, want 1", n)
	}
	if n := server.Int(t, "ZCARD", "resque:delayed_queue_schedule"); n != 1 {
		t.Errorf("%d times in resque-scheduler's schedule, want 1", n)
	}
}

// One bad item, or one key of the wrong type: nothing is enqueued.
func TestClientEnqueuesAllOrNone(t *testing.T) {
	t.Parallel()
	client, server := newClient(t)
	good := goworker.Item{Job: goworker.NewJob("mail", "SendEmail"), Options: []goworker.EnqueueOption{goworker.Unique()}}
	server.Do(t, "SET", "resque:queue:spoilt", "x")
	for name, item := range map[string]goworker.Item{
		"job 2 of 2: a job to be enqueued needs a queue and a class": {},
		"job 2 of 2: enqueueing C: args[0]":                          {Job: goworker.NewJob("q", "C", func() {})},
		`job 2 of 2: enqueueing C: WithID(""): the id is empty`:      {Job: goworker.NewJob("q", "C"), Options: []goworker.EnqueueOption{goworker.WithID("")}},
		"job 2 of 2: enqueueing C: option 1 of the job is nil":       {Job: goworker.NewJob("q", "C"), Options: []goworker.EnqueueOption{nil}},
		"the time is the zero time.Time":                             {Job: goworker.NewJob("q", "C"), Options: []goworker.EnqueueOption{goworker.ProcessAt(time.Time{})}},
		"ResqueScheduler: its schedule has no place for an id":       {Job: goworker.NewJob("q", "C"), Options: []goworker.EnqueueOption{goworker.ResqueScheduler(), goworker.WithID("i")}},
		"resque:queue:spoilt":                                        {Job: goworker.NewJob("spoilt", "C")},
	} {
		before := server.Dump(t, "")
		receipts, err := client.EnqueueMany(t.Context(), good, item)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.HasPrefix(err.Error(), "goworker: ") || !strings.HasSuffix(err.Error(), "; nothing was enqueued") {
			t.Errorf("%s: %v", name, err)
		}
		if len(receipts) > 0 || errors.Is(err, goworker.ErrUnconfirmed) {
			t.Errorf("%s: receipts %v, %v", name, receipts, err)
		}
		if diff := cmp.Diff(before, server.Dump(t, "")); diff != "" {
			t.Errorf("%s: keys (-before +after):\n%s", name, diff)
		}
	}
}

// A duplicate can be asked for, and names the holder.
func TestClientNamesTheHolder(t *testing.T) {
	t.Parallel()
	client, _ := newClient(t)
	job := goworker.NewJob("mail", "SendEmail", "ada")
	first, err := client.Enqueue(t.Context(), job, goworker.Unique())
	if err != nil {
		t.Fatal(err)
	}
	second, err := client.Enqueue(t.Context(), job, goworker.Unique())
	var duplicate *goworker.DuplicateError
	if !errors.Is(err, goworker.ErrDuplicate) || !errors.As(err, &duplicate) || duplicate.Holder != first.ID || second.Duplicate != duplicate || second.ID != "" {
		t.Errorf("receipt %+v, %v; want that %s holds the lock", second, err, first.ID)
	}
}

// While Redis hangs, every call ends at its own deadline, and says what it waited for and whether the
// job may be in its queue.
func TestClientEndsWithItsContext(t *testing.T) {
	t.Parallel()
	daemontest.Punctually(t, func() error { return hangs(t) })
}

func hangs(t *testing.T) error {
	server := redistest.Start(t)
	// No timeout of a connection ends a call before an hour: only its deadline does.
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI(), ConnectTimeout: time.Hour, ReadTimeout: time.Hour, WriteTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Enqueue(t.Context(), goworker.NewJob("q", "C")); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	defer server.Resume()
	slowest, err := hang(client, 20)
	if slowest > daemontest.Late {
		t.Errorf("the slowest of 20 calls was over %v after its deadline", slowest)
	}
	return err
}

// hang makes calls with deadlines of two seconds while Redis does not answer, and returns how long after its deadline
// the slowest was over, or rather after this machine has noticed the deadline. One of them has a connection, and cannot say whether its job is there.
func hang(client *goworker.Client, calls int) (slowest time.Duration, wrong error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	unconfirmed := 0
	for range calls {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			noticed := make(chan time.Time, 1)
			go func() { <-ctx.Done(); noticed <- time.Now() }()
			_, err := client.Enqueue(ctx, goworker.NewJob("q", "C"))
			over := time.Now()
			late := over.Sub(<-noticed)
			mu.Lock()
			defer mu.Unlock()
			slowest = max(slowest, late)
			says := "; nothing was enqueued"
			if errors.Is(err, goworker.ErrUnconfirmed) {
				unconfirmed++
				says = "no answer came within"
			}
			if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "goworker: ") || !strings.Contains(err.Error(), says) {
				wrong = errors.Join(wrong, fmt.Errorf("%w; want %q", err, says))
			}
		})
	}
	wg.Wait()
	if unconfirmed != 1 {
		wrong = errors.Join(wrong, fmt.Errorf("%d calls cannot say whether their job is there, want the one that had a connection", unconfirmed))
	}
	return slowest, wrong
}

// A closed client answers ErrClosed, and does not close a daemon's connections.
func TestClientCloses(t *testing.T) {
	t.Parallel()
	client, server := newClient(t)
	client.Close()
	client.Close()
	if _, err := client.Enqueue(t.Context(), goworker.NewJob("q", "C")); !errors.Is(err, goworker.ErrClosed) {
		t.Errorf("Enqueue: %v", err)
	}
	if _, err := client.EnqueueMany(t.Context()); !errors.Is(err, goworker.ErrClosed) {
		t.Errorf("EnqueueMany: %v", err)
	}
	if _, err := client.Inspect().Queues(t.Context()); !errors.Is(err, goworker.ErrClosed) {
		t.Errorf("Queues: %v", err)
	}
	d := goworker.New(goworker.WorkerSettings{URI: server.URI()})
	defer d.Close()
	d.Client().Close()
	if _, err := d.Client().Enqueue(t.Context(), goworker.NewJob("q", "C")); err != nil {
		t.Errorf("on the connections of a daemon: %v", err)
	}
}

// Mistakes in the settings are errors of NewClient.
func TestNewClientRefuses(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]func() (*goworker.Client, error){
		"the scheme": func() (*goworker.Client, error) {
			return goworker.NewClient(goworker.WorkerSettings{URI: "mysql://localhost"})
		},
		"option 1 of NewClient is nil": func() (*goworker.Client, error) {
			return goworker.NewClient(goworker.WorkerSettings{}, nil)
		},
		"a nil class": func() (*goworker.Client, error) {
			return goworker.NewClient(goworker.WorkerSettings{}, goworker.Classes(nil))
		},
	} {
		client, err := f()
		if client != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want %s", client, err, want)
		}
	}
}
