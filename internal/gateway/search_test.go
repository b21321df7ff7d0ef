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
	s.note("1:qa", now)
	s.note("1:qb", now.Add(59*time.Second))
	s.note("1:qc", now.Add(61*time.Second))
	s.forget("1:qc")
	for place, want := range map[string]bool{"1:qa": true, "1:qb": true, "1:qc": false, "1:qd": false} {
		if got := s.has(place, now.Add(110*time.Second)); got != want {
			t.Errorf("%s: %v", place, got)
		}
	}
	if s.has("1:qb", now.Add(10*time.Minute)) {
		t.Error("it is known for ever")
	}
	for range mostEnded + 1 { // many jobs end: what is known of them is bounded
		s.note(time.Duration(len(s.ended[0])).String(), now.Add(62*time.Second))
	}
	if n := len(s.ended[0]) + len(s.ended[1]); n > 2*mostEnded {
		t.Errorf("%d are known", n)
	}
}
