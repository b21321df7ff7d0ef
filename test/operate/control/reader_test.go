package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/internal/redistest"
)

// read is a program that listens to all events, and prints a line at the first one.
func read(uri string) int {
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: uri, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 1
	}
	first := true
	for _, err := range events.Watch(context.Background(), client, events.Filter{All: true}) {
		if first && err == nil {
			fmt.Println("it reads")
			first = false
		}
	}
	return 1
}

// One reader stands still in the midst of what it reads and is killed, another one rests in the body of its loop, while sixteen processes do more
// jobs than Redis keeps events of. No job waits for either. What Redis keeps has a bound. The one that comes back learns of both streams
// what it has missed, and goes on.
func TestReaderAway(t *testing.T) {
	t.Parallel()
	const processes, atOnce = 16, 2000
	server := redistest.Start(t)
	f := &fleet{T: t, redis: server, done: make(map[string]int)}
	var daemons []*goworker.Daemon
	for range processes {
		d := goworker.New(goworker.WorkerSettings{
			URI: server.URI(), QueuesString: "work", Concurrency: 2, DisableSignals: true, Logger: slog.New(slog.DiscardHandler),
		})
		d.Register("Fine", func() {})
		d.Register("Fails", func() error { return goworker.Discard(errors.New("a reader is away")) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			d.Close()
		})
		daemons = append(daemons, d)
	}
	for _, d := range daemons {
		redistest.Eventually(t, soon, "it is ready", func() bool { return d.Health().Ready })
	}
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	pushed := 0
	push := func(n int) {
		t.Helper()
		items := make([]goworker.Item, n)
		for i := range items {
			items[i].Job = goworker.NewJob("work", []string{"Fine", "Fails"}[i%2])
		}
		if _, err := client.EnqueueMany(t.Context(), items...); err != nil {
			t.Fatal(err)
		}
		pushed += n
	}
	allRan := func() {
		t.Helper()
		redistest.Eventually(t, soon, "all jobs have run", func() bool { return server.Int(t, "GET", "resque:stat:processed") == pushed })
	}

	killed := exec.Command(os.Args[0])
	killed.Env, killed.Stderr = append(os.Environ(), readerOf+"="+server.URI()), os.Stderr
	lines, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = killed.Process.Kill()
		_ = killed.Wait()
	})
	reads := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(lines).ReadString('\n')
		reads <- line
	}()
	s := &reader{seen: make(map[string]bool), missed: make(map[string]int64), back: make(chan struct{}), rests: processes}
	s.watch(f, client)
	redistest.Eventually(t, soon, "both read, and the second has seen an event of each process", func() bool {
		push(atOnce / 10)
		time.Sleep(50 * time.Millisecond)
		return len(reads) > 0 && s.rested()
	})
	if line := <-reads; line != "it reads\n" {
		t.Fatalf("the reader says %q", line)
	}
	if err := killed.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	began := packsOf(t, server)
	ends := pushed
	redistest.Eventually(t, soon, "there is more than Redis keeps", func() bool {
		push(atOnce)
		allRan()
		return pushed-ends > 2*11_000 && sum(packsOf(t, server))-sum(began) > 700
	})
	size := 0
	for key, most := range map[string]int{"resque:go:events": 10_200, "resque:go:events-all": 400} {
		if n := server.Int(t, "XLEN", key); n > most || n < most/2 {
			t.Errorf("%s has %d entries", key, n)
		}
		size += server.Int(t, "MEMORY", "USAGE", key, "SAMPLES", 0)
	}
	for _, m := range regexp.MustCompile(` tot-mem=(\d+)`).FindAllStringSubmatch(server.Text(t, "CLIENT", "LIST"), -1) {
		n, _ := strconv.Atoi(m[1])
		size += n
	}
	if size > 64<<20 {
		t.Errorf("events and clients take %d bytes of Redis", size)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	push(atOnce)
	allRan()

	close(s.back)
	redistest.Eventually(t, soon, "the other learns that bad ends and packs are missing", func() bool {
		ends, packs := s.lost()
		return ends && packs > 0
	})
	redistest.Eventually(t, soon, "it goes on", func() bool {
		if _, err := client.Enqueue(t.Context(), goworker.NewJob("work", "Fails"), goworker.WithID("after")); err != nil {
			t.Fatal(err)
		}
		pushed++
		time.Sleep(50 * time.Millisecond)
		return s.has("after")
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for process, n := range packsOf(t, server) {
		if s.missed[process] > n {
			t.Errorf("it has missed %d packs of %s, which has sent %d", s.missed[process], process, n)
		}
	}
}

// reader is a listener that rests when it has seen events of so many processes, until back is closed.
type reader struct {
	rests int
	back  chan struct{}

	mu      sync.Mutex
	resting bool
	seen    map[string]bool  // processes, and ids of jobs
	missed  map[string]int64 // packs by process
	ends    bool             // it has missed what nobody can count
}

func (r *reader) watch(f *fleet, client *goworker.Client) {
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e, err := range events.Watch(ctx, client, events.Filter{All: true}) {
			if err != nil {
				f.Error(err)
				continue
			}
			if r.note(e) {
				select {
				case <-r.back:
				case <-ctx.Done():
				}
			}
		}
	}()
	f.Cleanup(func() {
		cancel()
		<-ended
	})
}

// note notes an event, and reports whether the reader rests now.
func (r *reader) note(e events.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Kind != events.Missed:
		r.seen[e.ID] = true
		if e.Kind == events.Started && !r.seen[e.Process] {
			r.seen[e.Process] = true
			r.rests--
		}
	case e.Process != "":
		r.missed[e.Process] += e.Count
	default:
		r.ends = true
	}
	rest := r.rests == 0 && !r.resting
	r.resting = r.resting || rest
	return rest
}

func (r *reader) rested() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resting
}

func (r *reader) lost() (ends bool, packs int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends, sum(r.missed)
}

func (r *reader) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[id]
}

// packsOf is how many packs processes have sent, of those that sent one lately.
func packsOf(t *testing.T, server *redistest.Server) map[string]int64 {
	t.Helper()
	rows, err := redis.Values(server.Do(t, "XREVRANGE", "resque:go:events-all", "+", "-", "COUNT", 200), nil)
	if err != nil {
		t.Fatal(err)
	}
	packs := make(map[string]int64)
	for _, row := range rows {
		row, _ := redis.Values(row, nil)
		fields, err := redis.StringMap(row[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.ParseInt(fields["n"], 10, 64)
		packs[fields["p"]] = max(packs[fields["p"]], n)
	}
	delete(packs, "") // a mark of a listener
	return packs
}

func sum(of map[string]int64) (n int64) {
	for _, v := range of {
		n += v
	}
	return n
}
