package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// document writes a document as the feature does.
func (w *wire) document(id string, fields ...any) {
	w.t.Helper()
	w.server.Do(w.t, "HSET", append([]any{w.s.KeyOfResult(id)}, fields...)...)
}

func (w *wire) read(id string) (Document, bool) {
	w.t.Helper()
	d, there, err := w.s.ReadDocument(w.c, id)
	w.must(err)
	return d, there
}

func TestReadDocument(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	at := func(ms int64) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	ms := noon.UnixMilli()
	w.document("j", "state", "done", "class", "Resize", "queue", "img", "enqueued", ms, "due", ms+1, "ttl", 3600_000, "attempt", 3,
		"process", "p1", "worker", "h:1:img", "began", ms+2, "ended", ms+3, "result", `{"n":1}`, "exception", "E", "error", "was ill",
		"tries", 2, "was", "running", "of another version", "x",
		"t2", fmt.Sprintf(`{"attempt":2,"state":"lost","began":%d,"ended":%d,"process":"p2","worker":"w2","exception":"X","error":"boom"}`, ms+4, ms+5),
		"t1", `{"attempt":1,"state":"retrying"}`, "t10", `{"attempt":10}`)
	w.do("SET", w.s.KeyOfProgress("j"), fmt.Sprintf(`{"done":1,"total":10,"note":"half","at":%d}`, ms+6))
	got, there := w.read("j")
	for _, when := range []*time.Time{&got.Enqueued, &got.Due, &got.Began, &got.Ended, &got.Tries[1].Began, &got.Tries[1].Ended, &got.Progress.At} {
		*when = when.UTC()
	}
	w.same("there", true, there)
	w.same("document", Document{
		ID: "j", State: "done", Was: "running", Class: "Resize", Queue: "img", Enqueued: at(0), Due: at(1), TTL: time.Hour, Attempt: 3,
		Process: "p1", Worker: "h:1:img", Began: at(2), Ended: at(3), Result: `{"n":1}`, Exception: "E", Error: "was ill",
		Tries: []DocumentTry{
			{Attempt: 1, State: "retrying"},
			{Attempt: 2, State: "lost", Began: at(4), Ended: at(5), Process: "p2", Worker: "w2", Exception: "X", Error: "boom"},
			{Attempt: 10},
		},
		Progress: &DocumentProgress{Done: 1, Total: 10, Note: "half", At: at(6)},
	}, got)

	w.do("SET", w.s.KeyOfProgress("gone"), `{"done":1}`)
	if d, there := w.read("gone"); there || d.ID != "" {
		t.Errorf("progress without a document: %+v, %v", d, there)
	}
	w.do("SET", w.s.KeyOfResult("text"), "x")
	if _, _, err := w.s.ReadDocument(w.c, "text"); err == nil || !strings.Contains(err.Error(), "go:result:text is not a hash") {
		t.Errorf("a key of another type: %v", err)
	}
	w.document("odd", "state", "running")
	w.do("RPUSH", w.s.KeyOfProgress("odd"), "x")
	if _, _, err := w.s.ReadDocument(w.c, "odd"); err == nil {
		t.Error("a progress key of another type was read")
	}
}

// A damaged field is zero and hides no other.
func TestReadDamagedDocument(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.document("j", "state", "running", "enqueued", "soon", "began", "-5", "ended", "99999999999999999999", "ttl", "9223372036854775807",
		"attempt", "99999999999", "t1", `{"attempt":"x","began":[1],"error":7,"state":"lost"}`, "t2", "no JSON", "t3", `[1]`, "t-1", "{}", "tx", "{}")
	w.do("SET", w.s.KeyOfProgress("j"), `{"done":"x","total":9,"at":{}}`)
	d, _ := w.read("j")
	w.same("document", Document{
		ID: "j", State: "running", Tries: []DocumentTry{{State: "lost"}}, Progress: &DocumentProgress{Total: 9},
	}, d)
	w.do("SET", w.s.KeyOfProgress("j"), "half")
	if d, _ := w.read("j"); d.Progress != nil {
		t.Errorf("progress %+v", d.Progress)
	}
}

// Many documents are read in one go, in their order, and one that cannot be read spoils no other.
func TestReadDocuments(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	var asks []DocumentAsk
	for i := range 300 {
		id := fmt.Sprint(i)
		asks = append(asks, DocumentAsk{ID: id, Progress: i%2 == 0})
		switch {
		case i == 7:
			w.do("SET", w.s.KeyOfResult(id), "x")
		case i%3 > 0:
			w.document(id, "state", "pending")
			w.do("SET", w.s.KeyOfProgress(id), `{"done":1}`)
		}
	}
	next := 0
	w.must(w.s.ReadDocuments(w.c, asks, func(i int, r DocumentRead) {
		want := i%3 > 0 && i != 7
		if i != next || r.There != want || want && r.ID != asks[i].ID || (r.Err != nil) != (i == 7) || (r.Progress != nil) != (want && i%2 == 0) {
			t.Errorf("answer %d: %d %+v", next, i, r)
		}
		next++
	}))
	w.same("answers", 300, next)
	w.server.Kill()
	if err := w.s.ReadDocuments(w.c, asks, func(int, DocumentRead) {}); err == nil {
		t.Error("no error without a server")
	}
}

