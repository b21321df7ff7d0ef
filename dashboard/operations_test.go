package dashboard_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// operation is an operation as the pages say it.
type operation struct {
	ID, Verb, State, Who, Filter, Why string
	Done, Back, Gone, Expected        int64
	Binned                            int64 `json:"in_bin"`
	Undoing                           bool
	Share                             *float64
}

// operations are those that a user sees.
func (d *desk) operations(user string) (all []operation) {
	d.Helper()
	var page struct{ Operations []operation }
	d.Read("/operations", user, &page)
	return page.Operations
}

// begin begins an operation that nothing runs.
func (d *desk) begin(who string, p inspect.Plan) inspect.Operation {
	d.Helper()
	op, err := d.Client.Inspect().By(who, "a test").Operations().Start(d.Context(), p)
	if err != nil {
		d.Fatal(err)
	}
	return op
}

func (d *desk) finish(op inspect.Operation) {
	d.Helper()
	for _, err := range d.Client.Inspect().Operations().Run(d.Context(), op.ID) {
		if err != nil {
			d.Fatal(err)
		}
	}
}

// fillQueue fills a queue.
func (d *desk) fillQueue(queue string, count int) {
	d.Helper()
	d.redis.Do(d, "SADD", "resque:queues", queue)
	for n := range count {
		d.redis.Do(d, "RPUSH", "resque:queue:"+queue, fmt.Sprintf(`{"class":"Send","args":[%d]}`, n))
	}
}

func clear(queue string) inspect.Plan {
	return inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: queue}}
}

