package lmstfy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
	"github.com/goworker/goworker/internal/resque/lmstfywire"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// on returns a Do over one connection to a server. fail, if it is set, is asked before each call.
func on(t *testing.T, s *redistest.Server, fail func() error) Do {
	var mu sync.Mutex
	c := s.Dial(t)
	return func(_ context.Context, f func(resque.Store, redis.Conn) error) error {
		mu.Lock()
		defer mu.Unlock()
		if fail != nil {
			if err := fail(); err != nil {
				return err
			}
		}
		return f(resque.New(""), c)
	}
}

// lmstfy writes the keys of lmstfy.
type lmstfy struct {
	t      *testing.T
	server *redistest.Server
}

func (l lmstfy) do(command string, args ...any) { l.server.Do(l.t, command, args...) }

func packed(parts ...any) string {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.LittleEndian.AppendUint16(b, uint16(p))
		case string:
			b = append(binary.LittleEndian.AppendUint16(b, uint16(len(p))), p...)
		}
	}
	return string(b)
}

func (l lmstfy) body(ns, q, id, body string, ttl time.Duration) {
	l.do("HSET", "m/ns", ns, 1)
	l.do("HSET", "m/ns/"+ns, q, 1)
	l.do("SET", "j/"+ns+"/"+q+"/"+id, body)
	if ttl > 0 {
		l.do("PEXPIRE", "j/"+ns+"/"+q+"/"+id, ttl.Milliseconds())
	}
}

func (l lmstfy) ready(ns, q, id string, tries int, body string, ttl time.Duration) {
	l.body(ns, q, id, body, ttl)
	l.do("LPUSH", "q/"+ns+"/"+q, packed(tries, id))
}

func (l lmstfy) timed(ns, q, id string, tries int, due time.Time, body string) {
	l.body(ns, q, id, body, time.Hour)
	l.do("ZADD", "timer_set", due.Unix(), packed(ns, q, tries, id))
}

func dotted(q lmstfywire.Queue) (string, string, bool) {
	return q.Namespace + "." + q.Name, "", q.Namespace != "other"
}

func newID(delay uint32) string { return httpjob.NewID(time.Now().UnixMilli(), delay) }

