package leases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const seed = "01ABCDEFGHJKMNPQ"

// bundle is a Redis and the connection of a server.
type bundle struct {
	testing.TB
	redis *redistest.Server // nil: the embedded one
	c     redis.Conn
	s     Store
	turns int64
}

func setup(t testing.TB, args ...string) *bundle {
	t.Helper()
	server := redistest.Start(t, args...)
	return begin(t, server, server.Dial(t))
}

func begin(t testing.TB, server *redistest.Server, c redis.Conn) *bundle {
	t.Helper()
	b := &bundle{TB: t, redis: server, c: c, s: New(resque.New(""))}
	b.served(0)
	return b
}

// each runs a test on a Redis and on the one that goworker embeds.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, setup(t))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		server := miniredis.RunT(t)
		server.ClockTTL(true)
		c, err := redis.Dial("tcp", server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		test(t, begin(t, nil, c))
	})
}

func (b *bundle) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) same(what string, want, got any) {
	b.Helper()
	if w, g := fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got); w != g {
		b.Errorf("%s: %s, want %s", what, g, w)
	}
}

// served opens the server's record and returns what it says of the last turn.
func (b *bundle) served(number int64) (int64, []Job) {
	b.Helper()
	last, jobs, err := b.s.Served(b.c, "s1", number)
	b.must(err)
	return last, jobs
}

func (b *bundle) do(command string, args ...any) any {
	b.Helper()
	reply, err := b.c.Do(command, args...)
	if err != nil {
		b.Fatalf("%s %v: %v", command, args, err)
	}
	return reply
}

func (b *bundle) list(command string, args ...any) []string {
	b.Helper()
	list, err := redis.Strings(b.do(command, args...), nil)
	b.must(err)
	return list
}

func (b *bundle) int(command string, args ...any) int {
	b.Helper()
	n, err := redis.Int(b.do(command, args...), nil)
	b.must(err)
	return n
}

func (b *bundle) str(command string, args ...any) string {
	b.Helper()
	text, err := redis.String(b.do(command, args...), nil)
	b.must(err)
	return text
}

func (b *bundle) push(queue string, payloads ...string) {
	b.Helper()
	for _, p := range payloads {
		b.do("RPUSH", "resque:queue:"+queue, p)
	}
}

func (b *bundle) queue(name string) []string {
	b.Helper()
	return b.list("LRANGE", "resque:queue:"+name, 0, -1)
}

func (b *bundle) now() int64 {
	b.Helper()
	now, err := b.s.Now(b.c)
	b.must(err)
	return now.UnixMilli()
}

// job is a payload as goworker writes it.
func job(id string) string { return fmt.Sprintf(`{"class":"C","args":[1],"id":"%s"}`, id) }

// until is one with a time until which it may be given.
func until(id string, ms int64) string {
	return fmt.Sprintf(`{"class":"C","args":[1],"expires_at":%d,"id":"%s"}`, ms, id)
}

func ask(n int, queues ...string) Ask { return Ask{Queues: queues, TTR: time.Minute, Count: n} }

// send sends a turn with the usual bounds.
func (b *bundle) send(t Turn) (Answer, error) {
	if t.Number == 0 {
		b.turns++
		t.Number = b.turns
	}
	t.Server, t.Seed = "s1", seed
	if t.Jobs == 0 {
		t.Jobs = 512
	}
	if t.Bytes == 0 {
		t.Bytes = 1 << 20
	}
	return b.s.Turn(b.c, &t)
}

func (b *bundle) turn(t Turn) Answer {
	b.Helper()
	a, err := b.send(t)
	b.must(err)
	return a
}

// take takes jobs of a queue.
func (b *bundle) take(n int, queue string) []Job {
	b.Helper()
	jobs := b.turn(Turn{Asks: []Ask{ask(n, queue)}}).Jobs
	if len(jobs) != n {
		b.Fatalf("%d jobs were taken, want %d", len(jobs), n)
	}
	return jobs
}

// text shows jobs shortly: the ask or the fate, queue and id, '!' for effects.
func text(jobs []Job) string {
	var all []string
	for _, j := range jobs {
		who := fmt.Sprint(j.Ask)
		if j.Fate != Given {
			who = map[Fate]string{Expired: "expired", Done: "done", Over: "over"}[j.Fate]
		}
		mark := ""
		if j.Effects {
			mark = "!"
		}
		all = append(all, who+":"+j.Queue+"/"+j.ID+mark)
	}
	return strings.Join(all, " ")
}

