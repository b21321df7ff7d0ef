package tail

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/events"
)

func watching(whole bool) *watcher {
	return &watcher{
		whole: whole, sees: func(queue string) bool { return queue == "mail" },
		text: func(text string) string { return strings.ReplaceAll(text, "secret", "•") },
	}
}

// Events of one kind, queue and class that come too fast share a row, so that others keep theirs.
func TestFold(t *testing.T) {
	t.Parallel()
	w := watching(true)
	at := time.Unix(1_800_000_000, 0)
	w.add(events.Event{Kind: events.Failed, At: at, Queue: "mail", Class: "A", ID: "bad", Count: 1}, nil)
	for n := range 1842 {
		w.add(events.Event{Kind: events.Done, At: at, Queue: "mail", Class: "A", ID: fmt.Sprint(n), Count: 1}, nil)
	}
	w.add(events.Event{Kind: events.Done, At: at.Add(time.Second), Queue: "mail", Class: "A", ID: "next", Count: 1}, nil)
	w.add(events.Event{Kind: events.Done, At: at.Add(time.Second), Queue: "mail", Class: "A", Count: 500, P95: time.Second}, nil)
	s, err := w.seen()
	if err != nil || s.Count != 1+1842+1+500 || len(s.Events) != 1+alone+1+2 {
		t.Fatalf("%d events in %d rows, %v", s.Count, len(s.Events), err)
	}
	if e := s.Events[0]; e.Count != 500 || e.P95 != time.Second {
		t.Errorf("%+v", e)
	}
	if e := s.Events[2]; e.Count != 1842-alone || e.ID != "" || e.Kind != events.Done {
		t.Errorf("%+v", e)
	}
	if s.Events[len(s.Events)-1].ID != "bad" {
		t.Error("the failure has left the list")
	}
}

// The newest 200 are kept.
func TestKept(t *testing.T) {
	t.Parallel()
	w := watching(true)
	for n := range 1001 {
		w.add(events.Event{Kind: events.Failed, At: time.Unix(int64(n), 0), Queue: "mail", ID: fmt.Sprint(n), Count: 1}, nil)
	}
	s, _ := w.seen()
	if len(s.Events) != Rows || s.Events[0].ID != "1000" || s.Events[Rows-1].ID != "801" {
		t.Errorf("%d, from %s to %s", len(s.Events), s.Events[0].ID, s.Events[len(s.Events)-1].ID)
	}
}

// A user of some queues sees nothing of others, nor of processes; texts are masked; a Redis that is away is said and forgotten.
func TestSeen(t *testing.T) {
	t.Parallel()
	w := watching(false)
	w.add(events.Event{}, errors.New("goworker: no connection"))
	if s, _ := w.seen(); s.Away != "no connection" {
		t.Errorf("%+v", s)
	}
	w.add(events.Event{Kind: events.Failed, Queue: "mail", Process: "p", Text: "a secret", Count: 1}, nil)
	w.add(events.Event{Kind: events.Failed, Queue: "other", Count: 1}, nil)
	w.add(events.Event{Kind: events.Online, Process: "p", Count: 1}, nil)
	w.add(events.Event{Kind: events.Missed, Process: "p", Text: "why", Count: 3}, nil)
	s, _ := w.seen()
	if len(s.Events) != 2 || s.Away != "" || s.Events[0].Kind != events.Missed || s.Events[0].Process != "" || s.Events[1].Process != "" || s.Events[1].Text != "a •" {
		t.Errorf("%+v", s)
	}
}
