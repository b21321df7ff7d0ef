package dashboard_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/dashboard/internal/dashtest"
	"github.com/goworker/goworker/inspect/groups"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// failure is a record as Resque writes it.
type failure struct {
	class, args, exception, text, queue string
	ago                                 time.Duration
	more                                string // further fields
}

func (f failure) record() string {
	list := func(v string, otherwise string) string {
		if v == "" {
			return otherwise
		}
		return v
	}
	quoted := func(v string) string {
		b, _ := json.Marshal(v)
		return string(b)
	}
	return fmt.Sprintf(`{"failed_at":%q,"payload":{"class":%s,"args":%s},"exception":%s,"error":%s,"backtrace":["/app/job.rb:7:in 'perform'","/usr/lib/ruby/gems/3.2/x.rb:1"],"worker":"web-1:77:mail","queue":%s%s}`,
		time.Now().UTC().Add(-f.ago).Format("2006/01/02 15:04:05 UTC"), quoted(f.class), list(f.args, "[]"), quoted(list(f.exception, "RuntimeError")), quoted(list(f.text, "no luck")), quoted(list(f.queue, "mail")), f.more)
}

func (d *desk) fail(all ...failure) {
	d.Helper()
	for _, f := range all {
		d.redis.Do(d, "RPUSH", "resque:failed", f.record())
	}
}

// failuresPage is what the tests read of the JSON of /failures.
type failuresPage struct {
	By      string
	Query   string
	Fit     int
	Retried int
	Grouped struct {
		Indexed, Of int
		Done        bool
	}
	Histogram struct{ Counts []int }
	Groups    []struct {
		ID, Class, Exception, Pattern string
		Count, Unretried              int
		Queues                        []string
		New                           bool
		Kills                         bool `json:"kills_its_process"`
	}
	Failures []failureRow
	Next     string
}

type failureRow struct {
	ID, Group, Class, Via, Exception, Error, Queue, Invalid string
	JobID                                                   string `json:"job_id"`
	RetriedAt                                               string `json:"retried_at"`
	Args                                                    []json.RawMessage
	Backtrace                                               []string
}

func decoded[T any](d *desk, a dashtest.Answer) (v T) {
	d.Helper()
	if a.Status >= 300 {
		d.Fatalf("%d %s", a.Status, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), &v); err != nil {
		d.Fatalf("%v: %s", err, a.Body)
	}
	return v
}

// failures is the page once all failures are grouped.
func (d *desk) failures(query ...string) (p failuresPage) {
	d.Helper()
	redistest.Eventually(d, time.Minute, "all failures are grouped", func() bool {
		p = d.failuresNow(query...)
		return p.Grouped.Done
	})
	return p
}

func (d *desk) failuresNow(query ...string) failuresPage {
	d.Helper()
	q := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		q.Add(query[i], query[i+1])
	}
	return decoded[failuresPage](d, d.Get("/api/v1/failures?"+q.Encode(), ""))
}

// names are the classes of the groups, or of the failures, that a page has.
func (p failuresPage) names() string {
	var all []string
	for _, g := range p.Groups {
		all = append(all, fmt.Sprint(g.Class, " ", g.Count))
	}
	for _, f := range p.Failures {
		all = append(all, f.Class)
	}
	return strings.Join(all, ", ")
}