// Each ask gets jobs of its queues in their order; asks are served in theirs. A lease is what Redis has.
func TestTurnReserves(t *testing.T) { each(t, testTurnReserves) }

func testTurnReserves(t *testing.T, b *bundle) {
	b.push("a", job("1"), job("2"), job("3"))
	b.push("b", job("4"))
	before := b.now()
	a := b.turn(Turn{Asks: []Ask{ask(2, "none", "a"), {Queues: []string{"b", "a"}, TTR: 2 * time.Hour, Count: 5}}})
	b.same("jobs", "0:a/1 0:a/2 1:b/4 1:a/3", text(a.Jobs))
	b.same("empty", []string{"none", "b", "a"}, a.Empty)
	if a.Now < before || a.Now > b.now() || len(a.Errors)+len(a.Acks) > 0 || a.Armed {
		t.Errorf("the answer is %+v", a)
	}
	for _, j := range a.Jobs {
		payload, lease, err := b.s.Leased(b.c, j.Place())
		if err != nil || string(payload) != job(j.ID) || string(j.Payload) != job(j.ID) || lease != j.Lease {
			t.Errorf("%s has the lease %s and is %q, and Redis has %s, %q, %v", j.Place(), j.Lease, j.Payload, lease, payload, err)
		}
		ttr := time.Minute
		if j.Ask == 1 {
			ttr = 2 * time.Hour
		}
		if ends, ok := LeaseEnds(j.Lease); !ok || ends != a.Now+ttr.Milliseconds() {
			t.Errorf("the lease of %s ends at %d, want %d", j.ID, ends, a.Now+ttr.Milliseconds())
		}
	}
	if keys := b.list("KEYS", "resque:queue:*"); len(keys) > 0 {
		t.Errorf("left are %q", keys)
	}
	b.same("nothing is to be had", "", text(b.turn(Turn{Asks: []Ask{ask(1, "a")}}).Jobs))
}

// A job without an id at the end of its payload gets one, and so does a second one of an id. Nothing is overwritten.
func TestTurnIDs(t *testing.T) { each(t, testTurnIDs) }

func testTurnIDs(t *testing.T, b *bundle) {
	long := strings.Repeat("x", 128)
	version := "1" + strings.Repeat("0", 26)
	odd := []string{`{"class":"C"}`, `{"id":"x","class":"C"}`, ``, `}`, `"id":"x"}`, `{"args":[",\"id\":\"x"]}`, `{"id":"a\"b"}`, `{"a":1,"id":"a\"b"}`,
		`{"a":1,"id":"` + strings.Repeat("x", 200) + `"}`, `{"a":1,"id":""}`, `{"a":1,"id":"x\n"}`, `{"a":1,"id":7}`}
	b.push("q", job("one"), job(long), job(version), `{"class":"C","id":"früh"}`, job("one"))
	b.push("q", odd...)
	jobs := b.take(5+len(odd), "q")
	for i, want := range []string{"one", long, version, "früh"} {
		if jobs[i].ID != want {
			t.Errorf("job %d has the id %q, want %q", i, jobs[i].ID, want)
		}
	}
	seen := make(map[string]bool)
	for _, j := range jobs {
		if seen[j.ID] {
			t.Errorf("two jobs have the id %s", j.ID)
		}
		seen[j.ID] = true
	}
	for i, j := range jobs[4:] {
		if len(j.ID) != 26 || !strings.HasPrefix(j.ID, seed) || !strings.HasSuffix(j.ID, "0000000") || !strings.ContainsAny(j.ID[18:19], "048CGMRW") {
			t.Errorf("%q got the id %q", j.Payload, j.ID)
		}
		if want := append([]string{job("one")}, odd...)[i]; string(j.Payload) != want {
			t.Errorf("job %d is %q, want %q", i, j.Payload, want)
		}
	}
	b.same("jobs with a lease", len(jobs), b.int("HLEN", "resque:go:leased"))
	b.push("q", job("one"))
	if again := b.take(1, "q")[0]; again.ID != seed+"0040000000" { // the same seed: the first ids are taken
		if seen[again.ID] {
			t.Errorf("the id %s was given twice", again.ID)
		}
	}
	b.same("jobs with a lease", len(jobs)+1, b.int("HLEN", "resque:go:leased"))
}

