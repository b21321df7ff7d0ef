package config_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/config"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// file writes a file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "worker.yaml")
	rewrite(t, path, text)
	return path
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// set makes the settings of a bundle's daemon those of a file, but for the Redis.
func set(s *goworker.WorkerSettings) { s.QueuesString, s.Concurrency, s.PollInterval = "", 0, 0 }

// Init says all mistakes of the file, those of the program's sections too.
func TestMistakesOfInit(t *testing.T) {
	t.Parallel()
	path := file(t, `queues: a,b=x
concurrency: 0
uri: redis://:s3cret@h
namespace: x
classes: {A: {retries: -1}}
other: {a: 1}
mine: {rate: x}
`)
	d := goworker.New(goworker.WorkerSettings{})
	f := config.Use(d, config.Path(path))
	var mine struct{ Rate int }
	f.Section("mine", &mine)
	err := d.Init()
	var of *config.Error
	if !errors.As(err, &of) || strings.Contains(err.Error(), "s3cret") {
		t.Fatal(err)
	}
	var lines []int
	for _, m := range of.Mistakes {
		lines = append(lines, m.Line)
	}
	if len(lines) != 5 || lines[0] != 1 || lines[4] != 7 {
		t.Errorf("mistakes in the lines %v:\n%v", lines, err)
	}
	if config.Use(d) != f {
		t.Error("a daemon has two files")
	}
	rewrite(t, path, "uri: redis://h\npassword-file: p\nmine: {rate: 3}\ntls-client-cert: c\n")
	if err := d.Init(); err == nil || !strings.Contains(err.Error(), path+":4:18: TLSClientCertPath is ") {
		t.Errorf("a setting that contradicts another has no line: %v", err)
	}
}

// Flag, program, environment, file, default: the first that says something counts.
func TestPrecedence(t *testing.T) {
	path := file(t, "queues: file\nlog-format: json\nnamespace: file\nconcurrency: 7\nstamp: true\ndynamic-schedule: true\n")
	t.Setenv("GOWORKER_NAMESPACE", "environment")
	t.Setenv("GOWORKER_CONCURRENCY", "3..9")
	t.Setenv("GOWORKER_STAMP", "false")
	t.Setenv(config.Variable, path)
	d := goworker.New(goworker.WorkerSettings{QueuesString: "program"})
	config.Use(d)
	if got := d.Namespace(); got != "environment:" {
		t.Errorf("the namespace is %s before Init", got)
	}
	if err := d.Init(); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	t.Setenv("GOWORKER_CONCURRENCY", "many")
	if err := goworker.New(goworker.WorkerSettings{QueuesString: "q"}).Init(); err == nil || !strings.Contains(err.Error(), `the variable GOWORKER_CONCURRENCY is "many": it takes a whole number`) {
		t.Errorf("a variable with a mistake: %v", err)
	}
}