// Failures are grouped by class, exception and text, and listed each; a search narrows both, and a mistake in it is shown at its place.
func TestFailures(t *testing.T) {
	t.Parallel()
	if a := setup(t).Get("/failures", ""); a.Status != http.StatusOK || !strings.Contains(a.Body, "No failures") {
		t.Error(a.Status, a.Body)
	}
	d := setup(t)
	d.fail(
		failure{class: "Old", ago: 30 * time.Hour, text: "order 1 is gone"}, failure{class: "Old", ago: 29 * time.Hour, text: "order 2 is gone"},
		failure{class: "Old", ago: 26 * time.Hour, text: "order 3 is gone", more: `,"retried_at":"2026/11/27 10:00:00"`},
		failure{class: "Pay", ago: 5 * time.Minute, queue: "billing", args: `[{"order":9007199254740993}]`}, failure{class: "Pay", ago: 4 * time.Minute, queue: "billing"},
		failure{class: "Crash", ago: 2 * time.Hour, exception: "Resque::DirtyExit"},
	)
	for _, c := range []struct {
		query []string
		want  string
	}{
		{nil, "Pay 2, Crash 1, Old 3"},
		{[]string{"sort", "count"}, "Old 3, Pay 2, Crash 1"},
		{[]string{"sort", "new"}, "Pay 2, Crash 1, Old 3"},
		{[]string{"q", "class:O*"}, "Old 3"},
		{[]string{"q", "class:O*", "q", "-retried"}, "Old 2"},
		{[]string{"q", "queue:billing"}, "Pay 2"},
		{[]string{"q", "-queue:billing -class:Old"}, "Crash 1"},
		{[]string{"q", "order"}, "Old 3"},
		{[]string{"q", "error:GONE"}, "Old 3"},
		{[]string{"since", "3h"}, "Pay 2, Crash 1"},
		{[]string{"since", "3h", "until", "1h"}, "Crash 1"},
		{[]string{"q", "arg.0.order:9007199254740993"}, "Pay"}, // each: groups do not know arguments
		{[]string{"q", "retried"}, "Old"},
		{[]string{"by", "each"}, "Crash, Pay, Pay, Old, Old, Old"},
		{[]string{"by", "each", "q", "exception:Resque::*"}, "Crash"},
		{[]string{"q", "class:None"}, ""},
	} {
		if got := d.failures(c.query...); got.names() != c.want {
			t.Errorf("%v: %s, want %s", c.query, got.names(), c.want)
		}
	}
	all := d.failures()
	if g := all.Groups; all.Fit != 6 || all.Retried != 1 || g[0].New == false || !g[1].Kills || g[2].Pattern != "order ‹n› is gone" || g[2].Unretried != 2 || !slices.Equal(g[0].Queues, []string{"billing"}) {
		t.Errorf("%+v", all)
	}
	n := 0
	for _, count := range all.Histogram.Counts {
		n += count
	}
	if n != 3 {
		t.Errorf("the histogram of a day has %d", n)
	}
	if a := d.Get("/api/v1/failures?q=clas:x", ""); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "character 1") {
		t.Error(a.Status, a.Body)
	}
	a := d.Get("/failures?q="+url.QueryEscape("class:Pay nope:x"), "")
	if a.Status != http.StatusOK || !strings.Contains(a.Body, "at character 11") || !strings.Contains(a.Body, `value="class:Pay nope:x"`) {
		t.Error(a.Status, a.Body)
	}
	a = d.Get("/failures?q=class:Pay&since=3h", "") // the chips take their conditions away
	for _, want := range []string{`href="/failures?since=3h"`, `href="/failures?q=class%3APay"`, `since=`, "2 fit, in 1 group"} {
		if !strings.Contains(a.Body, want) {
			t.Errorf("the page lacks %s: %s", want, a.Body)
		}
	}
	page := decoded[failureRow](d, d.Get("/api/v1/failures/groups/"+all.Groups[2].ID, ""))
	if page.Class != "Old" {
		t.Errorf("%+v", page)
	}
	for _, gone := range []string{"/failures/groups/abcdefabcdef", "/failures/" + strings.Repeat("a", 28), "/failures/x"} {
		if a := d.Get(gone, ""); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "there is no") && !strings.Contains(a.Body, "There is no") {
			t.Errorf("%s: %d %s", gone, a.Status, a.Body)
		}
	}
}

// The pages of a list follow each other, and each failure is on one of them.
func TestFailuresPages(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 120 {
		d.fail(failure{class: fmt.Sprintf("Kind%03d", n), ago: time.Duration(n) * time.Second, args: fmt.Sprint("[", n, "]")})
	}
	for _, by := range []string{"group", "each"} {
		seen, pages := make(map[string]bool), 0
		for after := ""; pages == 0 || after != ""; pages++ {
			p := d.failures("by", by, "after", after)
			for name := range strings.SplitSeq(p.names(), ", ") {
				seen[name] = true
			}
			after = p.Next
		}
		if len(seen) != 120 || pages != 3 {
			t.Errorf("by %s: %d on %d pages", by, len(seen), pages)
		}
	}
}

// Failures that come later are in the list, and many are grouped while the first page is there.
func TestFailuresFillUp(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const many = 10_000
	d.redis.Do(t, "EVAL", `for n = 1, ARGV[1] do redis.call('RPUSH', 'resque:failed', (ARGV[2]:gsub('NUMBER', n))) end`, 0, many,
		failure{class: "Many", text: "order NUMBER is gone", args: "[NUMBER]", ago: time.Minute}.record())
	if p := d.failuresNow(); p.Grouped.Of != many || p.Grouped.Indexed == 0 || len(p.Groups) != 1 {
		t.Errorf("the first page: %+v", p)
	}
	redistest.Eventually(t, time.Minute, "all are grouped", func() bool { p := d.failures(); return p.Grouped.Done && p.Groups[0].Count == many })
	d.fail(failure{class: "Late"})
	redistest.Eventually(t, time.Minute, "a later one is there", func() bool { return strings.HasPrefix(d.failures("sort", "new").names(), "Late") })
	if p := d.failures("by", "each"); len(p.Failures) != 50 || p.Failures[0].Class != "Late" {
		t.Error(p.names())
	}
}

