package goworker

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/setting"
)

// Any settings and environment make a configuration in which every number is usable, or
// an error without the password. Printed settings do not show it either.
func FuzzSettings(f *testing.F) {
	f.Add("high,low", "resque", "", "host", "info", "text", "redis", "pass word", 5.0, int64(0), 25, 2)
	f.Add("*", "a:", "strict", "a:b", "loud", "json", "", "p@s/s#w?d", -1.0, int64(-1), -1, 0)
	f.Add("", "", "x", "", "DEBUG", "xml", "redis_multi_queue", "%", 1e300, int64(1)<<62, 1<<40, 1<<40)
	f.Fuzz(func(t *testing.T, queues, namespace, order, host, level, format, backend, password string, interval float64, span int64, concurrency, number int) {
		const secret = "S3cr3tM4rk3r"
		s := WorkerSettings{
			QueuesString: queues, Namespace: namespace, Order: order, Hostname: host, LogLevel: level, LogFormat: format,
			IntervalFloat: interval, PollInterval: time.Duration(span), ShutdownTimeout: time.Duration(span), ReadTimeout: time.Duration(span),
			Concurrency: concurrency, Connections: number, RecoverLimit: number, MaxPayload: number,
		}
		env := map[string]string{"REDIS_PROVIDER": "CACHE_URL", "CACHE_URL": "redis://user:" + secret + password + "@cache", "FAILURE_BACKEND": backend}
		shows := func(err error) bool {
			return err != nil && (strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), " "))
		}
		c, err := s.configFrom(true, setting.Sources{Getenv: func(name string) string { return env[name] }})
		if shows(err) {
			t.Errorf("the error is no sentence or shows the password: %v", err)
		}
		if err != nil {
			return
		}
		if c.PollInterval <= 0 || c.Concurrency < 1 || c.Connections < 1 || c.RecoverLimit < 0 || c.MaxPayload < 1 || c.ShutdownTimeout < 0 || c.ReadTimeout < 0 ||
			!strings.HasSuffix(c.Namespace, ":") || strings.ContainsAny(c.Hostname, ": \n") || c.Hostname == "" || c.queues.Label() == "" {
			t.Errorf("%+v", c.queues)
		}
		if _, err := conn.NewDialer(t.Context(), c.dial(), nil); shows(err) {
			t.Errorf("the error is no sentence or shows the password: %v", err)
		}
		s.URI = env["CACHE_URL"]
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
			if text := fmt.Sprintf(verb, s) + fmt.Sprintf(verb, &s) + fmt.Sprintf(verb, []WorkerSettings{s}); strings.Contains(text, secret) {
				t.Errorf("%s shows the password: %s", verb, text)
			}
		}
	})
}

// Any command line: an error is a sentence without the value of -uri, and without
// one the settings hold what was said last.
func FuzzCommandLine(f *testing.F) {
	f.Add("-queues=a -concurrency 3 -interval=2.5 -uri=", "-use-number")
	f.Add("-interval=1h -shutdown-timeout=-1 -recover-limit=x", "--")
	f.Add("-concurrency=0 -connections=1e3 -order -log-level=", "=-=")
	f.Fuzz(func(t *testing.T, line, more string) {
		const secret = "S3cr3tM4rk3r"
		c := newHost()
		c.Program.SetOutput(io.Discard)
		args := append(strings.Split(line, " "), "-uri=redis://u:"+secret+"@h", more)
		err := c.Parse(args, true)
		if err != nil && (strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), " ")) {
			t.Errorf("%q: %v", args, err)
		}
		s := c.apply(WorkerSettings{})
		if f := c.Flags.Lookup("concurrency"); err == nil && f.Changed && s.Concurrency < 1 || s.PollInterval < 0 {
			t.Errorf("%q: %+v", args, s)
		}
		c.Flags.VisitAll(func(f *pflag.Flag) { _ = f.Value.String() })
		if _, err := s.configFrom(true, setting.Sources{Getenv: func(string) string { return "" }}); err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", args, err)
		}
	})
}

// A GlobalID that can be read is the same after it was written.
func FuzzGlobalID(f *testing.F) {
	for _, seed := range []string{"gid://app/User/1", "gid://app/Admin::User/a%2Fb/c?x=y", "gid:///", "gid://a/b/%zz", "gid://a/b/+", "gid://a//1", "gid://a/b/%2F", "gid://a/b/c//"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var g, again GlobalID
		if err := g.UnmarshalText([]byte(text)); err != nil {
			return
		}
		if g.App == "" || g.Model == "" || g.ID == "" {
			t.Errorf("%q is %+v", text, g)
		}
		out, err := g.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalText(out); err != nil {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		if again != g {
			t.Errorf("%q became %+v and then %+v", text, g, again)
		}
	})
}