// Limits of the file replace numbers of those registered, and are in Redis at once.
func TestClassesAreLaid(t *testing.T) {
	t.Parallel()
	path := file(t, "queues: work\nconcurrency: 4\nclasses:\n  Held: {limits: [1]}\n  Retried: {retries: 1}\n")
	b := daemontest.Setup(t, set)
	f := config.Use(b.Daemon, config.Path(path))
	gauge := daemontest.NewGauge()
	held, release := make(chan struct{}, 10), make(chan struct{})
	b.Daemon.Register("Held", func() { gauge.Hold("held", 0, func() { held <- struct{}{}; <-release }) }, goworker.MaxRunning(3))
	b.Daemon.Register("Retried", func() error { return errors.New("no") }, goworker.Retry(0, goworker.Delays{0}))
	b.Start()
	b.Push(`{"class":"Retried","args":[]}`)
	b.Push(`{"class":"Held","args":[]}`, `{"class":"Held","args":[]}`, `{"class":"Held","args":[]}`)
	<-held
	b.Eventually("a retry and a failure", func() bool { return len(b.Failures()) == 1 })
	if n := b.Stat("failed"); n != 1 {
		t.Errorf("%d failures", n)
	}
	b.Eventually("the number of the file", func() bool { return b.Redis.Text(t, "HGET", "resque:go:limits", "c:Held") == "1" })
	if len(held) > 0 {
		t.Error("two jobs run, and the file allows one")
	}
	rewrite(t, path, "queues: work\nconcurrency: 4\nclasses:\n  Held: {limits: [2]}\n")
	if err := f.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Redis.Text(t, "HGET", "resque:go:limits", "c:Held"); n != "2" {
		t.Errorf("Redis has %s after the reload", n)
	}
	<-held // a second one runs
	rewrite(t, path, "queues: work\nconcurrency: 4\n")
	if err := f.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Redis.Text(t, "HGET", "resque:go:limits", "c:Held"); n != "3" {
		t.Errorf("Redis has %s without the file, and 3 are registered", n)
	}
	<-held
	close(release)
	b.Push(`{"class":"Retried","args":[]}`)
	b.Eventually("a failure without a retry", func() bool { return len(b.Failures()) == 2 })
	if b.Log.Count("classes.Held.limits 1 → 2; classes.Retried.retries 1 → as registered") != 1 {
		t.Error(b.Log.Text())
	}
}

// A program that is refused a file goes on, also with what its sections say.
func TestRefused(t *testing.T) {
	t.Parallel()
	path := file(t, "queues: work\nconcurrency: 2\nlive: {rate: 1}\nfixed: {rate: 1}\n")
	b := daemontest.Setup(t, set)
	f := config.Use(b.Daemon, config.Path(path))
	var live config.Value[struct{ Rate int }]
	var fixed struct{ Rate int }
	f.Section("live", &live)
	f.Section("fixed", &fixed)
	if err := f.Reload(t.Context()); err == nil {
		t.Error("a daemon that does not run is reloaded")
	}
	b.Start()
	b.Push(daemontest.Job("Mark", "1"))
	b.Eventually("a job", func() bool { return b.Runs.Ends("1") == 1 })
	rewrite(t, path, "queues: work\nconcurrency: 3\nlive: {rate: 2}\nfixed: {rate: 2}\nclasses: 3\n")
	if err := f.Reload(t.Context()); !errors.Is(err, config.ErrRefused) || !strings.Contains(err.Error(), path+":5:10: classes is one value") {
		t.Error(err)
	}
	if live.Get().Rate != 1 || fixed.Rate != 1 || b.Log.Count("configuration reloaded") != 0 {
		t.Errorf("a refused file has changed something: %v %v", live.Get(), fixed)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(t.Context()); !errors.Is(err, config.ErrRefused) || !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	rewrite(t, path, "queues: work\nconcurrency: 3\nlive: {rate: 2}\nfixed: {rate: 2}\ncontrol: off\n")
	for range 2 { // what needs a restart is said until there is one
		if err := f.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if live.Get().Rate != 2 || fixed.Rate != 1 || b.Log.Count(`needs_restart=control on → off; fixed`) != 2 {
		t.Errorf("%v %v\n%s", live.Get(), fixed, b.Log.Text())
	}
	b.Eventually("three workers", func() bool { return len(b.Redis.List(t, "SMEMBERS", "resque:workers")) == 3 })
}

// A rotated password needs no restart.
func TestPasswordIsRotated(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"password-file", "uri-file"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			redistest.OwnUser(t)
			server := redistest.Start(t)
			server.Do(t, "ACL", "SETUSER", "worker", "on", ">one", "~*", "&*", "+@all")
			host := strings.TrimPrefix(server.URI(), "redis://")
			secret := filepath.Join(t.TempDir(), "secret")
			write := func(password string) {
				if by == "uri-file" {
					password = "redis://worker:" + password + "@" + host
				}
				rewrite(t, secret, password+"\n")
			}
			write("one")
			text := "queues: work\n" + by + ": " + secret + "\n"
			if by == "password-file" {
				text += "uri: redis://worker@" + host + "\n"
			}
			b := daemontest.SetupOn(t, server, set, func(s *goworker.WorkerSettings) { s.URI = "" })
			config.Use(b.Daemon, config.Path(file(t, text)))
			b.Start()
			b.Push(daemontest.Job("Mark", "1"))
			b.Eventually("a job by the first password", func() bool { return b.Runs.Ends("1") == 1 })
			write("two")
			server.Do(t, "ACL", "SETUSER", "worker", ">two", "<one")
			server.Do(t, "CLIENT", "KILL", "USER", "worker")
			b.Push(daemontest.Job("Mark", "2"))
			b.Eventually("a job by the second password", func() bool { return b.Runs.Ends("2") == 1 })
			if text := b.Log.Text(); strings.Contains(text, "two@") || strings.Contains(text, "worker:one") {
				t.Errorf("the log has a password:\n%s", text)
			}
		})
	}
}

