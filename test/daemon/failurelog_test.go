package daemon

import (
	"errors"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

var (
	loggedFailure = regexp.MustCompile(`job failed .*\bfailure=([0-9a-f]{28})\b`)
	errNoCustomer = errors.New("no customer <12> & \u2028 none")
)

// The line of a failed job names the id under which its failure record is found. It names the job's id
// too, if it has one.
func TestFailedLineNamesItsFailure(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{goworker.FailureRedis, goworker.FailureRedisMultiQueue} {
		for name, tt := range map[string]struct{ payload, want string }{
			"an error":          {`{"class":"Broken","args":["<&>",1.0,1e3,{"b":1,"a":"ü"}]}`, "error=no customer"},
			"a job with an id":  {`{"class":"Broken","args":[],"id":"order-12"}`, "id=order-12"},
			"a panic":           {`{"class":"Panics","args":[]}`, "error=panic: aua"},
			"a handler's end":   {`{"class":"Exits","args":[]}`, "runtime.Goexit"},
			"the last retry":    {`{"class":"Retries","args":[],"attempt":2}`, "error=no customer"},
			"an unknown class":  {`{"class":"Nobody","args":[]}`, "exception=NameError"},
			"wrong arguments":   {`{"class":"Mark","args":[1,2]}`, "exception=ArgumentError"},
			"bytes that are no": {"no \xff job", "queue=work"},
			"a payload too big": {`{"class":"Mark","args":["` + strings.Repeat("x", 5000) + `"]}`, "queue=work"},
			"a time of its own": {`{"class":"Broken", "args":[-0, 12345678901234567890]}`, "error=no customer"},
		} {
			t.Run(backend+"/"+name, func(t *testing.T) {
				t.Parallel()
				b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.FailureBackend, s.MaxPayload = backend, 4000 })
				b.Daemon.Register("Broken", func(string, ...any) error { return errNoCustomer })
				b.Daemon.Register("Panics", func() { panic("aua") })
				b.Daemon.Register("Exits", func() { runtime.Goexit() })
				b.Daemon.Register("Retries", func() error { return errNoCustomer }, goworker.Retry(1, goworker.Delays{time.Hour}))
				b.Start()
				b.Push(tt.payload)
				b.Eventually("the job failed", func() bool { return b.Stat("failed") == 1 })
				line := loggedFailure.FindStringSubmatch(b.Log.Text())
				if line == nil || !strings.Contains(b.Log.Text(), tt.want) {
					t.Fatalf("the line of the job should name its failure and say %q:\n%s", tt.want, b.Log.Text())
				}
				f, err := b.Daemon.Failures().Get(line[1])
				if err != nil {
					t.Fatalf("the failure %s: %v", line[1], err)
				}
				if f.ID != line[1] || f.Queue != "work" {
					t.Errorf("found the failure %+v, want %s", f, line[1])
				}
			})
		}
	}
}

// A job that runs again has no failure record, so its line names none.
func TestRetriedLineNamesNoFailure(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Retries", func() error { return errNoCustomer }, goworker.Retry(1, goworker.Delays{time.Hour}))
	b.Start()
	b.Push(`{"class":"Retries","args":[]}`)
	b.Eventually("the job is retried", func() bool { return b.Log.Count("job failed; it is retried") == 1 })
	if b.Log.Count("failure=") != 0 {
		t.Error(b.Log.Text())
	}
}
