package rolling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/metrics"
	"github.com/goworker/goworker/test/operate/rolling/systemd"
)

// processes is how many of the unit's instances there are, each with so many workers, as its ExecStart says.
const (
	processes = 3
	workers   = 25
)

var queues = []string{"critical", "mail", "low"}

// fleet is the instances of the unit on a machine of their own: a folder.
type fleet struct {
	t        *testing.T
	redis    *redistest.Server
	client   *goworker.Client
	root     string // where the machine's files begin
	unit     string // the file of deploy/
	services [processes]*systemd.Service
	journal  journal

	mu    sync.Mutex
	given []string // the ids of all jobs
}

// journal is what the programs write.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// newFleet installs the program, the unit, a drop-in for each instance, the credential and the configuration file, and starts all instances.
func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, redis: redistest.Start(t), root: t.TempDir(), unit: "../../../deploy/systemd/worker@.service"}
	var err error
	if f.client, err = goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.client.Close)
	f.write("etc/worker/redis-url", f.redis.URI()+"\n", 0o600)
	f.configure("first", false)
	f.build("one")
	f.build("two")
	f.install("one")
	for n := range processes {
		f.write(f.dropIn(n), fmt.Sprintf("[Service]\nEnvironment=INSTANCE=%%i LISTEN=%s \"GOWORKER_CONFIG=%s\"\n",
			f.listen(n), filepath.Join(f.root, "etc/worker/worker.yaml")), 0o644)
		unit, err := systemd.Read(f.unit, "../../../deploy/systemd/config.conf", filepath.Join(f.root, f.dropIn(n)))
		if err != nil {
			t.Fatal(err)
		}
		if f.services[n], err = systemd.New(unit, strconv.Itoa(n), f.root, &f.journal); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.services[n].Close)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for n, s := range f.services {
				t.Logf("worker@%d: %q", n, s.Happened())
			}
			t.Logf("the journal:\n%s", f.journal.String())
		}
	})
	f.start(0, 1, 2)
	return f
}

func (f *fleet) start(instances ...int) {
	f.t.Helper()
	for _, n := range instances {
		if err := f.services[n].Start(); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fleet) dropIn(n int) string {
	return fmt.Sprintf("etc/systemd/system/worker@%d.service.d/local.conf", n)
}

func (f *fleet) listen(n int) string { return filepath.Join(f.root, strconv.Itoa(n)) }

func (f *fleet) write(name, text string, mode os.FileMode) {
	f.t.Helper()
	path := filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), mode); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		f.t.Fatal(err)
	}
}

// configure writes the configuration file of all instances. Those that run do not read it.
func (f *fleet) configure(mark string, fail bool) {
	f.t.Helper()
	f.write("etc/worker/worker.yaml", fmt.Sprintf("app-version: %s\nbook:\n  mark: %s\n  fail: %t\n", mark, mark, fail), 0o644)
}

// reconfigure writes the file, and has all processes read it.
func (f *fleet) reconfigure(mark string, fail bool) {
	f.t.Helper()
	f.configure(mark, fail)
	for _, s := range f.services {
		s.Signal(syscall.SIGHUP)
	}
}

// build builds a version of the program.
func (f *fleet) build(version string) {
	f.t.Helper()
	out, err := exec.Command("go", "build", "-ldflags=-X main.version="+version, "-o", filepath.Join(f.root, "built", version), "./worker").CombinedOutput()
	if err != nil {
		f.t.Fatalf("%v\n%s", err, out)
	}
}

// install puts a version of the program into the place of the one that is there, which goes on to run.
func (f *fleet) install(version string) {
	f.t.Helper()
	place := filepath.Join(f.root, "usr/local/bin/worker")
	if err := errors.Join(os.MkdirAll(filepath.Dir(place), 0o755), os.Rename(filepath.Join(f.root, "built", version), place)); err != nil {
		f.t.Fatal(err)
	}
}

// enqueue gives the fleet so many jobs, over all of its queues. One of eight takes up to a second.
func (f *fleet) enqueue(ctx context.Context, count int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	items := make([]goworker.Item, count)
	for i := range items {
		id := strconv.Itoa(len(f.given))
		job := goworker.NewJob(queues[len(f.given)%len(queues)], "Note", id)
		if len(f.given)%8 == 0 {
			job = goworker.NewJob(job.Queue, "Long", id, 300+len(f.given)%600)
		}
		items[i] = goworker.Item{Job: job}
		f.given = append(f.given, id)
	}
	_, err := f.client.EnqueueMany(ctx, items...)
	return err
}

// load enqueues 300 jobs a second until end is called.
func (f *fleet) load() (end func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-ticker.C:
				if err := f.enqueue(context.WithoutCancel(ctx), 6); err != nil {
					ended <- err
					return
				}
			}
		}
	}()
	return func() {
		f.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			f.t.Errorf("a job could not be enqueued: %v", err)
		}
	}
}

// roll restarts one instance after the other, each when the one before it is ready, and in the midst of long jobs.
func (f *fleet) roll() {
	f.t.Helper()
	for _, s := range f.services {
		redistest.Eventually(f.t, 10*time.Second, "a process has long jobs", func() bool {
			n, _ := strconv.Atoi(f.redis.Text(f.t, "HGET", "long", s.PID()))
			return n > 0
		})
		if err := s.Restart(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// all returns what is in the book: the ids that ran, each with the version and the mark that it ran under.
func (f *fleet) all() (ids []string, by map[string]string) {
	by = make(map[string]string)
	for _, line := range f.redis.List(f.t, "LRANGE", "book", 0, -1) {
		id, who, _ := strings.Cut(line, " ")
		ids = append(ids, id)
		by[id] = who
	}
	return ids, by
}

// done waits until all jobs have run.
func (f *fleet) done() {
	f.t.Helper()
	redistest.Eventually(f.t, 30*time.Second, "all jobs have run", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.redis.Int(f.t, "LLEN", "book") >= len(f.given)
	})
}

// targets are what a Prometheus scrapes, by the label instance: the processes, and an exporter of the fleet.
func (f *fleet) targets() map[string]http.Handler {
	all := map[string]http.Handler{"exporter": metrics.Exporter(f.client)}
	for n := range processes {
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", f.listen(n))
		}}}
		all[strconv.Itoa(n)] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, err := client.Get("http://worker/metrics")
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			defer answer.Body.Close()
			w.WriteHeader(answer.StatusCode)
			var body bytes.Buffer
			_, _ = body.ReadFrom(answer.Body)
			_, _ = w.Write(body.Bytes())
		})
	}
	return all
}

// lost returns the processes that were found dead.
func (f *fleet) lost() (dead []string) {
	f.t.Helper()
	entries, _, err := f.client.Inspect().Log(f.t.Context(), "", 1000)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Kind == inspect.LogLost {
			dead = append(dead, e.Process)
		}
	}
	return dead
}

// registered returns the pids of the workers that Ruby's tools show.
func (f *fleet) registered() (pids []int) {
	for _, id := range f.redis.List(f.t, "SMEMBERS", "resque:workers") {
		pid, err := strconv.Atoi(strings.Split(strings.Split(id, ":")[1], "-")[0]) // host:pid-number:queues
		if err != nil {
			f.t.Errorf("worker %s: %v", id, err)
		}
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

func (f *fleet) pids() (pids []int) {
	for _, s := range f.services {
		pids = append(pids, s.PID())
	}
	return pids
}