// Shards share a file. What it says of Redis and queues is a mistake, since the program gives each shard its own.
func TestShards(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	log := new(daemontest.LogBook)
	s := goworker.NewShards(goworker.WorkerSettings{Logger: slog.New(log)},
		goworker.Shard{URI: a.URI(), Queues: []string{"a"}}, goworker.Shard{URI: b.URI(), Queues: []string{"b"}})
	path := file(t, "queues: x\n")
	f := config.Use(s, config.Path(path))
	var section config.Value[string]
	f.Section("section", &section)
	if err := s.Init(); err == nil || !strings.Contains(err.Error(), path+":1:1: queues is given with each Shard") {
		t.Fatal(err)
	}
	rewrite(t, path, "concurrency: 2\nsection: one\n")
	runs := make(chan string, 2)
	s.Register("Mark", func(id string) { runs <- id })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	a.Do(t, "RPUSH", "resque:queue:a", daemontest.Job("Mark", "a"))
	b.Do(t, "RPUSH", "resque:queue:b", daemontest.Job("Mark", "b"))
	<-runs
	<-runs
	if section.Get() != "one" {
		t.Errorf("the section is %q", section.Get())
	}
	rewrite(t, path, "concurrency: 3\nsection: two\nshutdown-timeout: 1m\n")
	if err := f.Reload(t.Context()); err != nil || section.Get() != "two" {
		t.Errorf("%v, the section is %q", err, section.Get())
	}
	for _, server := range []*redistest.Server{a, b} {
		redistest.Eventually(t, daemontest.Soon, "three workers", func() bool { return len(server.List(t, "SMEMBERS", "resque:workers")) == 3 })
	}
	if log.Count("configuration reloaded") != 1 {
		t.Error(log.Text())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.Close()
}

func TestSectionPanics(t *testing.T) {
	t.Parallel()
	f := config.Use(goworker.New(goworker.WorkerSettings{}))
	var v int
	f.Section("mine", &v)
	for want, claim := range map[string]func(){
		"the name of a section":     func() { f.Section("", &v) },
		"a setting has this name":   func() { f.Section("queues", &v) },
		"is claimed already":        func() { f.Section("mine", &v) },
		"is no pointer":             func() { f.Section("other", v) },
		"takes a *goworker.Daemon ": func() { config.Use(nil) },
	} {
		daemontest.WantPanic(t, want, claim)
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	t.Parallel()
	s := config.NewSecret("s3cret")
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "secret", s)
	if strings.Contains(out.String(), "s3cret") || s.Reveal() != "s3cret" {
		t.Error(out.String())
	}
	var size config.Size
	if err := size.UnmarshalText([]byte("64MiB")); err != nil || size != 64<<20 || size.String() != "64MiB" {
		t.Errorf("%d, %v", size, err)
	}
}
