package failures

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// admin is what the tests of this package stand on: a server, and its failures.
type admin struct {
	*redistest.Server
	Store
	base resque.Store
	c    redis.Conn
}

func newAdmin(t *testing.T) admin {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	base := resque.New("")
	return admin{Server: server, Store: New(base), base: base, c: server.Dial(t)}
}

func (a admin) wantKeys(t *testing.T, want map[string]any) {
	t.Helper()
	same(t, "keys", want, a.Dump(t, resque.DefaultNamespace))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
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
