package queues_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// asPath is a queue's name as one segment of an address.
func asPath(name string) string {
	if name == "" || name == "." || name == ".." || name[0] == '~' {
		name = "~" + name
	}
	return url.PathEscape(name)
}

// hostile are names that a page must not stumble over.
var hostile = []string{"../x", ".", "..", "~a", "a/b", "a/b?c%d", "ü", "\xff\xfe", " lead", "<script>alert(1)</script>", `q"'`, "a\nb", "pause"}

func TestQueuesOfAnyName(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, name := range hostile {
		f.push(name, `{"class":"Mail","args":[1]}`, `{"class":"Mail","args":[2]}`)
	}
	list := f.get("/queues?sort=name")
	if strings.Contains(list, "<script>alert") {
		t.Error("a name is taken for a script")
	}
	for _, name := range hostile {
		if !strings.Contains(list, `href="/queues/`+asPath(name)+`"`) {
			t.Errorf("the list has no link to %q", name)
		}
		page := f.get("/queues/" + asPath(name))
		if strings.Contains(page, "<script>alert") || strings.Count(page, "<h1>") != 1 {
			t.Errorf("the page of %q is wrong", name)
		}
		word := name
		if !utf8.ValidString(name) || strings.Contains(name, "\n") || strings.TrimSpace(name) != name {
			word = "this queue"
		}
		at, user := "/queues/"+asPath(name), url.QueryEscape(name)+" admin"
		if status, body, _ := f.post(at+"/remove", url.Values{"confirm": {"no"}}, user); status != http.StatusBadRequest || len(f.waits(name)) != 2 {
			t.Errorf("removing %q without its name answers %d: %s", name, status, body)
		}
		if status, body, head := f.post(at+"/clear", url.Values{"confirm": {word}, "back": {at}}, user); name == "\xff\xfe" {
			if status != http.StatusBadRequest || !strings.Contains(body, "UTF-8") {
				t.Errorf("clearing %q answers %d: %s", name, status, body)
			}
		} else if status != http.StatusSeeOther || len(f.waits(name)) != 0 || head.Get("Location") != at {
			t.Errorf("clearing %q answers %d to %s, and leaves %q: %s", name, status, head.Get("Location"), f.waits(name), body)
		}
		if name != strings.TrimSpace(name) { // the client refuses to enqueue there
			f.act(http.StatusBadRequest, at+"/jobs", `{"class":"Mail","args":[1]}`, user)
		} else {
			f.act(http.StatusOK, at+"/jobs", `{"class":"Mail","args":[9007199254740993]}`, user)
			if got := f.waits(name); len(got) == 0 || got[len(got)-1] != `{"class":"Mail","args":[9007199254740993]}` {
				t.Errorf("the job added to %q is %q", name, got)
			}
		}
		f.act(http.StatusOK, at+"/remove", `{}`, user)
		if n := f.Redis.Int(t, "EXISTS", "resque:queue:"+name) + f.Redis.Int(t, "SISMEMBER", "resque:queues", name); n != 0 {
			t.Errorf("the queue %q is still there", name)
		}
	}
}

