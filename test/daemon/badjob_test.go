package daemon

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A bad job costs itself: one failure record that keeps the text, and all workers
// go on.
func TestBadJobs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, payload string
		class, text   string // of the filed payload; text "" is the payload itself
		exception     string
	}{
		{"not JSON", `this is <no> "json"`, "InvalidPayload", "", "Resque::Helpers::DecodeException"},
		{"empty", ``, "InvalidPayload", "", "Resque::Helpers::DecodeException"},
		{"null", `null`, "InvalidPayload", "", "Resque::Helpers::DecodeException"},
		{"a number", `42`, "InvalidPayload", "", "Resque::Helpers::DecodeException"},
		{"an array", `["Mark"]`, "InvalidPayload", "", "Resque::Helpers::DecodeException"},
		{"no class", `{"args":[1]}`, "InvalidPayload", "", "Resque::Helpers::DecodeException"},
		{"null class", `{"class":null,"args":[]}`, "InvalidPayload", "", "Resque::Helpers::DecodeException"},
		{"unknown class", `{"class":"Nobody","args":["é", 1.0]}`, "Nobody", "", "NameError"},
		{"wrong argument", `{"class":"Mark","args":[{"a" : 1}]}`, "Mark", "", "ArgumentError"},
		{"too many arguments", `{"class":"Mark","args":["a","b"]}`, "Mark", "", "ArgumentError"},
		{"a panic", `{"class":"Panic","args":[],"more":true}`, "Panic", "", "PanicError"},
		{"Goexit", `{"class":"Goexit","args":[]}`, "Goexit", "", "Error"},
		{"a panic with nil error", `{"class":"NilError","args":[]}`, "NilError", "", ""},
	}
	b := daemontest.Setup(t)
	b.Daemon.Register("Panic", func() { panic("aargh") })
	b.Daemon.Register("Goexit", func() { runtime.Goexit() })
	b.Daemon.Register("NilError", func() error { var e *strings.Builder; panic(e.Len()) })
	for range 3 { // more bad jobs than workers, of each kind
		for _, test := range tests {
			b.Push(test.payload)
		}
	}
	b.Start()
	want := 3 * len(tests)
	b.Eventually("all are failures", func() bool { return b.Stat("failed") == want })

	found := make(map[string]int)
	for _, f := range b.Failures() {
		var p struct {
			Class string
			Args  []any
		}
		if err := json.Unmarshal(f.Payload, &p); err != nil {
			t.Fatalf("payload %s: %v", f.Payload, err)
		}
		text := string(f.Payload)
		if p.Class == "InvalidPayload" {
			text, _ = p.Args[0].(string)
		}
		found[text]++
		for _, test := range tests {
			if test.payload != text {
				continue
			}
			if p.Class != test.class || (test.exception != "" && f.Exception != test.exception) {
				t.Errorf("%s: filed as class %q with exception %q, want %q, %q", test.name, p.Class, f.Exception, test.class, test.exception)
			}
			if f.Queue != "work" || !strings.Contains(f.Worker, ".go:") || f.Error == "" || f.FailedAt == "" {
				t.Errorf("%s: the record is not complete: %+v", test.name, f)
			}
		}
	}
	for _, test := range tests {
		if found[test.payload] != 3 {
			t.Errorf("%s: %d records keep the text %q, want 3", test.name, found[test.payload], test.payload)
		}
	}

	// All four workers are there: four jobs that wait for each other's start.
	b.Push(daemontest.Jobs("Hold", 4)...)
	b.Eventually("all workers work", func() bool { return b.Runs.Started() == 4 })
	b.Open()
	b.Eventually("they are done", func() bool { return b.Stat("processed") == want+4 })
	if n := b.Stat("failed"); n != want {
		t.Errorf("stat:failed is %d, want %d", n, want)
	}
}

func TestTwoDaemonsSideBySide(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one := daemontest.SetupOn(t, server)
	two := daemontest.SetupOn(t, server)
	other := daemontest.SetupOn(t, server, func(s *goworker.WorkerSettings) { s.Namespace = "elsewhere" })
	for _, b := range []*daemontest.Bundle{one, two, other} {
		b.Start()
	}
	one.Push(daemontest.Jobs("Hold", 8)...)
	server.Do(t, "RPUSH", "elsewhere:queue:work", daemontest.Job("Hold", "far"))
	one.Eventually("each works at its own", func() bool {
		return one.Runs.Started() == 4 && two.Runs.Started() == 4 && other.Runs.Starts("far") == 1
	})
	ids := server.List(t, "SMEMBERS", "resque:workers")
	if len(ids) != 8 {
		t.Errorf("two daemons with 4 workers each registered %q", ids)
	}
	if n := len(server.List(t, "SMEMBERS", "elsewhere:workers")); n != 4 {
		t.Errorf("%d workers in the other namespace, want 4", n)
	}
	if n := len(server.List(t, "HKEYS", "resque:workers:heartbeat")); n != 8 {
		t.Errorf("%d heartbeats, want 8", n)
	}

	// One stops: the other's records stay, and it works on.
	one.Open()
	if err := one.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := server.List(t, "SMEMBERS", "resque:workers"); len(left) != 4 {
		t.Errorf("after one has stopped %q are registered", left)
	}
	two.Open()
	other.Open()
	two.Push(daemontest.Job("Mark", "after"))
	two.Eventually("the other works on", func() bool { return two.Runs.Ends("after") == 1 })
	if err := two.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := other.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := one.Stat("processed"); n != 9 {
		t.Errorf("stat:processed is %d, want 9", n)
	}
	if n := server.Int(t, "GET", "elsewhere:stat:processed"); n != 1 {
		t.Errorf("the other namespace's stat:processed is %d, want 1", n)
	}
	one.OnlyTotals()
}