// A thousand jobs without ids in one turn have a thousand ids.
func TestTurnManyJobs(t *testing.T) { each(t, testTurnManyJobs) }

func testTurnManyJobs(t *testing.T, b *bundle) {
	args := redis.Args{"resque:queue:q"}
	for i := range 1500 {
		args = args.Add(fmt.Sprintf(`{"n":%d}`, i))
	}
	b.do("RPUSH", args...)
	a := b.turn(Turn{Jobs: 5000, Asks: []Ask{ask(700, "q"), ask(700, "q")}})
	ids := make(map[string]bool)
	acks := []Ack{}
	for i, j := range a.Jobs {
		ids[j.ID] = true
		acks = append(acks, Ack{j.Queue, j.ID, j.Lease})
		if string(j.Payload) != fmt.Sprintf(`{"n":%d}`, i) || j.Ask != i/700 {
			t.Fatalf("job %d is %q for ask %d", i, j.Payload, j.Ask)
		}
	}
	if len(ids) != MostJobs || len(a.Empty) != 0 {
		t.Fatalf("%d ids, empty are %q", len(ids), a.Empty)
	}
	rest := b.turn(Turn{Asks: []Ask{ask(1000, "q")}, Jobs: 1000})
	for _, j := range rest.Jobs {
		acks = append(acks, Ack{j.Queue, j.ID, ""})
	}
	acks = append(acks, acks[:500]...)
	for i, what := range b.turn(Turn{Acks: acks}).Acks {
		want := Acked
		if i >= 1500 {
			want = Unknown
		}
		if what != want {
			t.Fatalf("ack %d is %s", i, what)
		}
	}
	b.same("left", "resque:go:served:s1 resque:stat:processed", keys(b))
	b.same("processed", "1500", b.str("GET", "resque:stat:processed"))
}

func keys(b *bundle) string {
	b.Helper()
	k := b.list("KEYS", "*")
	slices.Sort(k)
	return strings.Join(k, " ")
}

// A turn is bounded in jobs and bytes, and yet a large job passes.
func TestTurnBounds(t *testing.T) { each(t, testTurnBounds) }

func testTurnBounds(t *testing.T, b *bundle) {
	for i := range 6 {
		b.push("q", job(fmt.Sprint(i))+strings.Repeat(" ", 10_000))
	}
	b.same("one, though it is too large", 1, len(b.turn(Turn{Bytes: -1, Asks: []Ask{ask(9, "q")}}).Jobs))
	a := b.turn(Turn{Bytes: 25_000, Asks: []Ask{ask(9, "q"), ask(9, "q")}})
	if n := len(a.Jobs); n != 3 || len(a.Empty) != 0 {
		t.Errorf("%d jobs of about 25,000 bytes, empty %q", n, a.Empty)
	}
	b.same("one job", 1, len(b.turn(Turn{Jobs: 1, Asks: []Ask{ask(9, "q")}}).Jobs))
	for what, turn := range map[string]*Turn{
		"2001 jobs":   {Seed: seed, Acks: make([]Ack, 2001)},
		"1001 queues": {Seed: seed, Asks: []Ask{{Queues: numbered(1001)}}},
		"101 texts":   {Seed: seed, Texts: make([]string, 101)},
		"seed of ids": {Seed: "short"},
	} {
		if _, err := b.s.Turn(b.c, turn); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.same("as many queues as may be", 1000, len(b.turn(Turn{Asks: []Ask{ask(1, numbered(1000)...)}}).Empty))
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("q", i))
	}
	return names
}

// What an ack finds decides what it does.
func TestTurnAcks(t *testing.T) { each(t, testTurnAcks) }

