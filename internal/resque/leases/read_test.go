package leases

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/resque"
)

func TestSizes(t *testing.T) { each(t, testSizes) }

func testSizes(t *testing.T, b *bundle) {
	b.push("q", job("1"), job("2"), job("3"))
	b.push("other", job("4"))
	b.take(1, "q")
	b.take(1, "other")
	b.bury(job("5"))
	b.do("SET", "resque:queue:bad", "x")
	b.do("SADD", b.s.PausedKey().String(), "other")
	held, err := b.s.CountReserved(b.c)
	b.must(err)
	sizes, err := b.s.Sizes(b.c, held, "q", "other", "none", "bad")
	b.must(err)
	if err := sizes[3].Err; err == nil || !strings.Contains(err.Error(), "resque:queue:bad") {
		t.Errorf("of another type: %v", err)
	}
	sizes[3].Err = nil
	b.same("sizes", []Sizes{{Queue: "q", Ready: 2, Reserved: 1, Dead: 1, Head: []byte(job("2"))}, {Queue: "other", Reserved: 1, Paused: true}, {Queue: "none"}, {Queue: "bad"}}, sizes)
	b.do("SET", "resque:pause-all-workers", "True")
	sizes, err = b.s.Sizes(b.c, nil, "q")
	b.must(err)
	b.same("all are paused", true, sizes[0].Paused)
	none, err := b.s.Sizes(b.c, nil)
	b.must(err)
	b.same("of no queue", 0, len(none))
}

func TestPeek(t *testing.T) { each(t, testPeek) }

func testPeek(t *testing.T, b *bundle) {
	raw, now, err := b.s.Peek(b.c, "q")
	b.must(err)
	if raw != nil || now > b.now() {
		t.Errorf("%q at %d", raw, now)
	}
	b.push("q", until("1", now-1))
	raw, _, err = b.s.Peek(b.c, "q")
	b.must(err)
	b.same("expired", 0, len(raw))
	b.push("q", until("2", b.now()+60_000), job("3"))
	raw, _, err = b.s.Peek(b.c, "q")
	b.must(err)
	if !strings.HasSuffix(string(raw), `"id":"2"}`) {
		t.Errorf("the first one is %q", raw)
	}
}

// A job is found by its id, whatever else contains that text.
func TestFind(t *testing.T) { each(t, testFind) }

func testFind(t *testing.T, b *bundle) {
	for i := range 250 {
		b.push("q", fmt.Sprintf(`{"class":"C","args":["\"x\"","x",{"id":"x"}],"id":"%d"}`, i))
	}
	b.push("q", `{"id":"x","class":"Mail"}`, job("x"))
	find := func(id string) string {
		var from *resque.ListPlace
		for total := 0; ; {
			raw, looked, next, err := b.s.FindReady(b.c, "q", id, from)
			b.must(err)
			if total += looked; raw != nil || next == nil {
				return string(raw) + fmt.Sprint(" ", total >= 250)
			}
			from = next
		}
	}
	b.same("x", `{"id":"x","class":"Mail"} true`, find("x"))
	b.same("none", " true", find("y"))
	b.same("without an id", " false", find(""))
	b.push("q", `{"class":"C","id":"a\/b"}`, `{"class":"C","id":"fr\u00fch"}`)
	b.same("as JSON may write it", `{"class":"C","id":"a\/b"} true`, find("a/b"))
	b.same("as JSON may write it", `{"class":"C","id":"fr\u00fch"} true`, find("früh"))

	b.do("ZADD", "resque:go:schedule", 1795319212344, "1:q"+job("1"), 1795319212344, "1:p"+job("2"), 1795319212345, "1:q"+job("3"))
	for _, tt := range []struct {
		queue, id string
		at        int64
		there     bool
	}{{"q", "1", 1795319212344, true}, {"q", "2", 1795319212344, false}, {"p", "2", 1795319212344, true}, {"q", "3", 1795319212344, false}, {"q", "3", 1795319212345, true}} {
		raw, err := b.s.FindDelayed(b.c, tt.queue, tt.id, tt.at)
		b.must(err)
		if (string(raw) == job(tt.id)) != tt.there {
			t.Errorf("%+v is %q", tt, raw)
		}
	}
}

// all reads all pages.
func all(b *bundle, page func(from string) ([]Listed, string, error)) (found []Listed, pages int) {
	b.Helper()
	for from := ""; ; pages++ {
		jobs, next, err := page(from)
		b.must(err)
		found = append(found, jobs...)
		if from = next; from == "" {
			return found, pages + 1
		}
	}
}

// Pages bring every job of a queue once.
func TestPages(t *testing.T) { each(t, testPages) }

func testPages(t *testing.T, b *bundle) {
	var payloads []string
	for i := range 300 {
		payloads = append(payloads, job(fmt.Sprint(i)))
	}
	b.push("held", payloads...)
	b.take(300, "held")
	b.publish(Publish{Queue: "q", Payloads: texts(payloads...)}, Publish{Queue: "q", Payloads: texts(payloads[:200]...), At: 5}, Publish{Queue: "other", Payloads: texts(payloads...), At: 5},
		Publish{Queue: "q", Payloads: texts(payloads[200:]...), At: 6})
	pages := map[string]func(from string) ([]Listed, string, error){
		"ready":    func(from string) ([]Listed, string, error) { return b.s.Ready(b.c, "q", from, 70) },
		"delayed":  func(from string) ([]Listed, string, error) { return b.s.Delayed(b.c, "q", from, 70) },
		"reserved": func(from string) ([]Listed, string, error) { return b.s.Reserved(b.c, "held", from, 70) },
	}
	for name, page := range pages {
		found, n := all(b, page)
		seen := make(map[string]bool)
		for _, j := range found {
			seen[string(j.Payload)] = true
			if name == "reserved" && (j.ID == "" || j.Lease == "") || name == "delayed" && j.Due != 5 && j.Due != 6 {
				t.Errorf("%s: %+v", name, j)
			}
		}
		if len(seen) != 300 || len(found) != 300 || name != "reserved" && n != 5 {
			t.Errorf("%s: %d jobs, %d of them different, on %d pages", name, len(found), len(seen), n)
		}
		for _, odd := range []string{"x", "{}x", "-1", "1+x", "x+1", `{"a":-5}`} {
			if _, _, err := page(odd); err == nil || !strings.Contains(err.Error(), "is not where a page of jobs begins") {
				t.Errorf("%s: %q: %v", name, odd, err)
			}
		}
	}
}
