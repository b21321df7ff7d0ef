// Package interop holds goworker against an implementation of Resque that is
// neither Ruby nor ours: node-resque, from npm. Both work on one real Redis, and
// each must find what the other left in order.
//
// The scripts beside this file are the other side; `npm ci` in this folder
// installs what they need.
package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// patience is how long anything may take before a test gives up. Nothing here
// needs a hundredth of it on an idle machine.
const patience = 30 * time.Second

// setup starts a Redis and makes sure that node-resque is there.
func setup(t *testing.T) (*redistest.Server, *peer) {
	t.Helper()
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("the interop tests need Node.js 20 or newer: %v", err)
	}
	if _, err := os.Stat(filepath.Join("node_modules", "node-resque", "package.json")); err != nil {
		t.Fatal("node-resque is not installed: run `npm ci` in test/interop")
	}
	server := redistest.Start(t)
	_, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return server, &peer{node: node, port: port}
}

// peer runs node-resque on the test's Redis.
type peer struct {
	node, port string
}

// queue calls a method of node-resque's Queue. Arguments and result are JSON as
// Node reads and writes it; a json.RawMessage passes through untouched.
func (p *peer) queue(t *testing.T, method string, args ...any) json.RawMessage {
	t.Helper()
	if args == nil {
		args = []any{}
	}
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var complaints strings.Builder
	cmd := exec.CommandContext(ctx, p.node, "queue.mjs", p.port, method, string(text))
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node's queue.%s(%s): %v\n%s", method, text, err, complaints.String())
	}
	return json.RawMessage(strings.TrimSpace(string(out)))
}

// decode makes a value of what queue returned.
func decode[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// event is a line that a running script printed.
type event struct {
	Event  string
	Name   string
	Queue  string
	Class  string
	Error  string
	N      int
	Result json.RawMessage
}

// script is a node process that runs until stop or the test's end.
type script struct {
	name       string
	cmd        *exec.Cmd
	stdin      io.Closer
	events     chan event
	complaints *os.File
	ended      bool
}

func (p *peer) start(t *testing.T, name string, args ...string) *script {
	t.Helper()
	complaints, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(p.node, append([]string{name, p.port}, args...)...)
	cmd.Stderr = complaints
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("node %s: %v", name, err)
	}
	s := &script{name: name, cmd: cmd, stdin: stdin, events: make(chan event, 4096), complaints: complaints}
	go func() {
		defer close(s.events)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				e = event{Event: "unreadable", Error: lines.Text()}
			}
			s.events <- e
		}
	}()
	t.Cleanup(func() { s.stop(t) })
	return s
}

// next waits for an event of this kind and skips others.
func (s *script) next(t *testing.T, kind string) event {
	t.Helper()
	for timeout := time.After(patience); ; {
		select {
		case e, ok := <-s.events:
			if !ok {
				t.Fatalf("node %s ended before it said %q; it said:\n%s", s.name, kind, s.log())
			}
			if e.Event == kind {
				return e
			}
		case <-timeout:
			t.Fatalf("node %s did not say %q; its log:\n%s", s.name, kind, s.log())
		}
	}
}

// stop lets the script end as it should, and returns the events that were not read.
func (s *script) stop(t *testing.T) []event {
	t.Helper()
	if s.ended {
		return nil
	}
	s.ended = true
	defer s.complaints.Close()
	_ = s.stdin.Close()
	kill := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	var rest []event
	for e := range s.events {
		rest = append(rest, e)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("node %s: %v\n%s", s.name, err, s.log())
	}
	return rest
}

func (s *script) log() string {
	text, _ := os.ReadFile(s.complaints.Name())
	return string(text)
}

// daemon is a goworker.Daemon that the test runs.
type daemon struct {
	*goworker.Daemon
	stopped chan error
	cancel  context.CancelFunc
}

// newDaemon makes a Daemon of two workers; run it when the classes are registered.
func newDaemon(server *redistest.Server, queues string, change ...func(*goworker.WorkerSettings)) *daemon {
	settings := goworker.WorkerSettings{
		URI:            server.URI(),
		QueuesString:   queues,
		Concurrency:    2,
		DisableSignals: true,
		Logger:         slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&settings)
	}
	return &daemon{Daemon: goworker.New(settings)}
}

// run starts the daemon; stop or the test's end stops it.
func (d *daemon) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel, d.stopped = cancel, make(chan error, 1)
	go func() { d.stopped <- d.Run(ctx) }()
	t.Cleanup(func() { d.stop(t) })
}

func (d *daemon) stop(t *testing.T) {
	t.Helper()
	if d.cancel == nil {
		return
	}
	d.cancel()
	d.cancel = nil
	select {
	case err := <-d.stopped:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(patience):
		t.Error("the daemon did not stop")
	}
	d.Close()
}

// receive waits for a value that a handler or a script passes on.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("this did not happen: %s", what)
		panic("unreachable")
	}
}
