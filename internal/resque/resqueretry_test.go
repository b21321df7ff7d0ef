package resque

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/payload"
)

func retryKeyOf(t *testing.T, class, args string, blanks bool) RetryKey {
	t.Helper()
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(args), &list); err != nil {
		t.Fatal(err)
	}
	return NewRetryKey(class, list, blanks)
}

// As resque-retry's redis_retry_key returned them.
func TestRetryKey(t *testing.T) {
	t.Parallel()
	tests := []struct{ class, args, want string }{
		{"RJ", `[1,"a"]`, "resque-retry:RJ:92b083ca8ad311b6856d7c5dc28e0ff4b300862d"},
		{"RJ", `[1,null,{"a":1},[2,3],1.5,true,"a b"]`, "resque-retry:RJ:9847a42b05978a0ac1a69e53d1717297d21f3715"},
		{"RJ", `[]`, "resque-retry:RJ"},
		{"RJ", `[null]`, "resque-retry:RJ"},
		{"RJ", `[""]`, "resque-retry:RJ"},
		{"Mod::My Job", `[]`, "resque-retry:Mod::MyJob"},
	}
	for _, tt := range tests {
		if got := retryKeyOf(t, tt.class, tt.args, false); string(got) != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.class, tt.args, got, tt.want)
		}
	}
	// Ruby 3.4 shows {"a" => 1}.
	if older, newer := retryKeyOf(t, "RJ", `[{"a":1}]`, false), retryKeyOf(t, "RJ", `[{"a":1}]`, true); older == newer {
		t.Errorf("both %s", older)
	}
	if older, newer := retryKeyOf(t, "RJ", `[[1,2]]`, false), retryKeyOf(t, "RJ", `[[1,2]]`, true); older != newer {
		t.Errorf("%s and %s", older, newer)
	}
}

func TestReadCounts(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.do("SET", "resque:resque-retry:Ruby", 2) // Ruby has retried it twice
	w.do("SET", "resque:resque-retry:Waits", -1)
	w.do("SET", "resque:resque-retry:Less", -7)
	w.do("SET", "resque:resque-retry:Most", "9223372036854775807")
	w.do("RPUSH", "resque:resque-retry:List", "x")
	w.do("SET", "resque:resque-retry:Word", "x")
	counts := []*RetryCount{{Key: "resque-retry:New"}, {Key: "resque-retry:Ruby"}, {Key: "resque-retry:Waits"}, {Key: "resque-retry:Less"}, {Key: "resque-retry:Most"}, {Key: "resque-retry:List"}, {Key: "resque-retry:Word"}}
	w.unchanged("reading", func() { w.must(w.s.ReadCounts(w.c, counts)) })
	for i, want := range []int{0, 3, 0, 0, payload.MaxRuns + 1} {
		if r := counts[i]; r.Err != nil || r.Retries != want {
			t.Errorf("%s: %d, %v; want %d", r.Key, r.Retries, r.Err, want)
		}
	}
	for _, r := range counts[5:] {
		if r.Err == nil || !strings.Contains(r.Err.Error(), "resque:"+string(r.Key)) {
			t.Errorf("%s: %v", r.Key, r.Err)
		}
	}
}

// While a job waits, the keys are those that Ruby's plugins write.
func TestRetryLikeRuby(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", `{"class":"RJ","args":[1,"a"]}`)
	m := w.enter("p")
	job := m.reserve(1, "low")[0]
	key := RetryKey("resque-retry:RJ:92b083ca8ad311b6856d7c5dc28e0ff4b300862d")
	item := `{"class":"RJ","args":[1,"a"],"queue":"low"}`

	bucket, ok := w.s.DelayPlain(2_000_000_000, "low", job.Payload)
	if !ok {
		t.Fatal("a plain job is refused")
	}
	effects := append([]Effect{w.s.SetCount(key, 0, 30*time.Second, 0), w.s.HoldFailure(key, []byte("record"), 30*time.Second)}, bucket...)
	out := m.turn(Exchange{Ended: []Ended{{Ticket: job.Ticket, Counts: CountsFailed, Effects: effects}}})
	w.same("refused", []Refusal(nil), out.Refused)
	w.same("count", "0", w.server.Text(t, "GET", "resque:"+string(key)))
	w.same("failure", "record", w.server.Text(t, "GET", "resque:failure-"+string(key)))
	if ttl := w.server.Int(t, "TTL", "resque:failure-"+string(key)); ttl < 50 || ttl > 60 {
		t.Errorf("the failure is kept for %d s, want 60", ttl)
	}
	w.same("bucket", []string{item}, w.server.List(t, "LRANGE", "resque:delayed:2000000000", 0, -1))
	w.same("schedule", []string{"2000000000", "2000000000"}, w.server.List(t, "ZRANGE", "resque:delayed_queue_schedule", 0, -1, "WITHSCORES"))
	w.same("timestamps", []string{"delayed:2000000000"}, w.server.List(t, "SMEMBERS", "resque:timestamps:"+item))
	w.same("stats", [2]int{1, 1}, w.stats())
	w.same("record", []string{}, append([]string{}, w.record("p")...))

	for _, extra := range []string{`{"class":"RJ","args":[],"id":"7"}`, `{"args":[],"class":"RJ"}`, `{"class":"RJ"}`, `[]`} {
		if _, ok := w.s.DelayPlain(1, "low", []byte(extra)); ok {
			t.Errorf("%s is taken for a plain job", extra)
		}
	}
}
