package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

const (
	leasePeriod = 8 * time.Second  // the product's; silences longer than it may cost a lease
	lookEvery   = 2 * time.Second  // the product's; how often a process looks at the others' leases
	soon        = 60 * time.Second // what is awaited happens within this or is a finding
)

// window is a span of time; the end of one that goes on is zero.
type window struct{ from, to time.Time }

// arena is the world of one fault: a Redis, the processes that work on it, those that
// push to it, and what the fault did to them. mu guards the fields below it
// while the fault lasts.
type arena struct {
	guard
	opts   options
	dir    string
	redis  *redistest.Server
	begun  time.Time
	client *goworker.Daemon // the library as a producer uses it

	mu               sync.Mutex
	rand             *rand.Rand
	fleet            []*process
	producers        []*producer
	proxies          []func()             // close them
	outages          []window             // Redis did not serve
	silences         map[string][]window  // a process could not reach Redis, or did not run
	losses           []time.Time          // Redis lost data
	orders           map[string]order     // jobs with policies, by id
	killed           map[int]bool         // children of workers, by their numbers
	removed          removals             // keys that an operator removed, with all in them
	unnoted          bool                 // one of them was killed before it noted anything
	keeps            bool                 // some jobs with policies have results
	cancels          map[string]time.Time // when it was acknowledged that a job is cancelled; zero: it never was
	waits            []*wait              // of jobs with results
	documents        map[string]string    // the states of jobs with results, when all is over
	tickEvery        int                  // seconds between ticks of recurring schedules; 0: there are none
	found            map[int]time.Time    // when processes were found dead whose tombstones have a later time
	heals            []time.Time          // a fault was over, without a death
	injected         int
	goroutines, heap int // the most of a survivor
	problems         []string
	notes            []string
	loose            bool                     // totals cannot be checked: Redis lost them
	harsh            bool                     // a process may find no Redis when it stops, and say so by its status
	strange          int                      // bad payloads pushed: expected among the failures
	pruned           int                      // of these, filed by pruning a Ruby worker, which counts in no total
	checks           []func(ledgers, *result) // what a fault checks besides, when all is counted
}

// guard stands in for testing.TB where a program uses the tests' Redis. A failure ends
// the fault by a panic, which contain recovers.
type guard struct {
	testing.TB
	cleanups *[]func()
}

type fatal struct{ text string }

func (guard) Helper()                        {}
func (guard) Fatalf(format string, a ...any) { panic(fatal{fmt.Sprintf(format, a...)}) }
func (g guard) Cleanup(f func())             { *g.cleanups = append(*g.cleanups, f) }

// starting orders starts of servers: which program a server is, redistest asks of the
// environment.
var starting sync.RWMutex

// newArena starts a Redis; binary "" is redis-server.
func newArena(opts options, name, binary string, redisArgs []string) *arena {
	sum := fnv.New64()
	_, _ = sum.Write([]byte(name))
	dir, err := os.MkdirTemp(opts.dir, name+"-")
	a := &arena{guard: guard{cleanups: new([]func())}, opts: opts, dir: dir, begun: time.Now(),
		rand: rand.New(rand.NewPCG(opts.seed, sum.Sum64())), silences: map[string][]window{},
		orders: map[string]order{}, killed: map[int]bool{}, removed: newRemovals(), found: map[int]time.Time{}, cancels: map[string]time.Time{}}
	if err != nil {
		a.Fatalf("%v", err)
	}
	if binary == "" {
		starting.RLock()
		defer starting.RUnlock()
	} else {
		starting.Lock()
		defer starting.Unlock()
		defer os.Setenv("REDIS_SERVER", os.Getenv("REDIS_SERVER"))
		os.Setenv("REDIS_SERVER", binary)
	}
	a.redis = redistest.Start(a, redisArgs...)
	a.client = goworker.New(goworker.WorkerSettings{URI: a.redis.URI(), LogLevel: "error"})
	return a
}

// close ends all that still runs.
func (a *arena) close() {
	a.redis.Resume()
	for _, p := range a.processes() {
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
	a.stopProducers()
	for _, stop := range a.proxies {
		stop()
	}
	a.client.Close()
	for i := len(*a.cleanups) - 1; i >= 0; i-- {
		(*a.cleanups)[i]()
	}
}

func (a *arena) processes() []*process {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]*process(nil), a.fleet...)
}

// alive are the worker processes that run.
func (a *arena) alive() (alive []*process) {
	for _, p := range a.processes() {
		if p.alive() && !p.node {
			alive = append(alive, p)
		}
	}
	return alive
}

func (a *arena) problem(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

func (a *arena) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// inject counts a fault done.
func (a *arena) inject() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.injected++
}

// healed says that a fault which killed no process is over.
func (a *arena) healed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heals = append(a.heals, time.Now())
}

// outage runs f, during which Redis does not serve.
func (a *arena) outage(f func()) {
	a.inject()
	from := time.Now()
	f()
	a.mu.Lock()
	a.outages = append(a.outages, window{from, time.Now()})
	a.mu.Unlock()
	a.healed()
}

// silence runs f, during which a process cannot be heard.
func (a *arena) silence(p *process, f func()) {
	a.mu.Lock()
	a.silences[p.name] = append(a.silences[p.name], window{from: time.Now()})
	n := len(a.silences[p.name]) - 1
	a.mu.Unlock()
	f()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silences[p.name][n].to = time.Now()
}

// intn is safe for the goroutines of one fault. Where several draw, the seed gives
// the same draws, but not which process gets which.
func (a *arena) intn(n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rand.IntN(n)
}

func (a *arena) shuffle(n int, swap func(i, j int)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rand.Shuffle(n, swap)
}

func (a *arena) between(least, most time.Duration) time.Duration {
	return least + time.Duration(a.intn(int(most-least)+1))
}

func (a *arena) dial() (redis.Conn, error) {
	return redis.Dial("unix", a.redis.Socket(), redis.DialConnectTimeout(5*time.Second), redis.DialReadTimeout(20*time.Second))
}

// ask sends one command over a connection of its own.
func (a *arena) ask(command string, args ...any) (any, error) {
	c, err := a.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(command, args...)
}

// must is ask where Redis will serve soon.
func (a *arena) must(command string, args ...any) any {
	var reply any
	err := errors.New("not asked")
	for deadline := time.Now().Add(soon); err != nil && time.Now().Before(deadline); {
		if reply, err = a.ask(command, args...); err != nil {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if err != nil {
		a.Fatalf("%s %v: %v", command, args, err)
	}
	return reply
}

func (a *arena) number(command string, args ...any) int {
	n, _ := redis.Int(a.must(command, args...), nil)
	return n
}

func (a *arena) list(command string, args ...any) []string {
	l, _ := redis.Strings(a.must(command, args...), nil)
	return l
}

// eventually waits for cond and ends the fault if it does not come true.
func (a *arena) eventually(what string, cond func() bool) { a.eventuallyWithin(soon, what, cond) }

func (a *arena) eventuallyWithin(limit time.Duration, what string, cond func() bool) {
	wait := 10 * time.Millisecond // twelve faults at a time ask: what takes seconds is asked for less often
	for deadline := time.Now().Add(limit); !cond(); time.Sleep(wait) {
		if time.Now().After(deadline) {
			a.Fatalf("within %v this did not happen: %s", limit, what)
		}
		wait = min(wait+wait/4, 100*time.Millisecond)
	}
}

func (a *arena) ledger(name string) string { return filepath.Join(a.dir, name+".ledger") }

func (a *arena) port() string { return a.redis.Addr[strings.LastIndexByte(a.redis.Addr, ':')+1:] }