func testTurnAcks(t *testing.T, b *bundle) {
	b.push("q", job("1"), job("2"), job("3"), `{"unique":"x","id":"4"}`, `{"unique":"x","id":"5"}`)
	jobs := b.turn(Turn{Asks: []Ask{ask(9, "q")}, Texts: []string{`"wf":`, `"unique":`}}).Jobs
	b.same("marked", "0:q/1 0:q/2 0:q/3 0:q/4! 0:q/5!", text(jobs))
	if !HasEffects(jobs[3].Lease) || HasEffects(jobs[0].Lease) {
		t.Errorf("the leases are %s and %s", jobs[3].Lease, jobs[0].Lease)
	}
	a := b.turn(Turn{Acks: []Ack{{"q", "1", ""}, {"q", "2", jobs[1].Lease}, {"q", "3", jobs[3].Lease}, {"q", "4", jobs[3].Lease}, {"q", "5", ""}, {"q", "6", ""}, {"other", "3", ""}, {"q", "1", jobs[0].Lease}}})
	b.same("acks", []What{Acked, Acked, Changed, Effects, Effects, Unknown, Unknown, Acked}, a.Acks)
	b.same("again", []What{Unknown, Unknown}, b.turn(Turn{Acks: []Ack{{"q", "1", ""}, {"q", "2", jobs[1].Lease}}}).Acks)
	b.same("processed", "2", b.str("GET", "resque:stat:processed"))
	b.same("still held", "1:q3 1:q4 1:q5", strings.Join(b.list("ZRANGE", "resque:go:leases", 0, -1), " "))
	b.same("and their payloads", 3, b.int("HLEN", "resque:go:leased"))
}

// end commits the end of a job that a client holds.
func (b *bundle) end(j Job, effects ...resque.Effect) bool {
	b.Helper()
	out, err := b.s.CommitLeased(b.c, []resque.Ended{{Place: j.Place(), Effects: append(effects, b.s.EndLease(j.Place(), j.Lease)...)}})
	b.must(err)
	for _, r := range out.Refused {
		if !r.Left() {
			b.Fatal(r)
		}
	}
	return len(out.Refused)+out.Missing == 0
}

// back sends a job back to its queue as these bytes.
func (b *bundle) back(j Job, payload string) {
	b.Helper()
	if !b.end(j, append(b.s.PushTail(j.Queue, []byte(payload)), b.s.WentBack(j.Place(), []byte(payload), b.now()))...) {
		b.Fatalf("%s did not go back", j.Place())
	}
}

// A job that was acknowledged after it went back is done for the next server or daemon that takes the same bytes. Other bytes
// of the id run.
func TestLateAck(t *testing.T) { each(t, testLateAck) }

func testLateAck(t *testing.T, b *bundle) {
	b.push("q", job("1"), job("2"), job("3"), job("4"))
	for _, j := range b.take(4, "q") {
		if j.ID == "4" {
			if !b.end(j, b.s.Filed(j.Place(), j.Payload, b.now())) {
				t.Fatal("it was not filed")
			}
			continue
		}
		b.back(j, job(j.ID))
	}
	b.same("late", []What{Back, Back, Dead}, b.turn(Turn{Acks: []Ack{{"q", "1", ""}, {"q", "2", "7"}, {"q", "4", ""}}}).Acks)
	b.same("later", []What{Late}, b.turn(Turn{Acks: []Ack{{"q", "1", ""}}}).Acks)
	for id, want := range map[string]What{"1": Late, "2": Late, "3": Back, "4": Dead, "5": Unknown} {
		what, err := b.s.Mark(b.c, Place("q", id), []byte(job(id)))
		b.must(err)
		b.same("the mark of "+id, want, what)
	}
	what, err := b.s.Mark(b.c, Place("q", "1"), []byte("other"))
	b.must(err)
	b.same("of other bytes", Unknown, what)

	b.do("LSET", "resque:queue:q", 1, `{"other":1,"id":"2"}`)
	a := b.turn(Turn{Asks: []Ask{ask(2, "q")}})
	b.same("jobs", "done:q/1 0:q/2 0:q/3", text(a.Jobs))
	b.same("the mark of a job that is held is gone", []string{"1:q1", "1:q2", "1:q4"}, sorted(b.list("HKEYS", "resque:go:returned")))
	if ends, _ := LeaseEnds(a.Jobs[0].Lease); ends != a.Now+settling.Milliseconds() {
		t.Errorf("the done one has a lease until %d", ends-a.Now)
	}
	if !b.end(a.Jobs[0], b.s.Forget(Place("q", "1"))) {
		t.Error("it did not end")
	}
	b.same("forgotten", []string{"1:q2", "1:q4"}, sorted(b.list("HKEYS", "resque:go:returned")))
}

