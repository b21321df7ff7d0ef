package crash

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/usage"
)

const (
	// swiftVar makes the program look at its memory again and again, in place of each ten seconds.
	swiftVar = "GOWORKER_CRASH_SWIFT"

	// shardVar is the URI of a second Redis for the program.
	shardVar = "GOWORKER_CRASH_SHARD"
)

// swift is a clock that does not wait between two looks at the memory.
type swift struct{ clock.Clock }

func (s swift) NewTimer(d time.Duration) clock.Timer { return swiftTimer{s.Clock.NewTimer(d)} }

type swiftTimer struct{ clock.Timer }

func (t swiftTimer) Reset(d time.Duration) bool {
	if d == usage.Every {
		d = 20 * time.Millisecond
	}
	return t.Timer.Reset(d)
}

// fat is the handler of Fat.
func fat(note func(event, id, detail string), wait func(<-chan struct{}) bool) func(id string) {
	return func(id string) {
		note("start", id, "")
		memory := make([]byte, 160<<20)
		for n := 0; n < len(memory); n += 4096 {
			memory[n] = 1
		}
		wait(nil)
		note("end", id, fmt.Sprint(memory[0]))
	}
}

// workShards works on two Redises.
func workShards(note func(event, id, detail string), wait func(<-chan struct{}) bool) error {
	first := ""
	for _, arg := range os.Args {
		if uri, is := strings.CutPrefix(arg, "-uri="); is {
			first = uri
		}
	}
	s := goworker.NewShards(goworker.WorkerSettings{Concurrency: 3, MaxRSS: 120 << 20},
		goworker.Shard{URI: first, Queues: []string{"work"}}, goworker.Shard{URI: os.Getenv(shardVar), Queues: []string{"other"}})
	s.Register("Fat", fat(note, wait))
	return s.Work()
}

// A process whose memory stays above -max-rss takes no more jobs, ends those that it has, and ends with status 0. Log and go:log say why.
// Before, its memory is below: it works.
func TestMaxRSS(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.startWith([]string{swiftVar + "=1"}, "-concurrency=3", "-max-rss=120MiB")
	f.push(job("Hold", "a"), job("Hold", "b"))
	f.eventually(soon, "two run", func() bool { p.mustRun(); return len(f.events("start")) == 2 })
	f.renewed(1, p)
	if strings.Contains(p.output(), "stopping") {
		t.Error("it stops although its memory is below")
	}
	f.push(job("Fat", "c"))
	f.eventually(soon, "it stops", func() bool { return strings.Contains(p.output(), "stopping: taking no more jobs") })
	id := p.id()
	f.push(job("Hold", "d"))
	f.renewed(1, p)
	p.mustRun()
	f.open()
	if status := p.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	ended := ids(f.events("end"))
	slices.Sort(ended)
	if !slices.Equal(ended, []string{"a", "b", "c"}) || f.stat("processed") != 3 || f.stat("failed") != 0 || !slices.Equal(f.queue(), []string{job("Hold", "d")}) {
		t.Errorf("ended: %q, %d processed, the queue holds %q", ended, f.stat("processed"), f.queue())
	}
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
	if n := strings.Count(p.output(), "the memory of this process stays above MaxRSS, stopping"); n != 1 {
		t.Errorf("the log says why %d times", n)
	}
	f.saidWhy(f.redis, id)
}

// saidWhy wants the log of a fleet to say that a process was above its MaxRSS, before it says that the process left.
func (f *fleet) saidWhy(s *redistest.Server, process string) {
	f.t.Helper()
	log := fmt.Sprintf("%s", s.Do(f.t, "XRANGE", "resque:go:log", "-", "+"))
	why, left := strings.Index(log, "max-rss process "+process+" text"), strings.Index(log, "offline process "+process)
	if why < 0 || left < why || !strings.Contains(log, "of memory, and MaxRSS is 120.0 MiB") {
		f.t.Errorf("go:log of %s is %s", process, log)
	}
}

// With shards, the memory is looked at once for the process. It ends all shards, and each Redis has a line that says why.
func TestMaxRSSOfShards(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	other := redistest.Start(t)
	p := f.startWith([]string{swiftVar + "=1", shardVar + "=" + other.URI()})
	elsewhere := ""
	f.eventually(soon, "both shards work", func() bool {
		p.mustRun()
		if all := other.List(t, "ZRANGE", "resque:go:processes", 0, -1); len(all) == 1 {
			elsewhere = all[0]
		}
		return elsewhere != "" && strings.Count(p.output(), "msg=started") == 2
	})
	id := p.id()
	f.push(job("Fat", "a"))
	f.eventually(soon, "it stops", func() bool { return strings.Count(p.output(), "stopping: taking no more jobs") == 2 })
	f.open()
	if status := p.wait(); status != 0 || f.stat("processed") != 1 || len(f.queue()) > 0 {
		t.Errorf("exit status %d, %d processed, the queue holds %q", status, f.stat("processed"), f.queue())
	}
	if n := strings.Count(p.output(), "the memory of this process stays above MaxRSS, stopping"); n != 1 {
		t.Errorf("the log says why %d times", n)
	}
	f.saidWhy(f.redis, id)
	f.saidWhy(other, elsewhere)
}
