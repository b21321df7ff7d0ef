package goworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/setting"
)

// canary is the password in every one of these tests. It must appear nowhere.
const canary = "c4n4ryS3cr3t"

// noCanary fails if the password is in a text.
func noCanary(t *testing.T, where string, text ...any) {
	t.Helper()
	for _, v := range text {
		for _, s := range []string{fmt.Sprintf("%v", v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v)} {
			if i := strings.Index(s, canary); i >= 0 {
				t.Errorf("%s shows the password: …%s…", where, s[max(0, i-80):min(len(s), i+80)])
				return
			}
		}
	}
}

func noCanaryIn(t *testing.T, where string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	noCanary(t, where, err.Error())
	for e := err; e != nil; e = errors.Unwrap(e) {
		noCanary(t, where, e.Error())
	}
}

// Whatever is wrong with a URI, its password is in no error and no printed setting.
func TestNoSecretInURIErrors(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"redis://user:%s@127.0.0.1:1", "redis://:%s@127.0.0.1:1", "redis://%s@127.0.0.1:1", "redis://user:%s@127.0.0.1:x",
		"redis://user:%s/@127.0.0.1:1", "redis://user:%s?@127.0.0.1:1", "redis://user:%s#@127.0.0.1:1", "redis://user:%s%%zz@127.0.0.1:1",
		"redis://user:%s\n@h", "redis://user: %s@h", "redis:user:%s@h", "redis//user:%s@h", "user:%s@h", ":%s@h", "redis://user:%s", "redis://:%s",
		"redis://user:%s@h/x", "redis://user:%s@h/-1", "redis://user:%s@h/0?db=1", "redis://user:%s@h?timeout=1", "redis://h?password=%s",
		"redis://h/0#%s", "redis://:12?%s", "redis://:12?%s=1", "redis://user:pa/ss?%s", "redis://user:%s@[::1", "redis://user:%s@h:99999", "unix://user:%s@/no/such/socket", "unix://user:%s@host/x",
		"rediss://user:%s@127.0.0.1:1", "ftp://user:%s@h", "embedded://user:%s@h", "redis+sentinel://user:%s@h/m", "redis+cluster://user:%s@h",
		" redis://user:%s@127.0.0.1:1 ", "REDIS://user:%s@127.0.0.1:1", "redis://a@b:%s@127.0.0.1:1", "redis://user:%s@no.such.host.invalid", "'redis://user:%s@h'",
	} {
		uri = fmt.Sprintf(uri, canary)
		s := WorkerSettings{URI: uri, QueuesString: "q", ConnectTimeout: 2 * time.Second, Logger: quiet}
		noCanary(t, uri, s, &s, []WorkerSettings{s}, map[string]any{"s": s}, s.LogValue().String())
		var lines safeBuffer
		for _, log := range []*slog.Logger{slog.New(slog.NewTextHandler(&lines, nil)), slog.New(slog.NewJSONHandler(&lines, nil))} {
			log.Info("starting", "settings", s, "more", &s)
		}
		noCanary(t, uri, lines.String())
		d := New(s)
		noCanaryIn(t, uri, d.Init())
		noCanaryIn(t, uri, d.Enqueue(&Job{"q", Payload{"C", nil}}))
		_, err := d.GetConn()
		noCanaryIn(t, uri, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		noCanaryIn(t, uri, d.Run(ctx))
		cancel()
		d.Close()
	}
}

// The same of a command line, its usage, and the environment.
func TestNoSecretInCommandLineErrors(t *testing.T) {
	t.Parallel()
	uri := "redis://user:" + canary + "@h:x"
	for _, args := range [][]string{
		{"-uri=" + uri, "-help"}, {"-uri", uri, "-h"}, {"-uri=" + uri, "-nosuch"}, {"-nosuch=" + uri}, {"-nosuch", uri}, {"-uri=" + uri, "-concurrency=x"},
		{"-concurrency", "-uri=" + uri}, {"-queues", "--uri=" + uri}, {"-order", "-uri=" + uri}, {"-interval=" + uri}, {"-concurrency", uri},
		{"-connections=" + uri}, {"-uri=" + uri, "-"}, {"--", "-uri=" + uri}, {"-=" + uri}, {uri}, {"-use-number=" + uri}, {"-recover-limit", uri},
	} {
		for _, lenient := range []bool{false, true} {
			h := newHost()
			noCanaryIn(t, strings.Join(args, " "), h.Parse(args, lenient))
			noCanary(t, strings.Join(args, " "), h.out.String(), h.Flags.FlagUsages())
			env := map[string]string{"REDIS_PROVIDER": "U", "U": uri, "REDIS_URL": uri}
			s := h.apply(WorkerSettings{QueuesString: "q"})
			c, err := s.configFrom(true, setting.Sources{Getenv: func(name string) string { return env[name] }})
			noCanaryIn(t, strings.Join(args, " "), err)
			if err == nil {
				_, err = conn.NewDialer(t.Context(), c.dial(), nil)
				noCanaryIn(t, strings.Join(args, " "), err)
			}
		}
	}
}

