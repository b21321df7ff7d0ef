package machines_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/dashboard/internal/dashtest"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

// desk is a dashboard over a Redis of its own.
type desk struct {
	*dashtest.Desk
	redis *redistest.Server
}

func setup(t *testing.T, key string) *desk {
	t.Helper()
	redis := redistest.Start(t)
	uri := redis.OperatorsURI()
	return &desk{dashtest.Open(t, uri, func(o *dashboard.Options) {
		if key == "" {
			return
		}
		client, err := goworker.NewClient(goworker.WorkerSettings{URI: uri, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		o.Control = control.New(client, control.KeyFile(key))
	}), redis}
}

// post sends a form, and follows the answer to the page that shows it.
func (d *desk) post(path, user string, pairs ...string) dashtest.Answer {
	d.Helper()
	a := d.Post(path, user, pairs...)
	if a.Status != http.StatusSeeOther {
		return a
	}
	return d.Do(http.MethodGet, a.Header.Get("Location"), user, "", "", a.Cookies()...)
}

// outcome is the answer of an action in JSON.
type outcome struct {
	Said    string
	Done    int64
	Missing int64
	Refused []string
	Detail  string
	Data    struct {
		Replies []struct{ Process, Refused, Silent, Said string }
	}
}

func (d *desk) act(path, user, body string) (status int, out outcome) {
	d.Helper()
	status = d.Act(path, user, body, &out)
	return status, out
}

// read reads a page as JSON.
func (d *desk) read(path string, into any) {
	d.Helper()
	d.Read(path, "ann admin", into)
}

// daemon starts a daemon and returns its id.
func (d *desk) daemon(name string, change ...func(*goworker.WorkerSettings, *goworker.Daemon)) (id string, daemon *goworker.Daemon) {
	d.Helper()
	log := new(daemontest.LogBook)
	s := goworker.WorkerSettings{
		URI: d.redis.URI(), QueuesString: "work,mail=2", Concurrency: 2, PollInterval: time.Minute, Name: name, AllowNoHandlers: true,
		Logger: slog.New(log), DisableSignals: true,
	}
	daemon = goworker.New(s)
	for _, c := range change {
		c(&s, daemon)
	}
	daemon.SetSettings(s)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx) }()
	d.Cleanup(func() {
		cancel()
		<-ended
		daemon.Close()
	})
	named := s.Logger != nil // else its log is not the test's
	redistest.Eventually(d.T, daemontest.Soon, name+" is ready", func() bool { return daemon.Health().Ready && (!named || log.Process() != "") })
	if !named {
		all, err := d.Client.Inspect().Processes(d.Context())
		if err != nil || len(all) != 1 {
			d.Fatalf("%+v %v", all, err)
		}
		return all[0].ID, daemon
	}
	return log.Process(), daemon
}

// audited is the newest line of the audit about a command.
func (d *desk) audited(what string) (found inspect.AuditEntry) {
	d.Helper()
	all, err := d.Client.Inspect().Audit(d.Context(), 100)
	if err != nil {
		d.Fatal(err)
	}
	for _, e := range all {
		if e.What == what {
			return e
		}
	}
	return found
}

func keyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func at(id string, rest ...string) string {
	return strings.Join(append([]string{"/processes", url.PathEscape(id)}, rest...), "/")
}
