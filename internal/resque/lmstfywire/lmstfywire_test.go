package lmstfywire

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var mail = Queue{"shop", "mail"}

// The keys as lmstfy writes them.

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

func publish(t testing.TB, s *redistest.Server, q Queue, id, body string, tries int) {
	s.Do(t, "HSET", "m/ns", q.Namespace, 1)
	s.Do(t, "HSET", "m/ns/"+q.Namespace, q.Name, 1)
	s.Do(t, "SET", q.body(id), body)
	s.Do(t, "LPUSH", q.ready(), packed(tries, id))
}

// Whatever imports, consumers and lmstfy do in whatever order, and wherever an import is killed: each job is in one place, and arrives
// once.
func TestEachJobArrivesOnce(t *testing.T) {
	t.Parallel()
	from, to := redistest.Start(t), redistest.Start(t)
	src, dst := from.Dial(t), to.Dial(t)
	store := Store{resque.New("")}
	rapid.Check(t, func(r *rapid.T) {
		from.Do(t, "FLUSHALL")
		to.Do(t, "FLUSHALL")
		published, consumed := 0, map[string]int{}
		pages := make([]Claimed, 2) // what two imports have read last
		fatal := func(err error) {
			if err != nil {
				r.Fatal(err)
			}
		}
		which := func(r *rapid.T) *Claimed { return &pages[rapid.IntRange(0, 1).Draw(r, "import")] }
		source := func(p Claimed) Claimed {
			if p.Source == "" {
				p.Source = fmt.Sprint("source", rapid.Int().Draw(r, "source"))
			}
			return p
		}
		read := func(p *Claimed) {
			var err error
			*p, err = Page(src)
			fatal(err)
		}
		claim := func(p Claimed, most int) {
			entries, _, err := Head(src, mail, Ready, most)
			fatal(err)
			_, err = ClaimListed(src, source(p), mail, Ready, entries)
			fatal(err)
			timed, _, err := Timed(src, 0, most)
			fatal(err)
			_, err = ClaimTimed(src, source(p), timed, func(Entry) State { return Delayed })
			fatal(err)
		}
		adopt := func(p Claimed) {
			var jobs []Adopted
			for _, j := range p.Jobs {
				jobs = append(jobs, Adopted{Queue: "shop.mail", Payload: j.Body})
			}
			_, err := store.Adopt(dst, p, jobs)
			fatal(err)
		}
		r.Repeat(map[string]func(*rapid.T){
			"publish": func(*rapid.T) {
				published++
				publish(t, from, mail, fmt.Sprint("id", published), fmt.Sprint("body", published), 1)
			},
			"publish with a delay": func(*rapid.T) {
				published++
				id := fmt.Sprint("id", published)
				from.Do(t, "SET", mail.body(id), fmt.Sprint("body", published))
				from.Do(t, "ZADD", "timer_set", 100, packed("shop", "mail", 1, id))
			},
			"consume and acknowledge at lmstfy": func(*rapid.T) {
				if raw := from.Text(t, "RPOP", mail.ready()); raw != "" {
					e, _ := parseListed(mail, raw)
					consumed[from.Text(t, "GET", mail.body(e.ID))]++
					from.Do(t, "DEL", mail.body(e.ID))
				}
			},
			"read":  func(r *rapid.T) { read(which(r)) },
			"claim": func(r *rapid.T) { claim(*which(r), rapid.IntRange(1, 4).Draw(r, "most")) },
			"adopt": func(r *rapid.T) { adopt(*which(r)) },
			"drop": func(r *rapid.T) { // as an import does: only what it has adopted
				p := which(r)
				adopt(*p)
				fatal(Drop(src, *p))
				p.Jobs = nil
			},
			"": func(*rapid.T) {
				var at Claimed
				read(&at)
				last := to.Text(t, "HGET", "resque:go:imported", at.Source)
				places := map[string]int{}
				for body, n := range consumed {
					places[body] += n
				}
				for _, body := range to.List(t, "LRANGE", "resque:queue:shop.mail", 0, -1) {
					places[body]++
				}
				for _, j := range at.Jobs {
					if fmt.Sprint(at.Number) != last {
						places[string(j.Body)]++
					}
				}
				if keys := from.List(t, "KEYS", "j/*"); len(keys) > 0 {
					for _, body := range from.List(t, "MGET", redis.Args{}.AddFlat(keys)...) {
						places[body]++
					}
				}
				for i := 1; i <= published; i++ {
					if n := places[fmt.Sprint("body", i)]; n != 1 {
						r.Fatalf("job %d is in %d places: %v", i, n, places)
					}
				}
			},
		})
		for { // one import goes on to the end
			read(&pages[0])
			if len(pages[0].Jobs) > 0 {
				adopt(pages[0])
				fatal(Drop(src, pages[0]))
			}
			claim(pages[0], 3)
			var next Claimed
			if read(&next); len(next.Jobs) == 0 {
				break
			}
		}
		if left := from.Keys(t); len(left) > 4 {
			r.Fatalf("lmstfy's Redis still has %q", left)
		}
	})
}