func TestImport(t *testing.T) {
	t.Parallel()
	from, to := redistest.Start(t), redistest.Start(t)
	l := lmstfy{t, from}
	first, second, versioned, later, held, returned, buried, dead := newID(0), newID(0), "1"+newID(0), newID(3600), newID(0), newID(0), newID(0), newID(0)
	l.ready("shop", "mail", first, 3, "to \xff ada", 0)
	l.ready("shop", "mail", second, 1, "to bob", time.Hour)
	l.ready("shop", "mail", versioned, 1, `{"body":"aGk=","attributes":{"k":"v"}}`, 0)
	l.timed("shop", "mail", later, 2, time.Now().Add(time.Hour), "later")
	l.timed("shop", "mail", held, 1, time.Now().Add(time.Minute), "held")
	l.timed("shop", "mail", returned, 1, time.Now().Add(-time.Second), "returned")
	l.timed("shop", "mail", buried, 0, time.Now().Add(-time.Second), "buried")
	l.body("shop", "mail", dead, "dead", 0)
	l.do("LPUSH", "d/shop/mail", packed(1, dead))
	l.do("LPUSH", "q/shop/mail", packed(1, newID(0))) // acknowledged: it has no body
	l.ready("other", "mail", newID(0), 1, "not ours", 0)
	l.ready("shop", newID(0), newID(0), 1, "an answer to a synchronous call", 0)

	i := &Import{From: on(t, from, nil), To: on(t, to, nil), Queue: dotted}
	m, err := i.Run(t.Context())
	if err != nil || m.Ready != 4 || m.Delayed != 1 || m.Dead != 2 || m.Gone != 1 || m.Held != 1 || m.Replies != 1 {
		t.Fatalf("moved %+v, %v", m, err)
	}
	jobs := to.List(t, "LRANGE", "resque:queue:shop.mail", 0, -1)
	want := []string{
		`{"class":"HTTPJob","args":[{"base64":"dG8g/yBhZGE="}],"tries":3,"attempt":1,"id":"` + first + `"}`,
		``,
		`{"class":"HTTPJob","args":["hi"],"meta":{"k":"v"},"id":"` + versioned + `"}`,
	}
	for n, w := range want {
		if w != "" && jobs[n] != w {
			t.Errorf("job %d is %s, not %s", n, jobs[n], w)
		}
	}
	if id, expires := httpjob.Tail([]byte(jobs[1])); id != second || expires < time.Now().UnixMilli() || expires > time.Now().Add(time.Hour).UnixMilli() {
		t.Errorf("the job with a TTL is %s", jobs[1])
	}
	if !strings.Contains(jobs[3], "returned") || !strings.Contains(jobs[3], returned) {
		t.Errorf("the job whose TTR was over is %s", jobs[3])
	}
	if n := to.Int(t, "SISMEMBER", "resque:queues", "shop.mail"); n != 1 {
		t.Error("the queue has no name")
	}
	members := to.List(t, "ZRANGE", "resque:go:schedule", 0, -1, "WITHSCORES")
	due, _ := httpjob.FirstDue(later)
	if len(members) != 2 || !strings.Contains(members[0], later) || members[1] != fmt.Sprint(due) {
		t.Errorf("the schedule is %q, and the job is due at %d", members, due)
	}
	records := to.List(t, "LRANGE", "resque:shop.mail_failed", 0, -1)
	if len(records) != 2 || !strings.Contains(records[0], dead) || !strings.Contains(records[1], buried) || to.Int(t, "SISMEMBER", "resque:failed_queues", "shop.mail_failed") != 1 {
		t.Errorf("the dead letters are %q", records)
	}
	if f, err := payload.ParseFailure([]byte(records[0])); err != nil || f.Queue != "shop.mail" || f.Exception != "Goworker::TriesExhausted" {
		t.Errorf("the record is %+v, %v", f, err)
	}

	// The consumer acknowledges at lmstfy: its job never comes here.
	l.do("DEL", "j/shop/mail/"+held)
	l.do("ZADD", "timer_set", time.Now().Unix()-1, packed("shop", "mail", 1, held))
	if m, err := i.Run(t.Context()); err != nil || m.Jobs() != 0 || m.Gone != 1 {
		t.Errorf("moved %+v again, %v", m, err)
	}
	if left := from.List(t, "KEYS", "j/shop/mail/*"); len(left) > 0 || from.Int(t, "EXISTS", "timer_set", "q/shop/mail", "d/shop/mail") > 0 {
		t.Errorf("lmstfy still has %q", left)
	}
}

// Wherever it is cut off, and it is cut off at every step, the next import goes on, and each job arrives once, in its order.
func TestImportGoesOnAfterItWasKilled(t *testing.T) {
	t.Parallel()
	from, to := redistest.Start(t), redistest.Start(t)
	l := lmstfy{t, from}
	const jobs = 2*lmstfywire.PageJobs + 7
	for n := range jobs {
		l.ready("shop", "mail", newID(0), 1, fmt.Sprint(n), 0)
	}
	cut := errors.New("killed")
	for steps := 1; ; steps++ {
		left := steps
		fail := func() error {
			if left--; left < 0 {
				return cut
			}
			return nil
		}
		_, err := (&Import{From: on(t, from, fail), To: on(t, to, fail), Queue: dotted}).Run(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, cut) {
			t.Fatal(err)
		}
	}
	for n, raw := range to.List(t, "LRANGE", "resque:queue:shop.mail", 0, -1) {
		if !strings.Contains(raw, fmt.Sprintf(`"args":["%d"]`, n)) {
			t.Fatalf("job %d is %s", n, raw)
		}
	}
	if n := to.Int(t, "LLEN", "resque:queue:shop.mail"); n != jobs {
		t.Errorf("%d jobs arrived, of %d", n, jobs)
	}
}