func sorted(s []string) []string { slices.Sort(s); return s }

// An expired job is reserved for its end, and does not count for the ask.
func TestTurnExpired(t *testing.T) { each(t, testTurnExpired) }

func testTurnExpired(t *testing.T, b *bundle) {
	now := b.now()
	b.push("q", until("1", now-1), until("2", now+60_000), until("3", now), until("4", now+60_000),
		fmt.Sprintf(`{"args":[",\"expires_at\":%d"],"id":"5"}`, now-1), `{"x":1,"expires_at":12,"id":"6"}`, `{"x":1,"expires_at":"x234567890123","id":"7"}`)
	a := b.turn(Turn{Asks: []Ask{ask(1, "q"), ask(9, "q")}})
	b.same("jobs", "expired:q/1 0:q/2 expired:q/3 1:q/4 1:q/5 1:q/6 1:q/7", text(a.Jobs))
	for _, place := range []string{"1:q1", "1:q3"} {
		if _, lease, err := b.s.Leased(b.c, place); err != nil || lease != leaseAt(a.Now+settling.Milliseconds(), false) {
			t.Errorf("%s has the lease %q, %v", place, lease, err)
		}
	}
}

// Nothing is taken from a queue that is paused, and the answer says so.
func TestTurnPaused(t *testing.T) { each(t, testTurnPaused) }

func testTurnPaused(t *testing.T, b *bundle) {
	b.push("a", job("1"))
	b.push("b", job("2"))
	b.do("SADD", b.s.PausedKey().String(), "a")
	a := b.turn(Turn{Asks: []Ask{ask(9, "a", "b")}, Jobs: 1})
	b.same("jobs", "0:b/2", text(a.Jobs))
	b.same("without more", []string{"a"}, a.Empty)
	for _, all := range []string{"true", " TRUE\n"} {
		b.do("SET", "resque:pause-all-workers", all)
		b.same("all are paused", "[] [a b]", fmt.Sprint(b.turn(Turn{Asks: []Ask{ask(9, "a", "b")}}).Jobs, " ", b.turn(Turn{Asks: []Ask{ask(9, "a", "b")}}).Empty))
	}
	b.do("SET", "resque:pause-all-workers", "untrue")
	b.do("DEL", "resque:go:paused")
	b.same("resumed", "0:a/1", text(b.turn(Turn{Asks: []Ask{ask(9, "a", "b")}}).Jobs))
}

// A key that a turn needs and that is of another type refuses it whole; any other one is passed over and named.
func TestTurnWrongType(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, key := range []string{"go:leases", "go:leased", "go:returned", "go:served:s1"} {
		key = "resque:" + key
		b.do("FLUSHALL")
		b.served(0)
		b.turns = 0
		b.push("q", job("1"), job("2"))
		one := b.take(1, "q")[0]
		b.do("DEL", key)
		b.do("RPUSH", key, "x")
		before := b.redis.Dump(t, "")
		_, err := b.send(Turn{Asks: []Ask{ask(1, "q")}, Acks: []Ack{{"q", one.ID, ""}}})
		var wrong *resque.KeyTypeError
		if !errors.As(err, &wrong) || wrong.Key != key {
			t.Errorf("%s: %v", key, err)
		}
		b.same("nothing was written with "+key, before, b.redis.Dump(t, ""))
	}
	for _, key := range []string{"pause-all-workers", "go:paused", "stat:processed", "queue:bad"} {
		key = "resque:" + key
		b.do("FLUSHALL")
		b.served(0)
		b.turns = 0
		b.push("q", job("1"), job("2"))
		one := b.take(1, "q")[0]
		b.do("DEL", key)
		b.do("ZADD", key, 1, "x")
		a := b.turn(Turn{Asks: []Ask{ask(1, "bad", "q")}, Acks: []Ack{{"q", one.ID, ""}}})
		if len(a.Errors) != 1 || a.Errors[0].Key != key || !strings.HasPrefix(a.Errors[0].Reason, "WRONGTYPE") {
			t.Errorf("%s: %+v", key, a.Errors)
		}
		b.same("with "+key, "0:q/2 [acked]", text(a.Jobs)+" "+fmt.Sprint(a.Acks))
	}
}

