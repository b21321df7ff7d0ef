package doctor

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// durable are the arguments of a server in which doctor finds nothing: the tests' own servers keep nothing on disk.
var durable = []string{"--appendonly", "yes"}

// sound is what a proxy makes of what a server says: a Redis with an append-only file is itself what check 9 finds.
func sound(text string) string {
	return version.ReplaceAllString(text, "redis_version:7.2.4\r\nvalkey_version:9.2.0")
}

var version = regexp.MustCompile(`redis_version:[0-9.]+`)

// world is a namespace of a Redis in which a fault is planted.
type world struct {
	t       *testing.T
	server  *redistest.Server
	uri     string
	ns      string // with its colon
	options checks.Options
	client  *goworker.Client
}

var namespaces atomic.Int64

// newWorld makes a namespace of its own on a server that other tests may use too. Nothing is in it.
func newWorld(t *testing.T, server *redistest.Server, rewrite func(string) string) *world {
	t.Helper()
	if rewrite == nil {
		rewrite = sound
	}
	w := &world{t: t, server: server, ns: fmt.Sprintf("ns%d:", namespaces.Add(1)), options: checks.Options{Budget: time.Hour, Now: steady}}
	w.uri = "redis://" + server.Rewriting(t, rewrite)
	w.as(w.uri)
	return w
}

// steady is a clock on which an answer takes no time, even if the machine is busy.
func steady() time.Time { return time.Now().Truncate(4 * time.Second) }

// as has doctor look as the user of a URI.
func (w *world) as(uri string) {
	w.t.Helper()
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: uri, Namespace: w.ns, Logger: daemontest.Quiet})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	w.client = client
}

func (w *world) inspect() *inspect.Inspector { return w.client.Inspect() }

// do sends a command past the proxy. An argument that begins with a tilde is a key of the namespace.
func (w *world) do(command string, args ...any) any {
	w.t.Helper()
	for n, a := range args {
		if text, ok := a.(string); ok && strings.HasPrefix(text, "~") {
			args[n] = w.ns + text[1:]
		}
	}
	return w.server.Do(w.t, command, args...)
}

// refused sends a command that the server may refuse.
func (w *world) refused(command string, args ...any) error {
	_, err := w.server.Dial(w.t).Do(command, args...)
	return err
}

// info is a line of what the server says of itself.
func (w *world) info(name string) string {
	for line := range strings.Lines(w.server.Text(w.t, "INFO")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// held opens connections on which a command was sent, and keeps them to the test's end.
func (w *world) held(n int, command string, args ...any) {
	w.t.Helper()
	for range n {
		if _, err := w.server.Dial(w.t).Do(command, args...); err != nil {
			w.t.Fatal(err)
		}
	}
}

// now is the time of this machine, in the form of a heartbeat.
func (w *world) now(ago time.Duration) string {
	return time.Now().Add(-ago).UTC().Format("2006-01-02T15:04:05-07:00")
}

// look runs the checks with the given numbers, or all.
func (w *world) look(numbers ...int) (all []checks.Finding) {
	w.t.Helper()
	o := w.options
	o.Only = numbers
	for f, err := range checks.Run(w.t.Context(), w.inspect(), o) {
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// bad are the findings that are not ok.
func bad(all []checks.Finding) (bad []checks.Finding) {
	for _, f := range all {
		if f.State != checks.OK {
			bad = append(bad, f)
		}
	}
	return bad
}

func text(all []checks.Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%d %s: %s\n  %s\n  %s\n", f.Check.Number, f.State, f.Sentence, f.Remedy.Words, f.Remedy.Command)
	}
	return b.String()
}
