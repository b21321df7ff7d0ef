package leases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// until lets the lease of a job end at a time.
func (b *bundle) endAt(place string, ms int64) {
	b.Helper()
	b.do("ZADD", "resque:go:leases", "XX", ms, place)
}

func (b *bundle) expired(most int) (first int64, jobs []Job) {
	b.Helper()
	_, first, jobs, err := b.s.Expired(b.c, most)
	b.must(err)
	return first, jobs
}

// Jobs are found when their leases have ended, the first one first.
func TestExpired(t *testing.T) { each(t, testExpired) }

func testExpired(t *testing.T, b *bundle) {
	first, jobs := b.expired(10)
	b.same("nothing is held", "0 0", fmt.Sprint(first, len(jobs)))
	b.push("q", job("1"), job("2"), job("3"), job("4"))
	held := b.take(4, "q")
	ends, _ := LeaseEnds(held[0].Lease)
	first, jobs = b.expired(10)
	b.same("none has ended", fmt.Sprint(ends, 0), fmt.Sprint(first, len(jobs)))
	for i, place := range []string{"1:q3", "1:q1", "1:q4"} {
		b.endAt(place, 1000+int64(i))
	}
	first, jobs = b.expired(10)
	b.same("ended", fmt.Sprintf("over:q/3 over:q/1 over:q/4 %d", ends), fmt.Sprintf("%s %d", text(jobs), first))
	b.same("with payload and lease", job("3")+" 1000", string(jobs[0].Payload)+" "+jobs[0].Lease)
	first, jobs = b.expired(2)
	b.same("a page", "over:q/3 over:q/1 1002", fmt.Sprintf("%s %d", text(jobs), first))
	b.do("HSET", "resque:go:leased", "1:q3", strings.Repeat("x", expiredBytes), "1:q1", "y")
	first, jobs = b.expired(10)
	b.same("of many bytes", "over:q/3 1001", fmt.Sprintf("%s %d", text(jobs), first))
}

// A job whose bytes were acknowledged late, while it waited to be ended, is done.
func TestExpiredDone(t *testing.T) { each(t, testExpiredDone) }

func testExpiredDone(t *testing.T, b *bundle) {
	b.push("q", job("1"), job("2"))
	for _, j := range b.take(2, "q") {
		b.back(j, job(j.ID))
	}
	b.turn(Turn{Acks: []Ack{{"q", "1", ""}, {"q", "2", ""}}})
	b.do("LSET", "resque:queue:q", 1, `{"other":1,"id":"2"}`)
	b.take(2, "q") // and its server is killed
	b.endAt("1:q1", 1)
	b.endAt("1:q2", 2)
	_, jobs := b.expired(10)
	b.same("ended", "done:q/1 over:q/2", text(jobs))
}

// After a jump of Redis's clock leases end so much later, until as much time is over.
func TestJump(t *testing.T) { each(t, testJump) }

func testJump(t *testing.T, b *bundle) {
	b.push("q", job("1"))
	b.take(1, "q")
	now := b.now()
	b.endAt("1:q1", now-1000)
	b.must(b.s.Jump(b.c, time.Hour))
	first, jobs := b.expired(10)
	b.same("it keeps its time", fmt.Sprint(now-1000+3_600_000, 0), fmt.Sprint(first, len(jobs)))
	if ttl := b.int("PTTL", "resque:go:jump"); ttl < 3_500_000 || ttl > 3_600_000 {
		t.Errorf("it is remembered for %d ms", ttl)
	}
	b.must(b.s.Jump(b.c, 100*time.Hour))
	if left, most := time.Duration(b.int("PTTL", "resque:go:jump"))*time.Millisecond, 12*time.Hour; left > most || left < most-time.Minute {
		t.Errorf("it is remembered for %v, and twelve hours are the most", left)
	}
	b.must(b.s.Jump(b.c, time.Minute))
	b.same("the longer one stays", "43200000", strings.Split(b.str("GET", "resque:go:jump"), " ")[0])
	b.do("DEL", "resque:go:jump")
	b.must(b.s.Jump(b.c, time.Millisecond))
	redistest.Eventually(t, 20*time.Second, "the jump is over", func() bool {
		_, jobs := b.expired(10)
		return text(jobs) == "over:q/1" && b.int("EXISTS", "resque:go:jump") == 0
	})
	b.must(b.s.Jump(b.c, -time.Hour))
	b.must(b.s.Jump(b.c, 0))
	b.same("none", 0, b.int("EXISTS", "resque:go:jump"))
	for _, odd := range [][]any{{"SET", "resque:go:jump", "x"}, {"RPUSH", "resque:go:jump", "x"}} {
		b.do("DEL", "resque:go:jump")
		b.do(odd[0].(string), odd[1:]...)
		_, jobs := b.expired(10)
		b.same("with an odd key", "over:q/1", text(jobs))
		b.must(b.s.Jump(b.c, time.Second))
	}
}

