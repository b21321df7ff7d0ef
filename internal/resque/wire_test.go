package resque

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

// noon is the time that the tests of this package pass where Redis's own is not used.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	lease = 1000 * time.Second // so long that no test outlives it
	gap   = 400 * time.Second
)

// wire is a server of its own, a connection to it and the Store of the default namespace.
type wire struct {
	t      testing.TB
	server *redistest.Server
	c      redis.Conn
	s      Store
}

func newWire(t testing.TB, args ...string) *wire {
	t.Helper()
	server := redistest.Start(t, args...)
	w := &wire{t: t, server: server, c: server.Dial(t), s: New("")}
	w.do("SCRIPT", "LOAD", commitScript.plain.Text()) // a script that Redis does not know runs behind the others
	return w
}

func (w *wire) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) same(what string, want, got any) {
	w.t.Helper()
	if reflect.DeepEqual(want, got) { // cmp takes seconds for a megabyte
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// unchanged runs f and reports any key it changed.
func (w *wire) unchanged(what string, f func()) {
	w.t.Helper()
	before := w.server.Dump(w.t, "")
	f()
	w.same(what+" changed keys", before, w.server.Dump(w.t, ""))
}

func (w *wire) do(command string, args ...any) any {
	w.t.Helper()
	return w.server.Do(w.t, command, args...)
}

// spoil puts a value of a type that no script expects under the key.
func (w *wire) spoil(key string) {
	w.t.Helper()
	w.do("DEL", key)
	if strings.Contains(key, ":stat:") || key == w.s.pauseAll() || strings.Contains(key, ":worker:") || key == w.s.pruneLock() ||
		key == w.s.clock() || strings.HasSuffix(key, "master_lock") {
		w.do("RPUSH", key, "spoiled")
		return
	}
	w.do("SET", key, "spoiled")
}

func (w *wire) push(queue string, payloads ...string) {
	w.t.Helper()
	raw := make([][]byte, len(payloads))
	for i, p := range payloads {
		raw[i] = []byte(p)
	}
	w.must(w.s.Push(w.c, queue, raw...))
}

func (w *wire) queue(name string) []string {
	w.t.Helper()
	return w.server.List(w.t, "LRANGE", w.s.KeyOfQueue(name), 0, -1)
}

// queues is what lies in each of the named queues, "high: h1 h2".
func (w *wire) queues(names ...string) []string {
	w.t.Helper()
	lines := make([]string, len(names))
	for i, n := range names {
		lines[i] = strings.TrimSpace(n + ": " + strings.Join(w.queue(n), " "))
	}
	return lines
}

func (w *wire) stats() [2]int {
	w.t.Helper()
	return [2]int{w.server.Int(w.t, "GET", w.s.stat("processed")), w.server.Int(w.t, "GET", w.s.stat("failed"))}
}

// record is the in-flight record of a process as a list of "ticket queue payload".
func (w *wire) record(process string) []string {
	w.t.Helper()
	keys := w.server.List(w.t, "HKEYS", w.s.inflight(process))
	jobs, _, err := w.s.ReadReserved(w.c, process, parseTickets(keys))
	w.must(err)
	return texts(jobs)
}

func texts(jobs []Reserved) []string {
	lines := make([]string, len(jobs))
	for i, j := range jobs {
		lines[i] = fmt.Sprintf("%d %s %s", j.Ticket, j.Queue, j.Payload)
	}
	return lines
}

// asks wants as much as there is, from the first queue first.
func asks(queues ...string) []Ask {
	list := make([]Ask, len(queues))
	for i, q := range queues {
		list[i] = Ask{Queue: q, Quota: MaxExchangeJobs}
	}
	return list
}

// someProcess has two workers whose ids carry its own, so that two of them differ.
func someProcess(id string) Process {
	return Process{
		ID: id, Host: "web-1", PID: 42, Version: "1.0.0", Queues: "high,low", Concurrency: 2, Started: noon,
		IDHead: id + ".go:42-", IDQueues: "high,low",
	}
}

// proc is a process of the fleet, seen from its poller.
type proc struct {
	*wire
	Process
	epoch, last int64
}

func (w *wire) enter(id string) *proc {
	w.t.Helper()
	p := someProcess(id)
	w.must(w.s.Enter(w.c, p, lease, noon))
	return &proc{wire: w, Process: p, epoch: 1}
}

// try does one exchange.
func (m *proc) try(x Exchange) (Exchanged, error) {
	x.Process, x.Epoch, x.Last = m.ID, m.epoch, m.last
	if err := m.s.Send(m.c, &x); err != nil {
		return Exchanged{}, err
	}
	out, err := m.s.Receive(m.c, &x)
	for _, j := range out.Jobs {
		m.last = max(m.last, j.Ticket)
	}
	return out, err
}

// turn does one exchange that must succeed.
func (m *proc) turn(x Exchange) Exchanged {
	m.t.Helper()
	out, err := m.try(x)
	m.must(err)
	return out
}

// reserve takes exactly n jobs, in the order of the queues.
func (m *proc) reserve(n int, queues ...string) []Reserved {
	m.t.Helper()
	out := m.turn(Exchange{Want: n, Asks: asks(queues...)})
	if len(out.Jobs) != n {
		m.t.Fatalf("reserved %v, want %d jobs from %v", texts(out.Jobs), n, queues)
	}
	return out.Jobs
}

// lease is the value of the process's lease as the others see it, "" without one.
func (m *proc) lease() string {
	m.t.Helper()
	return m.server.Text(m.t, "ZSCORE", m.s.processes(), m.ID)
}

// die has others find the process dead.
func (m *proc) die() {
	m.t.Helper()
	if fenced, err := m.s.Fence(m.c, m.ID, m.lease()); err != nil || !fenced {
		m.t.Fatalf("fencing %s: %v, %v", m.ID, fenced, err)
	}
}

// recover moves the jobs of a process that died.
func (m *proc) recover(limit int) Recovered {
	m.t.Helper()
	r, _ := m.recoverBack(limit)
	return r
}

// recoverBack is recover, and returns apart which queues' heads the jobs went back to.
func (m *proc) recoverBack(limit int) (r Recovered, back map[string]int) {
	m.t.Helper()
	r, err := m.s.Recover(m.c, m.Process, limit, noon, deadEnds(m.s, false, noon))
	m.must(err)
	back, r.Back = r.Back, nil
	return r, back
}

// failed are the ends of jobs that are filed as failed.
func failed(jobs ...Reserved) []Ended {
	ended := make([]Ended, len(jobs))
	for i, j := range jobs {
		ended[i] = Ended{Ticket: j.Ticket, Counts: CountsFailed, Effects: New("").FileFailure(j.Queue, failureOf(j.Payload), false)}
	}
	return ended
}

// back are the ends of jobs that return to the heads of their queues: the last reserved first.
func back(jobs ...Reserved) []Ended {
	ended := make([]Ended, len(jobs))
	for i, j := range jobs {
		ended[i] = Ended{Ticket: j.Ticket, Effects: New("").Head(j)}
	}
	slices.SortFunc(ended, func(a, b Ended) int { return int(b.Ticket - a.Ticket) })
	return ended
}

// handed is what a record says of jobs up to a ticket that were with workers, but for some.
func handed(upTo int64, held ...int64) string { return HandedOut{UpTo: upTo, Held: held}.String() }

// failureOf is a failure record that holds the payload even where it is no JSON.
func failureOf(raw []byte) []byte {
	return payload.Failure{FailedAt: payload.FailedAt(noon), Payload: payload.Safe(raw), Exception: "Boom", Error: "boom",
		Worker: "web-1.go:42-0:low", Queue: "low"}.Encode()
}

func tickets(jobs ...Reserved) []int64 {
	t := make([]int64, len(jobs))
	for i, j := range jobs {
		t[i] = j.Ticket
	}
	return t
}

func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%d", prefix, i+1)
	}
	return list
}

// job is a well-formed payload of the class.
func job(class string) string { return `{"class":"` + class + `","args":[]}` }

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// onlyRuby leaves out our own keys and the lock that Ruby's workers leave behind.
func (w *wire) onlyRuby(keys []redistest.Key) map[string]any {
	values := redistest.Values(keys)
	for k := range values {
		if strings.HasPrefix(k, w.s.ns+"go:") || k == w.s.pruneLock() {
			delete(values, k)
		}
	}
	return values
}

// meddler does something before the n-th command of a connection.
type meddler struct {
	redis.Conn
	before int
	meddle func()
}

func (m *meddler) Do(command string, args ...any) (any, error) {
	if m.before--; m.before == 0 {
		m.meddle()
	}
	return m.Conn.Do(command, args...)
}