func TestScanDocuments(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.s = New("a[b]*?\\:")
	want := map[string]int{}
	for i := range 3000 {
		id := fmt.Sprint(i)
		w.document(id, "state", []string{"done", "running"}[i%2], "class", []string{"A", "B", "C"}[i%3], "queue", "q")
		want[id] = 1
	}
	w.do("SET", w.s.KeyOfResult("text"), "x")
	w.do("HSET", New("ab:").KeyOfResult("other"), "state", "done")
	walk := func(f DocumentFilter) (ids map[string]int, pages int) {
		ids = make(map[string]int)
		for cursor := "0"; ; {
			page, err := w.s.ScanDocuments(w.c, cursor, f)
			w.must(err)
			if pages++; len(page.Found) > 2*scanTogether {
				t.Errorf("a page of %d", len(page.Found))
			}
			for _, d := range page.Found {
				ids[d.ID] = 1
			}
			if cursor = page.Next; cursor == "0" {
				return ids, pages
			}
		}
	}
	got, pages := walk(DocumentFilter{})
	w.same("all", want, got)
	if pages < 2 {
		t.Errorf("%d pages", pages)
	}
	got, _ = walk(DocumentFilter{State: "running", Class: "A", Queue: "q"})
	for id := range got {
		if !slices.Contains([]string{"3", "5", "7", "1", "9"}, id[len(id)-1:]) {
			t.Errorf("found %s", id)
		}
	}
	w.same("running A", 500, len(got))
	got, _ = walk(DocumentFilter{Queue: "other"})
	w.same("of another queue", 0, len(got))
}

func TestForgetDocumentAndLogs(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	lines := func(id string, want bool, texts ...string) {
		t.Helper()
		got, there, err := w.s.JobLogs(w.c, id)
		w.must(err)
		if there != want || !slices.Equal(got, texts) {
			t.Errorf("lines of %s: %q, %v", id, got, there)
		}
	}
	lines("j", false)
	w.document("j", "state", "running")
	lines("j", true)
	w.do("RPUSH", w.s.KeyOfJobLogs("j"), "one", "two")
	w.do("SET", w.s.KeyOfProgress("j"), "{}")
	lines("j", true, "one", "two")
	for _, want := range []bool{true, false} {
		if was, err := w.s.ForgetDocument(w.c, "j"); err != nil || was != want {
			t.Errorf("forgotten: %v, %v; want %v", was, err, want)
		}
	}
	w.same("keys", 0, len(w.server.Keys(t)))
}

// A connection that only reads is notified of every key that it read, once, however it read it.
func TestTrackReads(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	wake := w.server.Dial(t)
	reader := w.server.Dial(t)
	w.must(w.s.TrackReads(reader, wake))
	k := tracked{&proc{wire: w}, wake}
	heard := func(cause func()) []string {
		t.Helper()
		cause()
		var ids []string
		k.must(wake.Send("PING"))
		k.must(wake.Flush())
		for {
			reply, err := redis.Values(redis.ReceiveWithTimeout(wake, time.Minute))
			k.must(err)
			if text, _ := redis.String(reply[0], nil); text == "pong" {
				slices.Sort(ids)
				return ids
			}
			more, all, err := w.s.ReceiveDocuments(replay{wake, reply}, time.Second)
			k.must(err)
			if ids = append(ids, more...); all {
				ids = append(ids, "ALL")
			}
		}
	}
	read := func(asks ...DocumentAsk) func() {
		return func() { w.must(w.s.ReadDocuments(reader, asks, func(int, DocumentRead) {})) }
	}
	w.document("a", "state", "pending")
	w.document("b", "state", "pending")
	read(DocumentAsk{ID: "a"}, DocumentAsk{ID: "b", Progress: true}, DocumentAsk{ID: "unknown"})()
	w.same("nothing", []string(nil), heard(func() {}))
	w.same("progress that was not read", []string(nil), heard(func() { w.do("SET", w.s.KeyOfProgress("a"), "{}") }))
	w.same("twice", []string{"a"}, heard(func() { w.document("a", "state", "running"); w.document("a", "state", "done") }))
	w.same("progress", []string{"b"}, heard(func() { w.do("SET", w.s.KeyOfProgress("b"), "{}") }))
	w.same("one that was missing", []string{"unknown"}, heard(func() { w.document("unknown", "state", "pending") }))
	w.same("all", []string{"ALL", "b"}, heard(func() { w.do("DEL", w.s.KeyOfResult("b")); w.do("FLUSHALL") }))
}

// Whatever stands in the keys, reading it does not panic, and says nothing about a job that has no document.
func FuzzDocument(f *testing.F) {
	f.Add("state", "done", "t1", `{"attempt":1,"began":5}`, `{"done":1,"total":2}`)
	f.Add("ttl", "-1", "enqueued", "9999999999999999999", `{"at":"x"}`)
	f.Add("t9223372036854775807", "{}", "t0", "null", "[")
	f.Fuzz(func(t *testing.T, one, text, two, more, progress string) {
		fields := map[string]string{one: text, two: more}
		d, there := documentOf("j", fields)
		if !there || d.ID != "j" || len(d.Tries) > 2 || d.Attempt < 0 || d.TTL < 0 {
			t.Errorf("%q is %+v", fields, d)
		}
		for _, at := range []time.Time{d.Enqueued, d.Due, d.Began, d.Ended} {
			if !at.IsZero() && at.UnixMilli() <= 0 {
				t.Errorf("a time before 1970: %v", at)
			}
		}
		ProgressOf(progress)
	})
}