// A job takes with it what lmstfy knows of it.
func TestPageHoldsJobs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Dial(t)
	publish(t, s, mail, "a", "first", 3)
	publish(t, s, mail, "b", "second", 1)
	publish(t, s, mail, "gone", "", 1)
	s.Do(t, "DEL", mail.body("gone"))
	s.Do(t, "PEXPIRE", mail.body("b"), 100_000)
	queues, err := Queues(c)
	if err != nil || len(queues) != 1 || queues[0] != mail {
		t.Fatalf("the queues are %v, %v", queues, err)
	}
	entries, all, err := Head(c, mail, Ready, 10)
	if err != nil || all != 3 || len(entries) != 3 || entries[0].ID != "a" || entries[0].Tries != 3 {
		t.Fatalf("the head is %+v of %d, %v", entries, all, err)
	}
	got, err := ClaimListed(c, Claimed{Source: "x"}, mail, Ready, entries)
	if err != nil || got != (Got{Jobs: 2, Gone: 1}) {
		t.Fatalf("claimed %+v, %v", got, err)
	}
	p, err := Page(c)
	if err != nil || p.Source != "x" || p.Number != 1 || len(p.Jobs) != 2 {
		t.Fatalf("the page is %+v, %v", p, err)
	}
	a, b := p.Jobs[0], p.Jobs[1]
	if a.State != Ready || a.Queue != mail || a.ID != "a" || a.Tries != 3 || string(a.Body) != "first" || a.Expires != 0 {
		t.Errorf("the first job is %+v", a)
	}
	if left := b.Expires - time.Now().UnixMilli(); b.ID != "b" || left <= 0 || left > 100_000 {
		t.Errorf("the second job is %+v, with %d ms to live", b, left)
	}
	if again, err := ClaimListed(c, p, mail, Ready, entries); err != nil || again.Sum() != 0 {
		t.Errorf("a second page was claimed beside the first: %+v, %v", again, err)
	}
	if err := Drop(c, Claimed{Number: 7}); err != nil || s.Int(t, "EXISTS", pageKey) != 1 {
		t.Errorf("another page's number dropped this one, %v", err)
	}
	if err := Drop(c, p); err != nil || s.Int(t, "EXISTS", pageKey) != 0 {
		t.Errorf("the page is still there, %v", err)
	}
}

// A page ends before its bodies are too many bytes, but has one job at least.
func TestPageIsBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Dial(t)
	for i := range 6 {
		publish(t, s, mail, fmt.Sprint(i), strings.Repeat("x", 1<<20), 1)
	}
	entries, _, err := Head(c, mail, Ready, 10)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ClaimListed(c, Claimed{Source: "x"}, mail, Ready, entries)
	if err != nil || got.Jobs != 4 {
		t.Errorf("the page has %+v, %v", got, err)
	}
}

// Where a key has another type, or is not lmstfy's, nothing is moved, and the error names it.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Dial(t)
	publish(t, s, mail, "a", "first", 3)
	entries, _, err := Head(c, mail, Ready, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{recordKey, pageKey, mail.body("a")} {
		was := s.Text(t, "DUMP", key)
		s.Do(t, "DEL", key)
		s.Do(t, "ZADD", key, 1, "x")
		if _, err := ClaimListed(c, Claimed{Source: "x"}, mail, Ready, entries); err == nil {
			t.Errorf("with %s of another type a page was claimed", key)
		}
		if n := s.Int(t, "LLEN", mail.ready()); n != 1 {
			t.Errorf("with %s of another type the list has %d entries", key, n)
		}
		s.Do(t, "DEL", key)
		if was != "" {
			s.Do(t, "RESTORE", key, 0, was)
		}
	}
	s.Do(t, "RPUSH", mail.ready(), "x")
	if _, _, err := Head(c, mail, Ready, 10); err == nil || !strings.Contains(err.Error(), "q/shop/mail") {
		t.Errorf("an entry that is not lmstfy's: %v", err)
	}
	s.Do(t, "ZADD", "timer_set", 1, "x")
	if _, _, err := Timed(c, 0, 10); err == nil || !strings.Contains(err.Error(), "timer_set") {
		t.Errorf("an entry that is not lmstfy's: %v", err)
	}
}

// When Redis is out of memory nothing is moved.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Dial(t)
	publish(t, s, mail, "a", "first", 3)
	entries, _, err := Head(c, mail, Ready, 10)
	if err != nil {
		t.Fatal(err)
	}
	s.Do(t, "CONFIG", "SET", "maxmemory", 1)
	if _, err := ClaimListed(c, Claimed{Source: "x"}, mail, Ready, entries); err == nil {
		t.Error("a page was claimed")
	}
	if s.Int(t, "LLEN", mail.ready()) != 1 || s.Int(t, "EXISTS", mail.body("a")) != 1 {
		t.Error("the job is gone")
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "HSET", "tk/default/shop", "01DT", "the shop")
	s.Do(t, "HSET", "tk/big/mail", "01DX", "mails", "01DA", "more")
	s.Do(t, "HSET", "__throttler_keys__", "default/shop/01DT", `{"read":10,"write":20,"interval":3}`)
	all, err := Tokens(s.Dial(t))
	want := []Token{
		{Pool: "big", Namespace: "mail", Token: "01DA", Description: "more"},
		{Pool: "big", Namespace: "mail", Token: "01DX", Description: "mails"},
		{"default", "shop", "01DT", "the shop", Limits{10, 20, 3}},
	}
	if err != nil || fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("the tokens are %v, %v", all, err)
	}
}