// Lists of single queues are one view with the others. Their failures are retried to their queues.
func TestFailuresOfQueues(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.redis.Do(t, "SADD", "resque:failed_queues", "mail_failed", "low_failed")
	d.redis.Do(t, "RPUSH", "resque:mail_failed", failure{class: "A", args: `["m"]`, ago: 3 * time.Minute}.record())
	d.redis.Do(t, "RPUSH", "resque:low_failed", failure{class: "A", args: `["l"]`, queue: "low", ago: time.Minute}.record())
	d.fail(failure{class: "A", args: `["f"]`, ago: 2 * time.Minute})
	if p := d.failures(); p.names() != "A 3" || !slices.Equal(p.Groups[0].Queues, []string{"mail", "low"}) {
		t.Errorf("%+v", p.Groups)
	}
	found := func(q string) failuresPage {
		var p failuresPage
		redistest.Eventually(t, daemontest.Soon, "a search finds it in its time", func() bool { // a busy machine may need several
			p = d.failures("by", "each", "q", q)
			return len(p.Failures) == 1
		})
		return p
	}
	p := found("queue:low")
	if string(p.Failures[0].Args[0]) != `"l"` {
		t.Fatalf("%+v", p.Failures)
	}
	if a := d.Post("/failures/"+p.Failures[0].ID+"/retry", ""); a.Status != http.StatusSeeOther {
		t.Fatal(a.Status, a.Body)
	}
	if jobs := d.redis.List(t, "LRANGE", "resque:queue:low", 0, -1); len(jobs) != 1 || jobs[0] != `{"class":"A","args":["l"]}` {
		t.Error(jobs)
	}
	a := d.Get("/api/v1/failures/"+found("queue:mail arg.0:f").Failures[0].ID, "")
	if !strings.Contains(a.Body, `"before":[{`) || !strings.Contains(a.Body, `"after":[{`) {
		t.Errorf("the neighbours in time: %s", a.Body)
	}
}

// What Ruby's workers recorded is shown as they recorded it.
func TestFailuresOfRuby(t *testing.T) {
	t.Parallel()
	for _, scenario := range []string{"work_failure", "unknown_class", "prune_expired", "failed_retry"} {
		d := setup(t)
		var records []string
		golden := redistest.Golden(t, scenario)
		moments := append([][]redistest.Key{golden.KeysAfter}, slices.Collect(maps.Values(golden.Snapshots))...)
		for _, keys := range moments {
			if list, ok := redistest.Values(keys)["resque:failed"].([]string); ok {
				records = append(records, list...)
			}
		}
		if len(records) == 0 {
			t.Fatalf("%s has no failure", scenario)
		}
		for _, record := range records {
			d.redis.Do(t, "DEL", "resque:failed")
			d.redis.Do(t, "RPUSH", "resque:failed", record)
			var want struct {
				Payload   struct{ Class string }
				Exception string
				Error     string
				Queue     string
				Backtrace []string
				RetriedAt string `json:"retried_at"`
			}
			if err := json.Unmarshal([]byte(record), &want); err != nil {
				t.Fatal(err)
			}
			row := d.failures("by", "each").Failures[0]
			one := decoded[failureRow](d, d.Get("/api/v1/failures/"+row.ID, ""))
			if row.Class != want.Payload.Class || row.Exception != want.Exception || row.Error != want.Error || row.Queue != want.Queue || one.RetriedAt != want.RetriedAt || !slices.Equal(one.Backtrace, want.Backtrace) {
				t.Errorf("%s: %+v, %+v, want %+v", scenario, row, one, want)
			}
			if a := d.Get("/failures/"+row.ID, ""); a.Status != http.StatusOK || strings.Contains(a.Body, "cannot be read") {
				t.Error(a.Status, a.Body)
			}
		}
	}
}

