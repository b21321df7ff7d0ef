package delayedbridge_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/delayedbridge"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// bundle is a daemon with a bridge for the queue "calc" of delayed.
type bundle struct {
	*daemontest.Bundle

	mu    sync.Mutex
	calls []string
}

// setup makes a daemon that knows functions with the paths that delayed would give them. All note their calls.
func setup(t *testing.T, q delayedbridge.Queue, change ...func(*goworker.WorkerSettings)) *bundle {
	t.Helper()
	return setupOn(t, redistest.Start(t), q, change...)
}

func setupOn(t *testing.T, server *redistest.Server, q delayedbridge.Queue, change ...func(*goworker.WorkerSettings)) *bundle {
	t.Helper()
	change = append([]func(*goworker.WorkerSettings){func(s *goworker.WorkerSettings) {
		s.QueuesString = "work,msgpack:calc,jobs"
	}}, change...)
	b := &bundle{Bundle: daemontest.SetupOn(t, server, change...)}
	b.functions(b.Daemon)
	b.Daemon.AddPart(delayedbridge.Part(b.Daemon, q))
	return b
}

// arg is a struct as delayed's users have it: it is packed as [A, B].
type arg struct {
	A int
	B string
}

type inner struct {
	Name string `json:"name"`
	Skip string `json:"-"`
	At   time.Time
}

type outer struct {
	arg     // not exported: not packed
	Inner   inner
	Args    []arg
	ByName  map[string]*arg
	Nothing *arg
	Left    string `msgpack:"-"`
	Last    []byte
}

// Embedded is packed as a field of its own.
type Embedded struct{ X, Y int }

type embedding struct {
	Embedded
	Z int
}

// id is an array of bytes with a text, as a UUID is one.
type id [2]byte

func (i id) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, i[:]), nil }

func (i *id) UnmarshalText(text []byte) error {
	if len(text) != 4 {
		return errors.New("an id has four digits")
	}
	_, err := hex.Decode(i[:], text)
	return err
}

func (b *bundle) functions(d *goworker.Daemon) {
	for path, f := range map[string]any{
		"pkg.None":  func() { b.note("None") },
		"pkg.Two":   func(x, y int) { b.note("Two", x, y) },
		"pkg.Int":   func(x int) { b.note("Int", x) },
		"pkg.Text":  func(s string) { b.note("Text", s) },
		"pkg.Bytes": func(p []byte) { b.note("Bytes", string(p)) },
		"pkg.Array": func(a [3]byte) { b.note("Array", a) },
		"pkg.ID":    func(i id) { b.note("ID", hex.EncodeToString(i[:])) },
		"pkg.IDs": func(all []id) {
			var texts []string
			for _, i := range all {
				texts = append(texts, hex.EncodeToString(i[:]))
			}
			b.note("IDs", texts)
		},
		"pkg.Map":  func(m map[int]string, a arg) { b.note("Map", m, a) },
		"pkg.Maps": func(m map[uint16]arg) { b.note("Maps", m) },
		"pkg.List": func(l []int) { b.note("List", l) },
		"pkg.Any":  func(v any) { b.note("Any", v) },
		"pkg.F1":   func(a arg) { b.note("F1", a) },
		"pkg.F2":   func(a int, p *arg) { b.note("F2", a, *p) },
		"pkg.F3":   func(a int, p *arg, c []int) { b.note("F3", a, *p, c) },
		"pkg.F4":   func(a ...int) { b.note("F4", a) },
		"pkg.F5":   func(a int, p *arg, c []int, d ...int) { b.note("F5", a, *p, c, d) },
		"pkg.Outer": func(o outer) {
			b.note("Outer", o.Inner.Name, o.Inner.At.UTC(), o.Args, *o.ByName["k"], o.Nothing, string(o.Last))
		},
		"pkg.Embeds": func(e embedding) { b.note("Embeds", e.X, e.Y, e.Z) },
		"pkg.Maybe":  func(p *int) { b.note("Maybe", p == nil) },
		"app.m:add":  func(x, y int) { b.note("app.m:add", x, y) },
	} {
		d.Register(path, f)
	}
}

func (b *bundle) note(what string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := fmt.Sprintf("%+v", args)
	b.calls = append(b.calls, strings.TrimSpace(what+" "+list[1:len(list)-1]))
}

func (b *bundle) called() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.calls...)
}

// task pushes the bytes of tasks as delayed does: the task, then its notification. Blanks in the hexadecimal are for the
// reader, and a name in quotes is its bytes.
func (b *bundle) task(recorded ...string) {
	b.T.Helper()
	for _, r := range recorded {
		b.Redis.Do(b.T, "RPUSH", "calc", recordedBytes(b.T, r))
		b.Redis.Do(b.T, "RPUSH", "calc_noti", "1")
	}
}

func recordedBytes(t testing.TB, text string) []byte {
	t.Helper()
	var out []byte
	for i, part := range strings.Split(text, "'") {
		if i%2 == 1 {
			out = append(out, part...)
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(part, " ", ""))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		out = append(out, b...)
	}
	return out
}

// nothingLeft waits until delayed's keys are empty.
func (b *bundle) nothingLeft() {
	b.T.Helper()
	b.Eventually("delayed's keys are empty", func() bool {
		return b.Redis.Int(b.T, "EXISTS", "calc", "calc_noti", "calc_processing") == 0
	})
}
