package embedded_test

import (
	"testing"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// The scripts that change a workflow for a client or an operator do here what they do in Redis.
func TestWorkflowScripts(t *testing.T) {
	t.Parallel()
	c := dial(t, open(t, "embedded:"))
	s := workflows.New(resque.New(""))
	const place = "1 - - 0 - n q"
	payload := func(n, class, place string) []byte {
		return []byte(`{"class":"` + class + `","args":[],"wf":"` + place + `","id":"W.` + n + `"}`)
	}
	start := func() {
		t.Helper()
		if _, err := c.Do("FLUSHALL"); err != nil {
			t.Fatal(err)
		}
		started, err := s.Start(c, &workflows.Plan{
			ID: "W", Letters: []byte("sywbh"), Lock: "name",
			Fields: []any{
				"j0", "1 0 0 j 0 0 - - - -", "j1", "2 0 0 j 2 1 0 3 - -", "p0", "- 4 -", "s2", "s v 0+2 0 0 23 23 1:q" + string(payload("2", "Sum", "0 3 - 0 - 1 q")),
				"s4", "r e - 0 0 25 25 1:q" + string(payload("4", "Alert", "- - - - - 0 q")), "k1", "SECRET 60000 " + place,
				"s1", "y n - 0 0 0 0 1:q" + string(payload("1", "Ask", place)), "result", "v 2",
			},
			Jobs: []workflows.Job{{Step: 0, Queue: "q", Payload: payload("0", "Part", place)}, {Step: 1, Queue: "q", Payload: payload("1", "Ask", place)}},
		})
		if err != nil || !started.New {
			t.Fatal(started, err)
		}
	}
	is := func(state, letters string) {
		t.Helper()
		w, err := s.Read(c, "W")
		got, _ := c.Do("GET", s.LettersKey("W").String())
		if err != nil || w.State != state || string(got.([]byte)) != letters {
			t.Errorf("%s %s, %v; want %s %s", w.State, got, err, state, letters)
		}
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	token := workflows.Token("W", 1, "SECRET")

	start()
	must(s.Hold(c, "W", true))
	must(s.Hold(c, "W", false))
	must(s.Mark(c, "W", 0, place, []byte("1")))
	must(s.Complete(c, token, workflows.Done, []byte("2")))
	is("running", "ddsbh")
	must(s.Mark(c, "W", 2, "0 3 - 0 - 1 q", []byte("3")))
	is("done", "dddgh")

	start()
	must(nil, s.Removed(c, "q", payload("0", "Part", place)))
	must(s.Complete(c, token, workflows.Failed, []byte(`{"step":1}`)))
	is("failed", "ffwnr")
	must(s.Retry(c, "W", true))
	is("running", "sywbr")
	must(s.Halt(c, "W"))
	is("cancelled", "sywbr")
	must(s.Retry(c, "W", true))
	is("running", "sywbr")
	must(s.ListIndexed(c, "0"))
	must(s.ListDone(c, "0"))
	must(s.Names(c, "W"))
	if found, next, err := s.Steps(c, "W", 0, workflows.StepLetters); err != nil || next != -1 || len(found) != 3 {
		t.Errorf("%+v, %d, %v", found, next, err)
	}
}
