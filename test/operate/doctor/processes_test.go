package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// TestProgramsSayWhatTheyRegistered: from what the records of real processes say, doctor knows of a class that no program has, and of a
// number that an operator has set.
func TestProgramsSayWhatTheyRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.daemon(make(chan string, 10))
	redistest.Eventually(t, daemontest.Soon, "the daemon has written its numbers", func() bool { return fmt.Sprint(w.do("HEXISTS", "~go:limits", "c:Slow")) == "1" })
	if found := bad(w.look(36, 44, 45, 46)); len(found) > 0 {
		t.Fatalf("nothing is wrong:\n%s", text(found))
	}

	in := w.inspect().By("ops", "the database is slow")
	if _, err := in.SetLimit(t.Context(), "c:Slow", "3"); err != nil {
		t.Fatal(err)
	}
	if f := w.look(45)[0]; f.State != checks.Found || f.Subject["number"] != "3" || f.Subject["theirs"] != "1" {
		t.Errorf("a number set by hand: %s", text([]checks.Finding{f}))
	}
	if _, err := in.SetLimit(t.Context(), "c:Slow", "1"); err != nil {
		t.Fatal(err)
	}
	if found := bad(w.look(45)); len(found) > 0 {
		t.Errorf("the number is the program's again:\n%s", text(found))
	}

	w.do("SADD", "~go:paused", "mail") // or the daemon takes the jobs and they fail
	redistest.Eventually(t, daemontest.Soon, "no job of a class that is not registered is taken", func() bool {
		w.queue("mail", `{"class":"Once","args":["x"]}`, `{"class":"Nowhere","args":[]}`)
		return w.server.Int(t, "LLEN", w.ns+"queue:mail") >= 2
	})
	found := bad(w.look(36))
	if len(found) != 1 || found[0].Subject["class"] != "Nowhere" {
		t.Errorf("of a class that no program has registered:\n%s", text(found))
	}
}

// TestStuckJobOfTheFleet: a handler that does not heed its context is found from outside, by its class and its process.
func TestStuckJobOfTheFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.daemon(nil)
	if _, err := w.client.Enqueue(t.Context(), goworker.NewJob("mail", "Deaf")); err != nil {
		t.Fatal(err)
	}
	var f checks.Finding
	redistest.Eventually(t, 3*time.Minute, "the job is stuck", func() bool {
		f = w.look(51)[0]
		return f.State == checks.Found
	})
	if f.Subject["class"] != "Deaf" || f.Subject["queue"] != "mail" {
		t.Errorf("%s", text([]checks.Finding{f}))
	}
}

// TestWhoPaused: a queue that an operator paused and forgot is found with the operator's name and reason, half an hour later.
func TestWhoPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.queue("mail", job)
	if err := w.inspect().By("ops@host-1", "broken template").PauseQueue(t.Context(), "mail"); err != nil {
		t.Fatal(err)
	}
	if found := bad(w.look(38)); len(found) > 0 {
		t.Errorf("a moment later:\n%s", text(found))
	}
	w.options.Now = func() time.Time { return time.Now().Add(31 * time.Minute) }
	f := w.look(38)[0]
	if f.State != checks.Found || !strings.Contains(f.Sentence, `by "ops@host-1": "broken template"`) {
		t.Errorf("half an hour later: %s", text([]checks.Finding{f}))
	}
}

// A process whose queues a renewal finds empty exchanges each 20 s. A job that has just come is no reason to report it.
func TestIdleProcessIsNotReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.process("a", "mail", "vitals", fmt.Sprintf(`{"at":%s,"exchange":%s,"workers":25,"busy":0}`, ms(0), ms(20*time.Second)))
	w.queue("mail", job)
	if found := bad(w.look(52)); len(found) > 0 {
		t.Errorf("reported are:\n%s", text(found))
	}
}