// Redis tells the connection of a turn that armed it, whichever queue gets a job and whatever pauses change.
func TestTurnArms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("SCRIPT", "FLUSH")
	a := b.turn(Turn{Asks: []Ask{ask(1, "a")}, Arm: true})
	if a.Armed {
		t.Error("it is armed without tracking")
	}
	wake := b.redis.Dial(t)
	id, err := redis.Int(wake.Do("CLIENT", "ID"))
	b.must(err)
	_, err = b.c.Do("CLIENT", "TRACKING", "ON", "REDIRECT", id, "OPTIN")
	b.must(err)
	sub := redis.PubSubConn{Conn: wake}
	b.must(sub.Subscribe("__redis__:invalidate"))
	sub.Receive()
	b.do("SCRIPT", "FLUSH") // a script that Redis does not know is armed as well
	for _, change := range [][]any{{"RPUSH", "resque:queue:a", job("1")}, {"SADD", "resque:go:paused", "a"}, {"SET", "resque:pause-all-workers", "true"}} {
		b.do("DEL", "resque:queue:a", "resque:go:paused", "resque:pause-all-workers")
		if a := b.turn(Turn{Asks: []Ask{ask(1, "a")}, Arm: true}); !a.Armed || len(a.Jobs) > 0 {
			t.Fatalf("the turn says %+v", a)
		}
		b.do(change[0].(string), change[1:]...)
		for found := false; !found; {
			keys, err := redis.Strings(receive(sub))
			b.must(err)
			found = slices.Contains(keys, change[1].(string))
		}
	}
}

// receive returns the keys of the next message.
func receive(sub redis.PubSubConn) (any, error) {
	r, err := redis.Values(redis.ReceiveWithTimeout(sub.Conn, time.Minute))
	if err != nil {
		return nil, err
	}
	return r[2], nil
}

// While Redis is out of memory jobs are taken, ended, touched and found, and none is published.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", job("1"), job("2"), `{"unique":"x","id":"3"}`)
	b.take(1, "q")
	b.do("RPUSH", "resque:q_failed", "x")
	b.do("CONFIG", "SET", "maxmemory", 1)
	b.served(b.turns + 1)
	b.turns++
	b.same("a turn of acks", []What{Acked}, b.turn(Turn{Acks: []Ack{{"q", "1", ""}}}).Acks)
	a := b.turn(Turn{Asks: []Ask{ask(2, "q")}, Acks: []Ack{{"q", "0", ""}}, Texts: []string{`"unique"`}})
	b.same("jobs", "0:q/2 0:q/3! [unknown]", text(a.Jobs)+" "+fmt.Sprint(a.Acks))
	lease, err := b.s.Touch(b.c, "q", "2", a.Jobs[0].Lease, time.Millisecond)
	b.must(err)
	b.same("touched", true, lease != "" && lease != a.Jobs[0].Lease)
	redistest.Eventually(t, 20*time.Second, "the lease has ended", func() bool {
		_, _, jobs, err := b.s.Expired(b.c, 9)
		b.must(err)
		return text(jobs) == "over:q/2"
	})
	j := a.Jobs[0]
	j.Lease = lease
	b.back(j, job("2"))
	b.same("back", []string{job("2")}, b.queue("q"))
	if _, there, err := b.s.Seize(b.c, "q", []byte(job("2")), false, seed); err != nil || !there {
		t.Errorf("seizing: %v, %v", there, err)
	}
	published, err := b.s.Publish(b.c, []Publish{{Queue: "q", Payloads: [][]byte{[]byte("x")}}, {Queue: "q", Payloads: [][]byte{[]byte("x")}, At: 5}})
	b.must(err)
	for _, err := range published.Errors {
		if err == nil || !strings.Contains(err.Error(), "maxmemory") || !strings.Contains(err.Error(), "queue q") {
			t.Errorf("publishing: %v", err)
		}
	}
	if _, err := b.s.Respawn(b.c, "q", [][]byte{[]byte("x")}, [][]byte{[]byte("y")}); err == nil || !strings.Contains(err.Error(), "maxmemory") {
		t.Errorf("running again: %v", err)
	}
	b.same("and the failure stays", []string{"x"}, b.list("LRANGE", "resque:q_failed", 0, -1))
}