// A long record is cut on its pages.
func TestFailuresLong(t *testing.T) {
	t.Parallel()
	d := setup(t)
	long := strings.Repeat("ü", 1<<16)
	d.fail(failure{class: "Long", args: `["` + long + `",{"a":"` + long + `"}]`, text: long})
	f := d.failures("by", "each").Failures[0]
	for _, path := range []string{"/failures", "/failures?by=each", "/failures/" + f.ID + "?edit=1", "/failures/groups/" + f.Group} {
		a := d.Get(path, "")
		if a.Status != http.StatusOK || len(a.Body) > 150_000 || !strings.Contains(a.Body, "Long") || !strings.Contains(a.Body, "üüü") {
			t.Errorf("%s: %d, %d bytes", path, a.Status, len(a.Body))
		}
		if strings.ToValidUTF8(a.Body, "") != a.Body {
			t.Errorf("%s is not UTF-8", path)
		}
	}
	if a := d.act("/failures/"+f.ID+"/retry", "", `{}`); a.Status != http.StatusOK || len(d.jobs("mail")) != 1 {
		t.Error(a.Status, a.Body)
	}
}

// A page sends few commands, however many failures there are, beside those of the look at the fleet. That of a group reads a sample of it, which its
// readers share.
func TestFailuresCommands(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.redis.Do(t, "EVAL", `for n = 1, ARGV[1] do redis.call('RPUSH', 'resque:failed', (ARGV[2]:gsub('NUMBER', n))) end`, 0, 5000, failure{class: "Many", args: "[NUMBER]"}.record())
	d.failures()
	f := d.failures("by", "each").Failures[0]
	monitor := d.redis.Monitor(t)
	for path, most := range map[string]int{"/failures": 30, "/failures?by=each": 30, "/failures/" + f.ID: 30, "/failures/groups/" + f.Group: 300} {
		before := len(monitor.Commands())
		if a := d.Get(path, ""); a.Status != http.StatusOK {
			t.Fatal(a.Status, a.Body)
		}
		d.redis.Do(t, "ECHO", path)
		sent := 0
		redistest.Eventually(t, time.Minute, "the commands of the page", func() bool { // behind them there may be some of the background
			sent = slices.IndexFunc(monitor.Commands(), func(command []string) bool { return slices.Equal(command, []string{"ECHO", path}) }) - before
			return sent >= 0
		})
		const look = 25
		if sent > most+look {
			t.Errorf("%s sends %d commands", path, sent)
		} else {
			t.Logf("%s: %d", path, sent)
		}
	}
}

// Hostile records are shown as text on every page, and break none.
func TestFailuresHostile(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fail(
		failure{class: "</title><script>alert(1)</script>", exception: `"><img src=x onerror=alert(2)>`, text: "‹‹\u202e\u0000\u0007", queue: "../x"}, failure{class: "Queue", queue: "a/b?c%d"},
		failure{class: "Deep", args: strings.Repeat("[", 200) + strings.Repeat("]", 200)},
		failure{class: "Blank", queue: " ", args: `[{"":"","a.b":{"c":[1,[2]]}}]`},
	)
	for _, raw := range []string{"no JSON \xff\xfe", "", "{}", "[]", `{"payload":7,"error":["x"],"queue":null}`, `{"payload":{"class":"\ud800","args":[]},"failed_at":"when","queue":"q"}`,
		"{\"payload\":{\"class\":\"Bytes\",\"args\":[\"\xff\"]},\"error\":\"\xfe\",\"queue\":\"q\xfd\",\"worker\":\"\x80\"}"} {
		d.redis.Do(t, "RPUSH", "resque:failed", raw)
	}
	paths := []string{"/failures", "/failures?by=each", "/failures?q=" + url.QueryEscape(`"<script>"`), "/failures?since=99999999d&until=nonsense", "/failures?q=%ff"}
	for _, f := range d.failures("by", "each").Failures {
		paths = append(paths, "/failures/"+f.ID, "/failures/"+f.ID+"?edit=1", "/failures/groups/"+f.Group, "/failures/groups/"+f.Group+"?id="+f.ID)
	}
	for _, path := range paths {
		a := d.Get(path, "")
		if a.Status != http.StatusOK || len(a.Body) > 500_000 {
			t.Errorf("%s: %d, %d bytes", path, a.Status, len(a.Body))
		}
		for _, never := range []string{"<script>alert", "<img src=x", "\u202e", "\x00", "\x07", "ZgotmplZ", "%!", "action=\"/queues/../"} {
			if strings.Contains(a.Body, never) {
				t.Errorf("%s has %q", path, never)
			}
		}
		if strings.ToValidUTF8(a.Body, "") != a.Body {
			t.Errorf("%s is not UTF-8", path)
		}
		if j := d.Get("/api/v1"+path, ""); j.Status < 400 && !json.Valid([]byte(j.Body)) || j.Status >= 500 {
			t.Errorf("%s as JSON: %d %.300s", path, j.Status, j.Body)
		}
	}
	a := d.Get("/failures/export", "")
	lines := strings.Split(strings.TrimSpace(a.Body), "\n")
	if len(lines) < 10 {
		t.Errorf("the export has %d lines", len(lines))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %.200s", line)
		}
	}
}