// A daemon that meets everything that can go wrong with a password, a connection or a
// job shows the password neither in a log line at any level, nor in an error, nor in
// Redis. Arguments of jobs are the user's: no line has them either.
func TestNoSecretOfARunningDaemon(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">"+canary, "~*", "&*", "+@all")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	echo, err := net.Listen("tcp", "127.0.0.1:0") // echoes all it receives, the password too
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 1024)
				if n, err := c.Read(b); err == nil {
					_, _ = fmt.Fprintf(c, "-ERR unknown command 'AUTH', with args beginning with: %q\r\n", b[:n])
				}
			}()
		}
	}()
	var log safeBuffer
	daemon := func(uri string, change ...func(*WorkerSettings)) *Daemon {
		settings := WorkerSettings{URI: uri, QueuesString: "q,*", Concurrency: 2, PollInterval: 50 * time.Millisecond, ConnectTimeout: 300 * time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		for _, c := range change {
			c(&settings)
		}
		return New(settings)
	}
	for name, d := range map[string]*Daemon{
		"wrong password": daemon("redis://worker:x" + canary + "@" + s.Addr),
		"wrong user":     daemon("redis://nobody:" + canary + "@" + s.Addr),
		"no password":    daemon("redis://:" + canary + "@" + s.Addr),
		"no database":    daemon("redis://worker:" + canary + "@" + s.Addr + "/99"),
		"no TLS":         daemon("rediss://worker:" + canary + "@" + s.Addr),
		"silent":         daemon("redis://worker:" + canary + "@" + silent.Addr().String()),
		"echo":           daemon("redis://worker:" + canary + "@" + echo.Addr().String()),
		"refused":        daemon("redis://worker:" + canary + "@127.0.0.1:1"),
		"socket":         daemon("unix://worker:" + canary + "@/no/such/socket"),
		"no CA":          daemon("rediss://worker:"+canary+"@"+s.Addr, func(s *WorkerSettings) { s.TLSCertPath = "/no/such/file" }),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		noCanaryIn(t, name, d.Run(ctx))
		noCanaryIn(t, name, d.Enqueue(&Job{"q", Payload{"C", nil}}))
		cancel()
		d.Close()
	}

	// One that works, until its password is taken from it; and jobs of all kinds.
	d := daemon("redis://worker:"+canary+"@"+s.Addr, func(s *WorkerSettings) { s.ConnectTimeout = 5 * time.Second })
	defer d.Close()
	const private = "pr1v4te" // in arguments
	d.Register("Panics", func(string) { panic("aargh") })
	d.Register("Fails", func(string) error { return os.ErrInvalid })
	d.Register("Works", func(string) {})
	d.Register("Number", func(int) {})
	for _, class := range []string{"Panics", "Fails", "Works", "Number", "Unknown"} {
		s.Do(t, "RPUSH", "resque:queue:q", fmt.Sprintf(`{"class":%q,"args":[%q]}`, class, private))
	}
	s.Do(t, "RPUSH", "resque:queue:q", `{"class":"Works","args":["`+private+`"]`, private)
	s.Do(t, "SADD", "resque:queues", "q")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	redistest.Eventually(t, soon, "all jobs are dealt with", func() bool { return s.Text(t, "GET", "resque:stat:processed") == "7" })
	for _, key := range s.List(t, "KEYS", "*") {
		noCanary(t, "key "+key, key, s.Do(t, "DUMP", key), dump(t, s, key))
	}
	s.Do(t, "ACL", "SETUSER", "worker", "resetpass", ">other")
	s.Do(t, "CLIENT", "KILL", "USER", "worker")
	redistest.Eventually(t, soon, "it notices", func() bool { return strings.Contains(log.String(), "wrong password for user worker") })
	noCanaryIn(t, "without its password", d.Enqueue(&Job{"q", Payload{"C", nil}}))
	cancel()
	noCanaryIn(t, "at the end", <-ended)

	noCanary(t, "the log", log.String())
	if strings.Contains(log.String(), private) {
		t.Error("the log shows an argument of a job")
	}
	if !strings.Contains(log.String(), "level=DEBUG") || !strings.Contains(log.String(), "job failed") {
		t.Error("the log is not complete")
	}
}

// dump is the value of a key as text.
func dump(t *testing.T, s *redistest.Server, key string) any {
	t.Helper()
	switch s.Text(t, "TYPE", key) {
	case "string":
		return s.Text(t, "GET", key)
	case "list":
		return s.List(t, "LRANGE", key, "0", "-1")
	case "set":
		return s.List(t, "SMEMBERS", key)
	case "zset":
		return s.List(t, "ZRANGE", key, "0", "-1")
	case "hash":
		return s.List(t, "HGETALL", key)
	}
	return nil
}