func TestPlainJobs(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.push("mail", `{"class":"Mail","args":[9007199254740993,{"password":"hunter2"}]}`, `{"class":"<script>x</script>","args":["`+strings.Repeat("a", 1<<20)+`"]}`, "\xff no job", `{"class":"Mail","args":[3]}`)
	var page struct {
		Jobs []struct {
			Class, Ref, Invalid string
			Args                []any
			Place               int
			Bytes               int
		}
		Waiting struct{ Value int }
	}
	for from := ""; ; {
		var one struct {
			Jobs []struct {
				Class, Ref, Invalid string
				Args                []any
				Place               int
				Bytes               int
			}
			Next string
		}
		f.json("/queues/mail?after="+from, &one)
		page.Jobs = append(page.Jobs, one.Jobs...)
		if from = one.Next; from == "" {
			break
		}
	}
	if len(page.Jobs) != 4 || fmt.Sprint(page.Jobs[0].Args[0]) != "9007199254740993" || page.Jobs[1].Args != nil || page.Jobs[1].Bytes < 1<<20 || page.Jobs[2].Invalid == "" || page.Jobs[3].Place != 4 {
		t.Errorf("the jobs are %+v", page.Jobs)
	}
	for _, path := range []string{"/queues/mail", "/queues/mail?after=2", "/queues/mail/job?ref=" + page.Jobs[0].Ref + "&place=1", "/queues/mail/job?ref=" + page.Jobs[1].Ref, "/queues/mail/job?ref=" + page.Jobs[2].Ref, "/api/v1/queues/mail/job?ref=" + page.Jobs[0].Ref} {
		body := f.get(path)
		if strings.Contains(body, "hunter2") || strings.Contains(body, "<script>x") || len(body) > 200_000 {
			t.Errorf("%s shows what it must not, or %d bytes", path, len(body))
		}
	}
	// Searches compare what is shown, and find large numbers.
	for q, want := range map[string]int{"class:Mail": 2, "arg.0:9007199254740993": 1, "arg.0:9007199254740992": 0, "hunter2": 0, "ref:" + page.Jobs[3].Ref: 1} {
		var found struct {
			Jobs     []any
			Searched struct {
				Fit, Looked int
				More        bool
			}
		}
		redistest.Eventually(t, daemontest.Soon, "a search comes to its end", func() bool { // on a busy machine its time may be over before
			found.Jobs = nil
			f.json("/queues/mail?q="+url.QueryEscape(q), &found)
			return !found.Searched.More
		})
		if len(found.Jobs) != want || found.Searched.Fit != want || found.Searched.Looked != 4 {
			t.Errorf("%s finds %+v", q, found)
		}
	}
	if status, body := f.ask("/queues/mail?q=clas%3Ax"); status != http.StatusBadRequest || !strings.Contains(body, "clas") {
		t.Errorf("a mistake in a search answers %d: %s", status, body)
	}
	first := page.Jobs[0].Ref
	// The edit keeps what was masked, and the numbers.
	out := f.act(http.StatusOK, "/queues/mail/jobs/edit", `{"ids":"`+first+`","args":[9007199254740995,{"password":"••••••"}]}`)
	if got := f.waits("mail")[0]; got != `{"class":"Mail","args":[9007199254740995,{"password":"hunter2"}]}` {
		t.Errorf("the edited job is %s (%+v)", got, out)
	}
	f.act(http.StatusNotFound, "/queues/mail/jobs/edit", `{"ids":"`+first+`","args":[1]}`)
	if status, body := f.ask("/queues/mail/job?ref=" + first); status != http.StatusNotFound || !strings.Contains(body, "has left this queue") {
		t.Errorf("a job that is gone answers %d: %s", status, body)
	}
	last := page.Jobs[3].Ref
	f.act(http.StatusOK, "/queues/mail/jobs/front", `{"ids":["`+last+`.4"]}`)
	if got := f.waits("mail")[0]; got != `{"class":"Mail","args":[3]}` {
		t.Errorf("the first job is %s", got)
	}
	f.act(http.StatusOK, "/queues/mail/jobs/delay", `{"ids":["`+last+`"],"for":"1h"}`)
	if got := f.waits("mail"); len(got) != 3 {
		t.Errorf("%d jobs wait", len(got))
	}
	if body := f.get("/queues/mail/job?ref=" + last); !strings.Contains(body, "It has left this queue") && !strings.Contains(body, "is delayed until") {
		t.Errorf("a job that is delayed is shown as %s", body)
	}
	var late struct{ Jobs []struct{ Ref, At string } }
	f.json("/queues/mail?in=delayed", &late)
	if len(late.Jobs) != 1 || late.Jobs[0].Ref != last || late.Jobs[0].At != "delayed" {
		t.Errorf("the delayed jobs are %+v", late)
	}
	f.act(http.StatusOK, "/queues/mail/jobs/front", `{"ids":["`+last+`"],"in":"delayed"}`)
	f.act(http.StatusOK, "/queues/mail/jobs/move", `{"ids":["`+last+`"],"to":"other"}`)
	if got := f.waits("other"); len(got) != 1 || got[0] != `{"class":"Mail","args":[3]}` {
		t.Errorf("the moved job is %q", got)
	}
	removed := f.act(http.StatusOK, "/queues/other/jobs/remove", `{"ids":["`+refOf(f, "other")+`"]}`)
	if len(f.waits("other")) != 0 || !removed.Undo {
		t.Errorf("removing answers %+v", removed)
	}
	audit, err := f.in().Audit(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range audit {
		if e.Who != "ann" || e.Face != "dashboard" || strings.Contains(e.On, "hunter2") {
			t.Errorf("the audit has %+v", e)
		}
	}
	if len(audit) < 6 {
		t.Errorf("the audit has %d entries", len(audit))
	}
}

// refOf is the ref of the first job of a queue.
func refOf(f *face, queue string) string {
	f.Helper()
	jobs, _, err := f.in().Peek(f.Context(), queue, 0, 1, false)
	if err != nil || len(jobs) == 0 {
		f.Fatalf("the first job of %s: %v", queue, err)
	}
	return jobs[0].Ref
}
