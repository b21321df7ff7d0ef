package gateway

import (
	"testing"
	"time"
)

// One client at a time searches a queue, and then it rests for twenty times as long. Other queues do not.
func TestSearchesRest(t *testing.T) {
	t.Parallel()
	var s searches
	now := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		what, queue string
		after       time.Duration
		want        bool
	}{
		{"the first", "a", 0, true},
		{"a second one beside it", "a", 0, false},
		{"of another queue", "b", 0, true},
		{"while the queue rests", "a", 199 * time.Millisecond, false},
		{"once it has rested", "a", 200 * time.Millisecond, true},
	} {
		if tt.after > 0 && s.under["a"] {
			s.end("a", now, 10*time.Millisecond)
		}
		if got := s.begin(tt.queue, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
}

// A job that has ended here is known for a minute at least, unless one of its id is published.
func TestSearchesKnowWhatEnded(t *testing.T) {
	t.Parallel()
	var s searches
	now := time.Unix(1_800_000_000, 0)
	s.note("q", "a", now)
	s.note("q", "b", now.Add(59*time.Second))
	s.note("q", "c", now.Add(61*time.Second))
	s.forget("q", "c")
	for id, want := range map[string]bool{"a": true, "b": true, "c": false, "d": false} {
		if got := s.has("q", id, now.Add(110*time.Second)); got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
	if s.has("q", "b", now.Add(10*time.Minute)) {
		t.Error("it is known for ever")
	}
	for range mostEnded + 1 { // many jobs end: what is known of them is bounded
		s.note("q", time.Duration(len(s.ended[0])).String(), now.Add(62*time.Second))
	}
	if n := len(s.ended[0]) + len(s.ended[1]); n > 2*mostEnded {
		t.Errorf("%d are known", n)
	}
}

// A server puts a job back three times whose answer could not be written.
func TestReleases(t *testing.T) {
	t.Parallel()
	var r releases
	for i := range mostReleases + 1 {
		if r.may("4:mail1") != (i < mostReleases) {
			t.Errorf("the job may go back %d times", i+1)
		}
	}
	if !r.may("4:mail2") {
		t.Error("another job may not go back")
	}
}
