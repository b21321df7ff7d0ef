package dashboard_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

type classesPage struct {
	Ran     int
	Classes []classRow
}

type classRow struct {
	Class                  string
	Runs, Failed, Failures int
	Fail, Share            float64
	Registered, Paused     bool
	Rules                  int
}

type classPage struct {
	classRow
	Times *struct {
		Runs [][]int64
	} `json:"run_times"`
	Registration *struct {
		Timeout int `json:"timeout_ms"`
		Retries int
	}
	Set []struct{ Kind, Value, Key, By, Why string } `json:"rules_set"`
}

func (d *desk) class(name string) classPage {
	d.Helper()
	return decoded[classPage](d, d.Get("/api/v1/classes/"+name, ""))
}

// A class is counted, paused and resumed, and its rules are set and reset.
func TestClasses(t *testing.T) {
	t.Parallel()
	if a := setup(t).Get("/classes", ""); a.Status != 200 || !strings.Contains(a.Body, "No class is known yet") {
		t.Errorf("empty: %d", a.Status)
	}
	d := setup(t)
	d.fail(failure{class: "<b>Ruby", text: "password=hunter2"}, failure{class: "../a/b?c%d"})
	var runs, others atomic.Int64
	d.works(func(w *goworker.Daemon) {
		w.Register("Mail", func(n int) error {
			if runs.Add(1); n == 0 {
				return errors.New("no luck")
			}
			return nil
		}, goworker.Timeout(30*time.Second))
		w.Register("Other", func() { others.Add(1) })
	})
	for n := range 10 {
		d.enqueue("Mail", []any{n})
	}
	redistest.Eventually(t, time.Minute, "the runs are counted", func() bool { // the page keeps for half a minute what it has read
		h, err := d.Client.Inspect().History(t.Context(), inspect.HistoryQuery{Since: time.Now().Add(-24 * time.Hour), Step: 10 * time.Minute})
		r, wrong := d.Client.Inspect().Registered(t.Context())
		if err := errors.Join(err, wrong); err != nil {
			t.Fatal(err)
		}
		mail := h.Total().Classes["Mail"]
		return mail.Runs.Count() == 10 && mail.Done+mail.Failed == 10 && len(r.Classes) == 2
	})
	listed := decoded[classesPage](d, d.Get("/api/v1/classes?span=24h", ""))
	if n := slices.IndexFunc(listed.Classes, func(c classRow) bool {
		return c.Class == "Mail" && c.Runs == 10 && c.Failed == 1 && c.Fail == 10 && c.Share > 0
	}); n < 0 {
		t.Errorf("%+v", listed)
	}
	c := decoded[classPage](d, d.Get("/api/v1/classes/Mail?span=24h", ""))
	var sum int64
	for _, row := range c.Times.Runs {
		for _, n := range row {
			sum += n
		}
	}
	if sum != 10 {
		t.Errorf("%d runs in the heat map", sum)
	}
	redistest.Eventually(t, time.Minute, "the failures are grouped", func() bool {
		return strings.Contains(d.Get("/classes?sort=name", "").Body, "&lt;b&gt;Ruby")
	})
	for _, path := range []string{"/classes", "/classes?sort=fail&q=mai", "/classes/Mail", "/classes/%3Cb%3ERuby", "/classes/..%2Fa%2Fb%3Fc%25d", "/classes/Mail?span=90d"} {
		if a := d.Get(path, ""); a.Status != 200 || strings.Contains(a.Body, "hunter2") || strings.Contains(a.Body, "<b>Ruby") {
			t.Errorf("%s: %d", path, a.Status)
		}
		if a := d.Get(path, "mia admin mail"); a.Status != 404 {
			t.Errorf("%s: a user of some queues: %d", path, a.Status)
		}
	}
	if a := d.Get("/classes/nosuch", ""); a.Status != 404 {
		t.Errorf("no such class: %d", a.Status)
	}

	base := "/classes/Mail"
	for path, user := range map[string]string{"/pause": "eve viewer", "/limit": "olga operator", "/timeout": "olga operator", "/retries": "olga operator", "/reset": "olga operator"} {
		if a := d.Post(base+path, user, "numbers", "1", "timeout", "1s", "retries", "1"); a.Status != http.StatusForbidden {
			t.Errorf("%s by %s: %d", path, user, a.Status)
		}
	}
	if a := d.Post(base+"/pause", "olga operator", "for", "1h", "why", "the server is down"); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if c := d.class("Mail"); !c.Paused || len(c.Set) != 1 || c.Set[0].By != "olga" || c.Set[0].Why != "the server is down" {
		t.Errorf("%+v", c)
	}
	all := int64(10)
	redistest.Eventually(t, time.Minute, "a job of the paused class is held back", func() bool { // one that the process takes before it learns of the pause runs
		held, err := d.Client.Inspect().Waiting(t.Context(), "work")
		if err == nil && len(held) == 0 && runs.Load() == all {
			d.enqueue("Mail", []any{all + 1})
			all++
		}
		return err == nil && len(held) > 0
	})
	d.enqueue("Other", nil)
	redistest.Eventually(t, time.Minute, "another job runs", func() bool { return others.Load() == 1 })
	if runs.Load() != all-1 {
		t.Error("a job of the paused class runs")
	}
	if a := d.Get("/classes", ""); !strings.Contains(a.Body, ">paused<") {
		t.Error("the list does not say that it is paused")
	}
	if a := d.Post(base+"/resume", "olga operator"); a.Status != http.StatusSeeOther {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := d.Post(base+"/resume", "olga operator"); a.Status != 404 {
		t.Errorf("resumed twice: %d", a.Status)
	}
	redistest.Eventually(t, time.Minute, "it goes on", func() bool { return runs.Load() == all })

	for path, body := range map[string]string{
		"/limit": `{"numbers":"5/s","key":"0.account","for":"1h","why":"slow"}`, "/timeout": `{"timeout":"10s"}`, "/retries": `{"retries":3}`,
	} {
		if a := d.act(base+path, "ann admin", body); a.Status != 200 {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	for path, body := range map[string]string{"/limit": `{"numbers":"x"}`, "/timeout": `{"timeout":""}`, "/retries": `{"retries":-2}`} {
		if a := d.act(base+path, "ann admin", body); a.Status != 400 {
			t.Errorf("%s %s: %d", path, body, a.Status)
		}
	}
	if c := d.class("Mail"); len(c.Set) != 3 || c.Registration == nil || c.Registration.Timeout != 30_000 {
		t.Errorf("%+v", c)
	}
	if a := d.Get(base, ""); !strings.Contains(a.Body, "for each value of 0.account") {
		t.Error("the page does not say the limit")
	}
	if a := d.act(base+"/reset", "ann admin", `{}`); a.Status != 200 || len(d.class("Mail").Set) != 0 {
		t.Errorf("reset: %d %s", a.Status, a.Body)
	}
	log := d.audited()
	for _, part := range []string{"dashboard olga: PauseClass", "dashboard olga: ResumeClass", "dashboard ann: LimitClass", "dashboard ann: SetTimeout", "dashboard ann: SetRetries", "dashboard ann: ResetClass"} {
		if !strings.Contains(log, part) {
			t.Errorf("the audit has no %q: %s", part, log)
		}
	}
}
