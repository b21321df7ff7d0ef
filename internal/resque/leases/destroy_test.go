package leases

import (
	"fmt"
	"strings"
	"testing"
)

// destroy removes a queue step by step, and returns how many jobs are gone and those that are to be committed.
func (b *bundle) destroy(queue string, texts ...string) (removed int, jobs []Job) {
	b.Helper()
	for from, step := "", 0; ; step++ {
		d, err := b.s.Destroy(b.c, queue, from, texts, fmt.Sprintf("%016d", step))
		b.must(err)
		removed, jobs = removed+d.Removed, append(jobs, d.Jobs...)
		for _, j := range d.Jobs {
			payload, lease, err := b.s.Leased(b.c, j.Place())
			if err != nil || lease != j.Lease || string(payload) != string(j.Payload) || HasEffects(lease) != j.Effects {
				b.Errorf("%s has %q, %s, %v", j.Place(), payload, lease, err)
			}
			if !b.end(j) {
				b.Errorf("%s could not be ended", j.ID)
			}
		}
		if from = d.Next; from == "" {
			return removed, jobs
		}
	}
}

// A queue's jobs are gone, wherever they wait; those whose end has effects, or that clients hold, are left to be committed.
func TestDestroy(t *testing.T) { each(t, testDestroy) }

func testDestroy(t *testing.T, b *bundle) {
	b.push("q", job("held"), job("1"), `{"unique":1,"id":"2"}`, `{"unique":1}`, `{"unique":1,"id":"held"}`)
	b.push("q2", job("other"), job("5"))
	b.take(1, "q")
	b.take(1, "q2")
	b.do("SADD", "resque:queues", "q", "q2")
	b.do("ZADD", "resque:go:schedule", 5, "1:q"+job("3"), 6, `1:q{"unique":1,"id":"4"}`, 7, "2:q2"+job("6"), 8, "1:qx")
	b.bury(job("dead"))
	removed, jobs := b.destroy("q", `"wf":`, `"unique":`)
	b.same("removed", 7, removed)
	b.same("to be committed", "0:q/2! 0:q/"+strings.Repeat("0", 16)+"0040000000! 0:q/"+strings.Repeat("0", 16)+"0080000000! 0:q/4! ", text(jobs[:4])+" ")
	b.same("the one that a client holds", "0:q/held", text(jobs[4:]))
	b.same("queues", []string{"q2"}, b.list("SMEMBERS", "resque:queues"))
	b.same("lists", []string{"resque:queue:q2"}, b.list("KEYS", "resque:queue:*"))
	b.same("schedule", []string{"2:q2" + job("6")}, b.list("ZRANGE", "resque:go:schedule", 0, -1))
	b.same("failures", []string{job("dead")}, b.dead())
	removed, jobs = b.destroy("q")
	b.same("once more", "0 ", fmt.Sprint(removed, " ", text(jobs)))
	b.same("held", []string{"2:q2other"}, b.list("ZRANGE", "resque:go:leases", 0, -1))
	if _, err := b.s.Destroy(b.c, "q", "elsewhere", nil, seed); err == nil {
		t.Error("it goes on elsewhere")
	}
}

// A long queue goes in pages.
func TestDestroyPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var all []string
	for i := range 2200 {
		all = append(all, fmt.Sprint(i))
	}
	b.publish(Publish{Queue: "q", Payloads: texts(all...)}, Publish{Queue: "q", Payloads: texts(all...), At: 5}, Publish{Queue: "other", Payloads: texts(all...), At: 5})
	d, err := b.s.Destroy(b.c, "q", "", nil, seed)
	b.must(err)
	b.same("a page", "1000 ready 1200", fmt.Sprint(d.Removed, " ", d.Next, " ", len(b.queue("q"))))
	removed, jobs := b.destroy("q")
	b.same("the rest", "3400 0", fmt.Sprint(removed, " ", len(jobs)))
	b.same("of the other queue", 2200, b.int("ZCARD", "resque:go:schedule"))
}

// A job that waits is reserved for its end, once.
func TestSeize(t *testing.T) { each(t, testSeize) }

func testSeize(t *testing.T, b *bundle) {
	b.push("q", job("1"), job("2"), job("1"))
	b.do("ZADD", "resque:go:schedule", 5, "1:q"+job("3"))
	for _, tt := range []struct {
		payload string
		delayed bool
		id      string // "": it is not there
	}{{job("1"), false, "1"}, {job("1"), false, seed + "0040000000"}, {job("1"), false, ""}, {job("3"), false, ""}, {job("3"), true, "3"}, {job("3"), true, ""}} {
		j, there, err := b.s.Seize(b.c, "q", []byte(tt.payload), tt.delayed, seed)
		b.must(err)
		b.same("it is there", tt.id != "", there)
		b.same("its id", tt.id, j.ID)
		if there && (!b.end(j, b.s.LeasedHead("q")...) || b.queue("q")[0] != tt.payload) {
			t.Errorf("%s: the queue is %q", j.ID, b.queue("q"))
		}
		if there {
			b.do("LPOP", "resque:queue:q")
			b.do("ZADD", "resque:go:leases", 1, "1:q1") // the next one of this id gets another
		}
	}
	b.same("left", []string{job("2")}, b.queue("q"))
}
