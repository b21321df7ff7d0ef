package delayed

import (
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// wire is a server of its own, a connection to it and the Stores of the default namespace.
type wire struct {
	t      testing.TB
	server *redistest.Server
	c      redis.Conn
	s      resque.Store
	d      Store
}

func newWire(t testing.TB, args ...string) *wire {
	t.Helper()
	server := redistest.Start(t, args...)
	s := resque.New("")
	return &wire{t: t, server: server, c: server.Dial(t), s: s, d: New(s)}
}

func (w *wire) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) same(what string, want, got any) {
	w.t.Helper()
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

// count returns how many jobs were there.
func count(there []bool, err error) (n int, _ error) {
	for _, was := range there {
		if was {
			n++
		}
	}
	return n, err
}

func remove(s Store, c redis.Conn, jobs []Job) (int, error) { return count(s.Take(c, jobs)) }

func run(s Store, c redis.Conn, jobs []Job) (int, error) {
	return count(s.Enqueue(c, slices.DeleteFunc(slices.Clone(jobs), func(d Job) bool { return d.Err != nil }), false))
}

func redelay(s Store, c redis.Conn, jobs []Job, at time.Time) (int, error) {
	return count(s.Redelay(c, jobs, at))
}
