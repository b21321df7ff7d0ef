package part

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// drainage is a poller that ends as a test says, and writes down what the stop does.
type drainage struct {
	mu    sync.Mutex
	began time.Time
	log   []string

	jobs atomic.Int64
	quit chan struct{}
	end  chan struct{}
	once sync.Once
}

func (d *drainage) say(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, fmt.Sprintf("%s %s", time.Since(d.began).Round(100*time.Millisecond), what))
}

func (d *drainage) ended() { d.once.Do(func() { close(d.end) }) }

func newDrainage(jobs int) *drainage {
	d := &drainage{began: time.Now(), quit: make(chan struct{}), end: make(chan struct{})}
	d.jobs.Store(int64(jobs))
	return d
}

// after lets something happen some time after the start.
func (d *drainage) after(s time.Duration, f func()) { clock.System.AfterFunc(s, f) }

func (d *drainage) drained(deaf bool) Drained {
	return Drained{
		Close: func() { d.say("close") }, Quit: d.quit, Ended: d.end,
		Running: func() int { return int(d.jobs.Load()) },
		Wait:    func() { d.say("wait for outcomes") },
		Cancel:  func(n int) { d.say(fmt.Sprintf("cancel %d", n)) },
		Abandon: func() { d.say("abandon") },
		Halt: func() {
			d.say("halt")
			if !deaf {
				d.ended()
			}
		},
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		timeout time.Duration
		jobs    int
		deaf    bool // the poller itself
		set     func(d *drainage, b *Budget)
		want    string
		left    bool
	}{
		"jobs end in time": {byDefault, 2, false, func(d *drainage, b *Budget) {
			d.after(5*time.Second, d.ended)
		}, "0s close; 5s over", false},
		"jobs end when cancelled": {byDefault, 2, false, func(d *drainage, b *Budget) {
			d.after(18*time.Second, d.ended)
		}, "0s close; 17s cancel 2; 18s over", false},
		"a deaf job that Redis takes back": {byDefault, 1, false, func(d *drainage, b *Budget) {
			d.after(19500*time.Millisecond, d.ended)
		}, "0s close; 17s cancel 1; 19s abandon; 19.5s over", false},
		"a deaf job, and a silent Redis": {byDefault, 1, false, func(d *drainage, b *Budget) {},
			"0s close; 17s cancel 1; 19s abandon; 21s halt; 21s over", false},
		"a poller that hangs": {byDefault, 1, true, func(d *drainage, b *Budget) {},
			"0s close; 17s cancel 1; 19s abandon; 21s halt; 21.2s over", true},
		"only an outcome is left": {byDefault, 1, false, func(d *drainage, b *Budget) {
			d.after(2950*time.Millisecond, func() { d.jobs.Store(0) })
		}, "0s close; 4s wait for outcomes; 17s cancel 0; 19s abandon; 21s halt; 21s over", false},
		"a second signal": {byDefault, 1, false, func(d *drainage, b *Budget) {
			d.after(3*time.Second, b.Cut)
		}, "0s close; 3s cancel 1; 5s abandon; 7s halt; 7s over", false},
		"a second signal before the stop": {byDefault, 1, false, func(d *drainage, b *Budget) {
			b.Cut()
		}, "0s close; 0s cancel 1; 2s abandon; 4s halt; 4s over", false},
		"no limit": {0, 1, false, func(d *drainage, b *Budget) {
			close(d.quit)
			d.after(time.Hour, func() { d.jobs.Store(0) })
			d.after(time.Hour+100*time.Millisecond, d.ended)
		}, "0s close; 1h0m0.1s over", false},
		"no limit, and only an outcome is left": {0, 1, false, func(d *drainage, b *Budget) {
			close(d.quit)
			d.after(time.Hour-50*time.Millisecond, func() { d.jobs.Store(0) })
		}, "0s close; 1h0m1s wait for outcomes; 1h0m1s cancel 0; 1h0m3s abandon; 1h0m5s halt; 1h0m5s over", false},
		"no limit, while a part above stops": {0, 0, false, func(d *drainage, b *Budget) {
			d.after(10*time.Second, func() { close(d.quit); d.ended() })
		}, "0s close; 1s wait for outcomes; 10s over", false},
		"no limit, and a second signal": {0, 1, false, func(d *drainage, b *Budget) {
			d.after(time.Minute, b.Cut)
		}, "0s close; 1m0s cancel 1; 1m2s abandon; 1m4s halt; 1m4s over", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewBudget(clock.System, tc.timeout, byDefault, OfDaemon, nil)
				d := newDrainage(tc.jobs)
				b.Begin()
				tc.set(d, b)
				ended := b.Drain(d.drained(tc.deaf))
				d.say("over")
				if got := strings.Join(d.log, "; "); got != tc.want || ended == tc.left {
					t.Errorf("%s (ended %v), want %s", got, ended, tc.want)
				}
				if took := time.Since(d.began); tc.timeout > 0 && took > tc.timeout+OfDaemon[Jobs] {
					t.Errorf("the poller has %v, and took %v", tc.timeout+OfDaemon[Jobs], took)
				}
			})
		})
	}
}