// With Wait the import ends once the consumers of lmstfy hold nothing.
func TestImportWaits(t *testing.T) {
	t.Parallel()
	from, to := redistest.Start(t), redistest.Start(t)
	l := lmstfy{t, from}
	l.timed("shop", "mail", newID(0), 1, time.Now().Add(2*time.Second), "held")
	m, err := (&Import{From: on(t, from, nil), To: on(t, to, nil), Queue: dotted, Wait: true}).Run(t.Context())
	if err != nil || m.Ready != 1 || m.Held != 0 {
		t.Errorf("moved %+v, %v", m, err)
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Dial(t)
	store := resque.New("")
	in := func(delay time.Duration, raw string) {
		var b resque.Bulk
		if err := b.PutRaw([]byte(raw), resque.Place{Queue: "shop.mail", At: time.Now().Add(delay)}); err != nil {
			t.Fatal(err)
		}
		if err := store.PushBulk(c, &b); err != nil {
			t.Fatal(err)
		}
	}
	expires := time.Now().Add(2 * time.Hour).UnixMilli()
	in(time.Hour, fmt.Sprintf(`{"class":"HTTPJob","args":["later"],"meta":{"k":"v"},"tries":3,"attempt":2,"expires_at":%d,"id":"a"}`, expires))
	in(time.Hour, `{"class":"Other","args":["later"],"id":"b"}`)
	in(time.Hour, fmt.Sprintf(`{"class":"HTTPJob","args":["x"],"expires_at":%d,"id":"c"}`, time.Now().UnixMilli()+60_000))
	in(time.Hour, `{"class":"HTTPJob","args":["x"],"unique":"u","id":"d"}`)
	in(time.Second, `{"class":"HTTPJob","args":["soon"],"id":"e"}`)
	in(time.Hour, `{"class":"HTTPJob","args":["too large"],"id":"g"}`)
	in(time.Hour, `{"class":"HTTPJob","args":["x"],"meta":{"a b":"c"},"id":"h"}`)
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) == "too large" {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			fmt.Fprint(w, `{"error":"body too large"}`)
			return
		}
		q := r.URL.Query()
		got = append(got, fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.Header.Get("X-Token"), " ", r.Header.Get("Job-Attr-K"), " ", q.Get("tries"), " ", string(body)))
		if q.Get("delay") < "3000" || q.Get("ttl") < "6600" {
			t.Errorf("the query is %v", q)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	x := &Export{
		From: on(t, s, nil), To: server.URL, Token: map[string]string{"shop": "secret"},
		Queue: func(name string) (lmstfywire.Queue, string, bool) {
			ns, q, ok := strings.Cut(name, ".")
			return lmstfywire.Queue{Namespace: ns, Name: q}, "HTTPJob", ok
		},
	}
	p, err := x.Run(t.Context())
	if err != nil || p.Jobs != 1 || len(p.Left) != 5 || p.Left["lmstfy refused the job: body too large"] != 1 {
		t.Fatalf("published %+v, %v", p, err)
	}
	if len(got) != 1 || got[0] != "PUT /api/shop/mail secret v 2 later" {
		t.Errorf("lmstfy got %q", got)
	}
	left, err := delayed.New(store).Page(c, time.Time{}, 0, -1)
	if err != nil || len(left) != 6 {
		t.Errorf("%d jobs are left, %v", len(left), err)
	}
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"msg":"invalid token"}`)
	}))
	defer refuse.Close()
	in(time.Hour, `{"class":"HTTPJob","args":["kept"],"id":"f"}`)
	x.To = refuse.URL
	if _, err := x.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid token") || strings.Contains(err.Error(), "secret") {
		t.Errorf("lmstfy refuses: %v", err)
	}
	if n := s.Int(t, "ZCARD", "resque:go:schedule"); n != 7 {
		t.Errorf("%d jobs are left", n)
	}
}
