package goworker

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
)

// A worker's lines have room in common and nothing else, and a Logger that shows where lines come from learns that of each.
func TestLinesOfJobs(t *testing.T) {
	var out bytes.Buffer
	w := &workers{Base: part.Base{Log: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{AddSource: true}))}}
	h, task := new(hand), new(inflight.Task)
	task.Queue, task.Name, task.ID, task.Worker = "mail", "C", "j1", "w"
	failed := &outcome.Outcome{State: outcome.Retried, Err: errNoLuck, Ran: time.Second, Log: outcome.Log{Attrs: []slog.Attr{slog.Int("attempt", 3)}}}
	w.log(h, task, failed)
	w.log(h, new(inflight.Task), &outcome.Outcome{State: outcome.Cancelled})
	w.log(h, task, failed)
	type line struct {
		Source                                          slog.Source
		Msg, Queue, Class, Worker, ID, Error, Exception string
		Duration                                        time.Duration
		Attempt                                         int
	}
	var lines [3]line
	for i, d := 0, json.NewDecoder(&out); i < len(lines); i++ {
		if err := d.Decode(&lines[i]); err != nil {
			t.Fatal(err)
		}
		if f := lines[i].Source.Function; f != "github.com/goworker/goworker.(*workers).log" {
			t.Errorf("line %d comes from %q", i, f)
		}
		lines[i].Source = slog.Source{}
	}
	want := line{Msg: "job failed; it is retried", Queue: "mail", Class: "C", Worker: "w", ID: "j1", Error: errNoLuck.Error(), Exception: "Error", Duration: time.Second, Attempt: 3}
	if lines[0] != want || lines[2] != want || lines[1] != (line{Msg: "job cancelled"}) {
		t.Errorf("logged %+v", lines)
	}

	w.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	done := &outcome.Outcome{State: outcome.Cancelled}
	if n := testing.AllocsPerRun(100, func() { w.log(h, task, done) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
