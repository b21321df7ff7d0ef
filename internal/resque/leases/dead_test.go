package leases

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/payload"
)

// failure is a record of a job that failed.
func failure(raw string) []byte {
	return payload.Failure{Payload: []byte(raw), Exception: "E", Error: "x", Queue: "q"}.Encode()
}

// bury files jobs as failed.
func (b *bundle) bury(raws ...string) {
	b.Helper()
	for _, raw := range raws {
		b.do("RPUSH", "resque:q_failed", failure(raw))
	}
}

func (b *bundle) dead() (all []string) {
	b.Helper()
	records, err := b.s.DeadHead(b.c, "q", 100)
	b.must(err)
	for _, r := range records {
		f, err := payload.ParseFailure(r)
		b.must(err)
		all = append(all, string(f.Payload))
	}
	return all
}

// The oldest failures run again, once, and their records go.
func TestRespawn(t *testing.T) { each(t, testRespawn) }

func testRespawn(t *testing.T, b *bundle) {
	b.bury(job("1"), job("2"), `{"class":"C"}`, job("4"))
	b.do("HSET", "resque:go:returned", "1:q1", "dead", "1:q2", "dead", "1:q4", "dead")
	size, err := b.s.DeadSize(b.c, "q")
	b.must(err)
	b.same("size", 4, size)
	records, err := b.s.DeadHead(b.c, "q", 3)
	b.must(err)
	b.same("records", 3, len(records))
	payloads := texts(job("1"), job("2"), `{"class":"C","again":1}`)
	moved, err := b.s.Respawn(b.c, "q", records, payloads)
	b.must(err)
	b.same("moved", 3, moved)
	b.same("queue", []string{job("1"), job("2"), `{"class":"C","again":1}`}, b.queue("q"))
	b.same("queues", []string{"q"}, b.list("SMEMBERS", "resque:queues"))
	b.same("dead", []string{job("4")}, b.dead())
	b.same("marks", []string{"1:q4"}, b.list("HKEYS", "resque:go:returned"))
	for range 2 {
		moved, err = b.s.Respawn(b.c, "q", records, payloads)
		b.must(err)
		b.same("the same records once more", 0, moved)
		b.do("DEL", "resque:q_failed")
	}
	b.same("queue", 3, len(b.queue("q")))
	if n, err := b.s.Respawn(b.c, "q", nil, nil); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func TestRemoveDead(t *testing.T) { each(t, testRemoveDead) }

func testRemoveDead(t *testing.T, b *bundle) {
	b.bury(job("1"), job("2"), job("3"))
	for _, tt := range []struct{ most, removed int }{{0, 0}, {2, 2}, {9, 1}, {9, 0}} {
		n, err := b.s.RemoveDead(b.c, "q", tt.most)
		b.must(err)
		b.same(fmt.Sprint("at most ", tt.most), tt.removed, n)
	}
	b.do("SET", "resque:q_failed", "x")
	_, err1 := b.s.RemoveDead(b.c, "q", 1)
	_, err2 := b.s.DeadSize(b.c, "q")
	_, err3 := b.s.DeadHead(b.c, "q", 1)
	_, err4 := b.s.TakeBack(b.c, "q", "1")
	_, err5 := b.s.Respawn(b.c, "q", texts("x"), texts("x"))
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err == nil || !strings.Contains(err.Error(), "queue q") || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Error(err)
		}
	}
}

// The failure of a job that was acknowledged late goes: of this id alone, the newest of them.
func TestTakeBack(t *testing.T) { each(t, testTakeBack) }

func testTakeBack(t *testing.T, b *bundle) {
	b.bury(job("1"), `{"class":"C","args":["\"1\""],"id":"2"}`, job("1"), job("3"))
	b.do("LPUSH", "resque:q_failed", "no record")
	for _, want := range []bool{true, true, false} {
		there, err := b.s.TakeBack(b.c, "q", "1")
		b.must(err)
		b.same("taken back", want, there)
	}
	b.do("LPOP", "resque:q_failed")
	b.same("left", []string{`{"class":"C","args":["\"1\""],"id":"2"}`, job("3")}, b.dead())
	there, err := b.s.TakeBack(b.c, "q", "")
	b.must(err)
	b.same("without an id", false, there)
}
