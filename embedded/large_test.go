package embedded_test

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/internal/resque"
)

// Large payloads are in fields of their own in the in-flight record here too, and jobs with locks are not.
func TestLargePayloads(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start("127.0.0.1:0", goworker.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c, err := server.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := resque.New("")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Enter(c, resque.Process{ID: "p", Host: "h", PID: 1, Concurrency: 1, Started: time.Now(), IDHead: "h-", IDQueues: "q"}, time.Minute, time.Now()))
	large, text := strings.Repeat("x", 2*resque.ApartFrom), strings.Repeat("x", 30<<10)
	must(s.Push(c, "q", []byte(`{"class":"C","args":[]}`), []byte(`{"class":"C","args":["`+large+`"]}`),
		[]byte(`{"class":"C","args":["`+text+`"],"unique":"done:a"}`), []byte(`{"class":"C","args":["`+text+`"]}`)))
	exchange := func(x resque.Exchange) resque.Exchanged {
		t.Helper()
		x.Process, x.Epoch, x.Apart = "p", 1, resque.ApartFrom
		must(s.Send(c, &x))
		out, err := s.Receive(c, &x)
		must(err)
		return out
	}
	jobs := exchange(resque.Exchange{Want: 9, Asks: []resque.Ask{{Queue: "q", Quota: 9}}}).Jobs
	for i, prefix := range []string{`1:q{"cl`, "~1:q", `1:q{"cl`, "~1:q"} {
		value, err := c.Do("HGET", s.KeyOfInFlight("p"), i+1)
		must(err)
		if text := string(value.([]byte)); text[:min(len(text), 7)] != prefix {
			t.Errorf("ticket %d has %.20q, want %q", i+1, text, prefix)
		}
	}
	exchange(resque.Exchange{Last: 4, Done: []int64{1, 2, 3}, Spent: []int64{2}, Ended: []resque.Ended{{Ticket: 4, Effects: s.Tail(jobs[3])}}})
	exchange(resque.Exchange{Last: 4, Spent: []int64{4}})
	if n, err := c.Do("HLEN", s.KeyOfInFlight("p")); err != nil || n != int64(1) {
		t.Errorf("%v fields are left, %v", n, err)
	}
	if n, err := c.Do("LLEN", s.KeyOfQueue("q")); err != nil || n != int64(1) {
		t.Errorf("%v jobs are in the queue, %v", n, err)
	}
}