// Nothing that is masked is on a page, in JSON, in the texts of groups, in an export or in what a group shares; no search confirms it.
func TestFailuresMasked(t *testing.T) {
	t.Parallel()
	d := setup(t, func(o *dashboard.Options) { o.MaskArgs = map[string][]string{"Login": {"0"}} })
	const secret = "tulipomania"
	for range 3 {
		d.fail(failure{class: "Login", args: `["` + secret + `",{"password":"` + secret + `2","user":"u"}]`, exception: "Bad" + secret, text: "no user with " + secret + " as its word " + secret + "2"})
	}
	f := d.failures("by", "each").Failures[0]
	for _, path := range []string{"/failures", "/failures?by=each", "/failures/" + f.ID, "/failures/" + f.ID + "?edit=1", "/failures/groups/" + f.Group, "/failures/export"} {
		for _, prefix := range []string{"", "/api/v1"} {
			if a := d.Get(prefix+path, ""); a.Status != http.StatusOK || strings.Contains(a.Body, secret) || !strings.Contains(a.Body, "Login") {
				t.Errorf("%s%s: %d, the secret in it: %v", prefix, path, a.Status, strings.Contains(a.Body, secret))
			}
		}
	}
	for _, q := range []string{secret, `"` + secret + `"`, "error:" + secret, "exception:Bad" + secret, "arg.0:" + secret, "arg.1.password:" + secret + "2"} {
		for _, by := range []string{"group", "each"} {
			if p := d.failures("by", by, "q", q); p.names() != "" {
				t.Errorf("%s by %s finds %s", q, by, p.names())
			}
		}
	}
	if a := d.Get("/api/v1/failures/groups/"+f.Group, ""); strings.Contains(a.Body, `"value":"••••••"`) {
		t.Error("masked values count as equal")
	}
}

// A group says what its failures share and other jobs have not, and lists what they differ in.
func TestFailuresShare(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 20 {
		d.fail(failure{class: "Hook", args: fmt.Sprintf(`[{"endpoint":771,"event":"order.paid","order":%d}]`, n), ago: time.Duration(n) * time.Second})
		d.redis.Do(t, "RPUSH", "resque:queue:mail", fmt.Sprintf(`{"class":"Hook","args":[{"endpoint":%d,"event":"order.paid","order":%d}]}`, n, n))
	}
	d.redis.Do(t, "SADD", "resque:queues", "mail")
	gid := d.failures().Groups[0].ID
	type shares struct {
		Shared struct {
			Sampled, Compared int
			Rows              []groups.ShareRow
		}
		Failures []struct{ Differs string }
	}
	var page shares
	redistest.Eventually(t, daemontest.Soon, "they are compared with others", func() bool { // on a busy machine the time for that may be over before, and readers share it for a while
		page = decoded[shares](d, d.Get("/api/v1/failures/groups/"+gid, ""))
		return page.Shared.Compared > 0
	})
	if s := page.Shared; s.Sampled != 20 || s.Compared != 20 || len(s.Rows) == 0 || s.Rows[0].What != "arg.0.endpoint" || s.Rows[0].Value != "771" || s.Rows[0].Elsewhere != 0 {
		t.Errorf("%+v", s)
	}
	if got := page.Failures[3].Differs; got != "order 3" && got != "order 16" {
		t.Error(got)
	}
	if a := d.Get("/failures/groups/"+gid, ""); !strings.Contains(a.Body, "argument 0.endpoint") || !strings.Contains(a.Body, ">771<") {
		t.Error(a.Body)
	}
}

// A group that began with a deploy says which. One that began before it, or long after, does not.
func TestFailuresSinceDeploy(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fail(failure{class: "Before", ago: time.Minute})
	if err := d.Client.Inspect().RecordDeploy(t.Context(), "4f2c9e1", ""); err != nil {
		t.Fatal(err)
	}
	d.fail(failure{class: "With", ago: -2 * time.Second}, failure{class: "After", ago: -20 * time.Minute})
	for path, want := range map[string]bool{"With": true, "Before": false, "After": false} {
		gid := d.failures("q", "class:"+path).Groups[0].ID
		for _, page := range []string{"/failures?q=class:" + path, "/failures/groups/" + gid} {
			if a := d.Get(page, ""); strings.Contains(a.Body, "since deploy 4f2c9e1") != want {
				t.Errorf("%s: %v", page, a.Body)
			}
		}
	}
	if a := d.Get("/failures", "mia viewer mail"); strings.Contains(a.Body, "4f2c9e1") {
		t.Error("a user who sees some queues only learns of deploys")
	}
}
