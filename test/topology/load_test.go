package topology

import (
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

const namespace = "{resque}:"

// load pushes jobs without a pause and works them off, and keeps the books.
type load struct {
	t       *testing.T
	pushers sync.WaitGroup
	quit    chan struct{}

	mu     sync.Mutex
	began  map[string]time.Time // when each push began
	pushed map[string]bool      // acknowledged
	unsure map[string]string    // the push returned an error, and which
	runs   map[string]int
	first  map[string]time.Time // when each ran first
}

// startLoad runs two daemons with four workers each, and four pushers on a third
// daemon, each of which pushes a job every few milliseconds and waits for so many
// replicas to have it.
func startLoad(t *testing.T, settings goworker.WorkerSettings, replicas int) *load {
	t.Helper()
	l := &load{t: t, quit: make(chan struct{}), began: map[string]time.Time{}, pushed: map[string]bool{}, unsure: map[string]string{},
		runs: map[string]int{}, first: map[string]time.Time{}}
	settings.Namespace, settings.QueuesString, settings.Concurrency = namespace, "work", 4
	settings.Logger = slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		settings.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	for range 2 {
		d := newDaemon(t, settings)
		d.Register("Mark", l.ran)
		start(t, d)
	}
	settings.WaitReplicas, settings.Connections = replicas, 4
	producer := newDaemon(t, settings)
	for n := range 4 {
		l.pushers.Go(func() { l.push(producer, n) })
	}
	t.Cleanup(l.stop)
	eventually(t, "the load runs", func() bool { return l.count() >= 300 })
	return l
}

func (l *load) push(d *goworker.Daemon, n int) {
	for i := 0; ; i++ {
		select {
		case <-l.quit:
			return
		case <-time.After(4 * time.Millisecond):
		}
		id := fmt.Sprintf("%d-%d", n, i)
		began := time.Now()
		err := d.Enqueue(job("Mark", id))
		l.mu.Lock()
		l.began[id] = began
		if err == nil {
			l.pushed[id] = true
		} else {
			l.unsure[id] = err.Error()
		}
		l.mu.Unlock()
	}
}

func (l *load) ran(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[id]++
	if _, before := l.first[id]; !before {
		l.first[id] = time.Now()
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

// stop ends the pushing.
func (l *load) stop() {
	select {
	case <-l.quit:
	default:
		close(l.quit)
	}
	l.pushers.Wait()
}

// resumes waits until a job whose push began after the given instant has run, and
// returns how long after it that was.
func (l *load) resumes(since time.Time) time.Duration {
	l.t.Helper()
	var after time.Duration
	eventually(l.t, "a job pushed afterwards runs", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for id, at := range l.began {
			if ran, ok := l.first[id]; ok && at.After(since) && (after == 0 || ran.Sub(since) < after) {
				after = ran.Sub(since)
			}
		}
		return after > 0
	})
	return after
}

var idPattern = regexp.MustCompile(`"args":\["([0-9-]+)"\]`)

// holds returns the ids of the jobs that are anywhere on a server.
func holds(t *testing.T, s *redistest.Server) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	for key, value := range s.Dump(t, namespace) {
		if !strings.Contains(key, "queue:") && !strings.Contains(key, "go:inflight:") && key != namespace+"failed" {
			continue
		}
		for _, match := range idPattern.FindAllStringSubmatch(fmt.Sprint(value), -1) {
			ids[match[1]] = true
		}
	}
	return ids
}

// settle stops the pushing and waits until the master holds no job any more.
func (l *load) settle(master func() *redistest.Server) {
	l.t.Helper()
	l.stop()
	eventually(l.t, "all that the master holds is done", func() bool { return len(holds(l.t, master())) == 0 })
}

// lost returns the acknowledged jobs that never ran. The load has settled.
func (l *load) lost() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost []string
	for id := range l.pushed {
		if l.runs[id] == 0 {
			lost = append(lost, id)
		}
	}
	slices.Sort(lost)
	return lost
}

// report prints what happened.
func (l *load) report(what string, resumed time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	twice := 0
	for _, n := range l.runs {
		if n > 1 {
			twice++
		}
	}
	unsureRan := 0
	reasons := map[string]int{}
	for id, err := range l.unsure {
		if l.runs[id] > 0 {
			unsureRan++
		}
		reasons[clean.ReplaceAllString(err, "…")]++
	}
	lost := 0
	for id := range l.pushed {
		if l.runs[id] == 0 {
			lost++
		}
	}
	l.t.Logf("%s: acknowledged=%d redis-lost=%d twice=%d unsure=%d (ran %d) resumed after %v", what,
		len(l.pushed), lost, twice, len(l.unsure), unsureRan, resumed.Round(time.Millisecond))
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		l.t.Logf("  %d × %s", reasons[reason], reason)
	}
}

var clean = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+:\d+(->\S+)?`)

// wantNothingLost checks that every acknowledged job ran.
func (l *load) wantNothingLost() {
	l.t.Helper()
	if lost := l.lost(); len(lost) > 0 {
		l.t.Errorf("%d acknowledged jobs never ran: %q", len(lost), lost[:min(10, len(lost))])
	}
}

// wantLostBefore checks that what Redis lost was pushed before our connections led to
// the new master.
func (l *load) wantLostBefore(moved time.Time) {
	l.t.Helper()
	for _, id := range l.lost() {
		if l.began[id].After(moved) {
			l.t.Errorf("%s was pushed to the new master and did not run", id)
		}
	}
}

// wantRun checks that these jobs ran: the new master had them.
func (l *load) wantRun(received map[string]bool) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range received {
		if l.runs[id] == 0 {
			l.t.Errorf("the new master had %s, and it did not run", id)
		}
	}
}

// wantNoneTwice checks that no job ran more than once.
func (l *load) wantNoneTwice() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range l.runs {
		if n > 1 {
			l.t.Errorf("%s ran %d times", id, n)
		}
	}
}