// A lease that has lost its job goes when it ends, and a job that has lost its lease gets one.
func TestLostKeys(t *testing.T) { each(t, testLostKeys) }

func testLostKeys(t *testing.T, b *bundle) {
	b.push("q", job("1"), job("2"))
	held := b.take(2, "q")
	b.do("HDEL", "resque:go:leased", "1:q1")
	b.endAt("1:q1", 5)
	first, jobs := b.expired(10)
	ends, _ := LeaseEnds(held[1].Lease)
	b.same("without its job", fmt.Sprint(ends, 0), fmt.Sprint(first, len(jobs)))
	b.same("leases", []string{"1:q2"}, b.list("ZRANGE", "resque:go:leases", 0, -1))

	b.do("DEL", "resque:go:leases")
	now := b.now()
	first, jobs = b.expired(10)
	if _, lease, err := b.s.Leased(b.c, "1:q2"); err != nil || !HasEffects(lease) || first < now+60_000 || first > b.now()+60_000 || len(jobs) > 0 {
		t.Errorf("the lease is %s, %v; the first ends in %d ms; %d jobs", lease, err, first-now, len(jobs))
	}
	first2, _ := b.expired(10)
	if first2 < first || first2 > first+10_000 {
		t.Errorf("at the next look it ends %d ms later", first2-first)
	}
}

// As many leases without a job as jobs without a lease do not hide each other for longer than those leases last.
func TestLostKeysHideNothing(t *testing.T) { each(t, testLostKeysHideNothing) }

func testLostKeysHideNothing(t *testing.T, b *bundle) {
	b.push("q", job("1"), job("2"))
	b.take(2, "q")
	b.do("HDEL", "resque:go:leased", "1:q1")
	b.do("ZREM", "resque:go:leases", "1:q2")
	b.expired(10)
	b.endAt("1:q1", 5)
	b.expired(10)
	b.expired(10)
	b.same("leases", []string{"1:q2"}, b.list("ZRANGE", "resque:go:leases", 0, -1))
}

// A lease is touched if it is the one that is named.
func TestTouch(t *testing.T) { each(t, testTouch) }

func testTouch(t *testing.T, b *bundle) {
	b.push("q", job("1"), `{"unique":1,"id":"2"}`)
	jobs := b.turn(Turn{Asks: []Ask{ask(2, "q")}, Texts: []string{"unique"}}).Jobs
	for _, j := range jobs {
		before := b.now()
		lease, err := b.s.Touch(b.c, "q", j.ID, j.Lease, time.Hour)
		b.must(err)
		ends, _ := LeaseEnds(lease)
		if ends < before+3_600_000 || ends > b.now()+3_600_000 || HasEffects(lease) != j.Effects {
			t.Errorf("%s has the lease %s, %d ms from now", j.ID, lease, ends-before)
		}
		for _, wrong := range []string{j.Lease, "7"} {
			if again, err := b.s.Touch(b.c, "q", j.ID, wrong, time.Hour); again != "" || err != nil {
				t.Errorf("touched by the lease %s: %q, %v", wrong, again, err)
			}
		}
		last, err := b.s.Touch(b.c, "q", j.ID, "", time.Second)
		b.must(err)
		leases, err := b.s.Leases(b.c, []string{"1:qx", j.Place()})
		b.must(err)
		b.same("whichever it has", []string{"", last}, leases)
	}
	if lease, err := b.s.Touch(b.c, "other", "1", "", time.Hour); lease != "" || err != nil {
		t.Errorf("of another queue: %q, %v", lease, err)
	}
	none, err := b.s.Leases(b.c, nil)
	b.must(err)
	b.same("of no place", 0, len(none))
	b.same("leases", 2, b.int("ZCARD", "resque:go:leases"))
}

// Marks go after a day, and not if they have changed.
func TestTrim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.now()
	old := now - marksStay.Milliseconds() - 60_000
	b.do("HSET", "resque:go:returned", "1:q1", fmt.Sprintf("back %040d %d", 0, old), "1:q2", fmt.Sprintf("done %040d %d", 0, now), "1:q3", "odd")
	next, removed, err := b.s.Trim(b.c, "0")
	b.must(err)
	b.same("removed", "0 2", fmt.Sprint(next, " ", removed))
	b.same("left", []string{"1:q2"}, b.list("HKEYS", "resque:go:returned"))
	args := redis.Args{"resque:go:returned"}
	for i := range 2000 {
		args = args.Add(fmt.Sprint("1:x", i), fmt.Sprintf("back %040d %d", 0, old))
	}
	b.do("HSET", args...)
	next, removed, err = b.s.Trim(b.c, "0")
	b.must(err)
	if next == "0" || removed == 0 || removed > 1500 {
		t.Errorf("of a page %d were removed, and the next is %s", removed, next)
	}
	for next != "0" {
		next, _, err = b.s.Trim(b.c, next)
		b.must(err)
	}
	b.same("left", []string{"1:q2"}, b.list("HKEYS", "resque:go:returned"))
}