// Pages of what is not there yet say what would be.
func TestNoOperations(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.redis.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "-1") // on a busy machine any command may be slow
	d.redis.Do(t, "SLOWLOG", "RESET")
	for path, want := range map[string]string{"/operations": "No operations", "/bin": "The bin is empty", "/audit": "No changes", "/http?v=tokens": "No tokens", "/redis/slow": "No slow commands", "/redis/keys": "No key fits"} {
		if a := d.Get(path, ""); !strings.Contains(a.Body, want) {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
}

// An operation that nothing runs goes on by a button. Undo brings its jobs back in their order. Two people who press make one action, and
// a viewer makes none.
func TestOperationPages(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fillQueue("mail", 30)
	before := d.jobs("mail")
	op := d.begin("ada", clear("mail"))
	at := "/operations/" + op.ID
	for _, path := range []string{"/operations", at} {
		if a := d.Get(path, ""); a.Status != http.StatusOK || !strings.Contains(a.Body, "Clear mail") || !strings.Contains(a.Body, "not begun") || !strings.Contains(a.Body, at+"/run") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		if a := d.Get(path, "eve viewer"); strings.Contains(a.Body, at+"/run") || strings.Contains(a.Body, at+"/stop") {
			t.Error("a viewer has buttons")
		}
	}
	if a := d.Post(at+"/run", "eve viewer"); a.Status != http.StatusForbidden {
		t.Error(a.Status)
	}
	if a := d.Post(at+"/stop", "bob operator", "why", "not now"); a.Status != http.StatusSeeOther {
		t.Error(a.Status, a.Body)
	}
	if all := d.operations(""); len(all) != 1 || all[0].State != "stopped" || all[0].Why != "not now" || all[0].Who != "ada" {
		t.Errorf("%+v", all)
	}
	if a := d.Post(at+"/run", "bob operator"); a.Status != http.StatusSeeOther || a.Header.Get("Location") != at {
		t.Error(a.Status, a.Header, a.Body)
	}
	redistest.Eventually(t, time.Minute, "it is done", func() bool { return d.operations("")[0].State == "done" })
	if all := d.operations(""); all[0].Done != 30 || len(d.jobs("mail")) != 0 {
		t.Errorf("%+v", all)
	}
	if a := d.act(at+"/run", "bob operator", ""); a.Status != http.StatusConflict {
		t.Error(a.Status, a.Body)
	}
	if a := d.Get(at, ""); !strings.Contains(a.Body, "Undo brings back 30 of 30") || !strings.Contains(a.Body, at+"/undo") {
		t.Error(a.Body)
	}
	var both sync.WaitGroup
	for _, user := range []string{"ann operator", "bob operator"} {
		both.Go(func() { d.act(at+"/undo", user, "") })
	}
	both.Wait()
	redistest.Eventually(t, time.Minute, "it is taken back", func() bool { return d.operations("")[0].State == "undone" })
	if after := d.jobs("mail"); !slices.Equal(before, after) {
		t.Errorf("%q came back of %q", after, before)
	}
	if a := d.act(at+"/undo", "bob operator", ""); a.Status != http.StatusConflict {
		t.Error(a.Status, a.Body)
	}
	if lines := d.audited(); strings.Count(lines, "Operations.Undo") != 1 || !strings.Contains(lines, "dashboard bob: Operations.Stop operation "+op.ID) {
		t.Error(lines)
	}
	if a := d.Get("/operations/nosuch", ""); a.Status != http.StatusNotFound {
		t.Error(a.Status)
	}
}

// While an operation runs, every page shows it; a pause stands, and the bar is gone.
func TestOperationBar(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 40 {
		d.redis.Do(t, "RPUSH", "resque:failed", failure{class: "Send", args: fmt.Sprint([]int{n})}.record())
	}
	op := d.begin("ada", inspect.Plan{Verb: inspect.Retry, Query: inspect.Query{Places: []inspect.Place{inspect.Failed}}, Pace: 1, Expected: 40})
	if a := d.Get("/queues", ""); strings.Contains(a.Body, op.ID) {
		t.Error("one that does not run is on a page")
	}
	if a := d.act("/operations/"+op.ID+"/run", "", ""); a.Status != http.StatusAccepted {
		t.Fatal(a.Status, a.Body)
	}
	redistest.Eventually(t, time.Minute, "the bar", func() bool { return strings.Contains(d.Get("/queues", "").Body, "/operations/"+op.ID+"/stop") })
	if a := d.Get("/queues", "eve viewer"); !strings.Contains(a.Body, "Retry 40 jobs") || strings.Contains(a.Body, "/stop\"") {
		t.Error(a.Body)
	}
	if a := d.Get("/queues", "ann operator mail"); strings.Contains(a.Body, op.ID) {
		t.Error("a user of one queue sees it")
	}
	if a := d.act("/operations/"+op.ID+"/stop", "", ""); a.Status != http.StatusOK {
		t.Fatal(a.Status, a.Body)
	}
	redistest.Eventually(t, time.Minute, "the bar goes", func() bool { return !strings.Contains(d.Get("/queues", "").Body, "Retry 40 jobs") })
	if all := d.operations(""); all[0].State != "stopped" || all[0].Why != "paused by ops" || all[0].Share == nil || *all[0].Share >= 100 {
		t.Errorf("%+v", all)
	}
}

// A user who sees some queues sees the operations that he has begun on them, and acts on no other.
func TestOperationsOfSomeQueues(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, queue := range []string{"mail", "pay"} {
		d.fillQueue(queue, 3)
	}
	own, others, elsewhere := d.begin("ann", clear("mail")), d.begin("bob", clear("mail")), d.begin("ann", clear("pay"))
	moved := d.begin("ann", inspect.Plan{Verb: inspect.MoveTo, Query: inspect.Query{Queue: "mail"}, Queue: "pay"})
	const ann = "ann operator mail"
	if all := d.operations(ann); len(all) != 1 || all[0].ID != own.ID {
		t.Errorf("%+v", all)
	}
	for _, op := range []inspect.Operation{others, elsewhere, moved} {
		if a := d.Get("/operations/"+op.ID, ann); a.Status != http.StatusNotFound {
			t.Errorf("%s: %d", op.ID, a.Status)
		}
		for _, verb := range []string{"run", "stop", "undo"} {
			if a := d.Post("/operations/"+op.ID+"/"+verb, ann); a.Status != http.StatusNotFound {
				t.Errorf("%s %s: %d %s", verb, op.ID, a.Status, a.Body)
			}
		}
	}
	d.finish(own)
	d.fillQueue("mail", 2)
	d.finish(others)
	var bin struct {
		Bin  []struct{ Operation string }
		Jobs int64
	}
	if d.Read("/bin", ann, &bin); bin.Jobs != 3 || len(bin.Bin) != 1 || bin.Bin[0].Operation != own.ID {
		t.Errorf("%+v", bin)
	}
	if a := d.act("/bin/empty", "ann admin mail", `{"all":1,"confirm":3}`); a.Status != http.StatusNotFound {
		t.Error(a.Status, a.Body)
	}
	for _, path := range []string{"/audit", "/audit/export", "/redis", "/redis/keys", "/redis/keys/x", "/redis/slow", "/stats.txt", "/http?v=tokens"} {
		if a := d.Get(path, ann); a.Status != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
}

// The bin shows what undo brings back. It is emptied by an admin who types how many jobs that are.
func TestBin(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fillQueue("mail", 12)
	d.fillQueue("pay", 5)
	for _, queue := range []string{"mail", "pay"} {
		d.finish(d.begin("ada", clear(queue)))
	}
	if a := d.Get("/bin", ""); !strings.Contains(a.Body, "queue mail") || !strings.Contains(a.Body, "17 jobs in all") || !strings.Contains(a.Body, "Remove 17 jobs for good") {
		t.Error(a.Body)
	}
	if a := d.Get("/bin", "bob operator"); strings.Contains(a.Body, "for good") || !strings.Contains(a.Body, "/undo\"") {
		t.Error(a.Body)
	}
	for body, status := range map[string]int{`{}`: 400, `{"all":true}`: 400, `{"all":true,"confirm":"16"}`: 409} {
		if a := d.act("/bin/empty", "", body); a.Status != status {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if a := d.act("/bin/empty", "bob operator", `{"all":true,"confirm":17}`); a.Status != http.StatusForbidden {
		t.Error(a.Status)
	}
	mail := d.operations("")[1]
	if a := d.act("/bin/empty", "", `{"ids":["`+mail.ID+`"],"confirm":12}`); a.Status != http.StatusOK || !strings.Contains(a.Body, `"done":12`) {
		t.Error(a.Status, a.Body)
	}
	if a := d.act("/bin/empty", "", `{"all":true,"confirm":5}`); !strings.Contains(a.Body, `"done":5`) {
		t.Error(a.Status, a.Body)
	}
	if a := d.act("/bin/empty", "", `{"all":true,"confirm":5}`); a.Status != http.StatusOK || strings.Contains(a.Body, `"done":5`) {
		t.Error(a.Status, a.Body)
	}
	if !strings.Contains(d.audited(), "dashboard ops: Operations.EmptyBin the bin of "+mail.ID) {
		t.Error(d.audited())
	}
}

// change is a line of the audit as the page says it.
type change struct {
	Who, User, Face, Why, What, On, Old, Error, Result, Operation string
	Changed                                                       int64
}

func (d *desk) changes(query string) (all []change, next string) {
	d.Helper()
	var page struct {
		Changes []change
		Next    string
	}
	d.Read("/audit"+query, "", &page)
	return page.Changes, page.Next
}

// The audit says who changed what, on what it was and how it ended, without secrets, and a search for one finds nothing.
func TestAuditPage(t *testing.T) {
	t.Parallel()
	d := setup(t)
	note := func(e inspect.AuditEntry) {
		if e.At.IsZero() {
			e.At = time.Now()
		}
		text, _ := json.Marshal(e)
		d.redis.Do(t, "LPUSH", "resque:go:audit", text)
	}
	d.redis.Do(t, "LPUSH", "resque:go:audit", "=cmd|'x'!A0 another program's")
	note(inspect.AuditEntry{At: time.Now().Add(-time.Hour), Who: "eve", What: "Cancel", On: "job 1", Intent: true})
	note(inspect.AuditEntry{Who: "eve", What: "Cancel", On: "job 2", Intent: true})
	note(inspect.AuditEntry{Who: "ann", What: "Retry", On: "job 3", Intent: true})
	note(inspect.AuditEntry{Who: "ann", What: "Retry", On: "job 3", Changed: 1, Why: `password=hunter2 <script>`})
	note(inspect.AuditEntry{Who: "ann", What: "SetLimit", On: "limit x", Old: "2", Changed: 1, Face: "command", User: "ops"})
	op := d.begin("ada", inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Queue: "mail", Class: "Send"}})
	all, _ := d.changes("")
	if len(all) != 6 {
		t.Fatalf("%+v", all)
	}
	if c := all[0]; c.Operation != op.ID || c.On != "operation "+op.ID+": queue:mail class:Send" && !strings.Contains(c.On, "queue:mail") {
		t.Errorf("%+v", c)
	}
	if c := all[1]; c.Old != "2" || c.Face != "command" || c.User != "ops" || c.Result != "done" {
		t.Errorf("%+v", c)
	}
	if all[3].Result != "under way" || all[4].Result != "its process ended before it answered" || !strings.Contains(all[5].What, "another program") {
		t.Errorf("%+v", all)
	}
	for query, want := range map[string]int{"who:ann": 2, "did:retry": 1, "who:ann+-did:retry": 1, "old:2": 1, "job": 3, "hunter2": 0, "by:command": 1, "result:ended": 1, "who:nobody": 0} {
		if got, _ := d.changes("?q=" + query); len(got) != want {
			t.Errorf("%s: %+v", query, got)
		}
	}
	for _, path := range []string{"/audit", "/api/v1/audit", "/audit/export", "/audit/export?format=csv"} {
		if a := d.Get(path, "eve viewer"); a.Status != http.StatusOK || strings.Contains(a.Body, "hunter2") || strings.Contains(a.Header.Get("Content-Type"), "html") && strings.Contains(a.Body, "<script>") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	lines := strings.Split(strings.TrimSpace(d.Get("/audit/export?q=who:ann", "").Body), "\n")
	if len(lines) != 2 || !json.Valid([]byte(lines[0])) {
		t.Errorf("%q", lines)
	}
	a := d.Get("/audit/export?format=csv", "")
	rows, err := csv.NewReader(strings.NewReader(a.Body)).ReadAll()
	if err != nil || len(rows) != 7 || !strings.HasPrefix(rows[6][5], "'=cmd") || !strings.HasPrefix(a.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%q %v %v", rows, err, a.Header)
	}
}

// Pages of the audit go on where the one before ended, though changes are made meanwhile.
func TestAuditPaged(t *testing.T) {
	t.Parallel()
	d := setup(t)
	push := func(from, to int) {
		for n := from; n < to; n++ {
			text, _ := json.Marshal(inspect.AuditEntry{At: time.Now(), Who: "ann", What: "Call", On: fmt.Sprint("thing ", n), Changed: 1})
			d.redis.Do(t, "LPUSH", "resque:go:audit", text)
		}
	}
	push(0, 120)
	var seen []string
	for query, pages := "", 0; pages < 5; pages++ {
		all, next := d.changes(query)
		for _, c := range all {
			seen = append(seen, c.On)
		}
		if query = "?after=" + next; next == "" {
			break
		}
		push(1000*(pages+1), 1000*(pages+1)+30)
	}
	if len(seen) != 120 || seen[0] != "thing 119" || seen[119] != "thing 0" {
		t.Errorf("%d: %q", len(seen), seen)
	}
	if a := d.Get("/audit?after=nonsense", ""); a.Status != http.StatusBadRequest {
		t.Error(a.Status)
	}
}
