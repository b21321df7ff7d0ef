// Package operations tests what operations on many jobs promise while programs are killed, and at a million jobs.
package operations

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// face is a program that changes jobs. It may be mortal.
type face struct {
	server *redistest.Server
	mortal *redistest.Mortal
}

func (face) Usable() error { return nil }

func (face) Settings() (access.Settings, error) {
	return access.Settings{Style: payload.Plain, MaxPayload: 1 << 20, Server: "a Redis"}, nil
}

func (f face) Do(ctx context.Context, do func(s resque.Store, c redis.Conn) error) error {
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) { // what has seconds takes longer on a busy machine
			end()
		}
	})()
	c, err := redis.DialURLContext(alive, f.server.URI())
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(alive, func() { _ = c.Close() })()
	if f.mortal != nil {
		c = f.mortal.Conn(c)
	}
	return do(resque.New(""), c)
}

func failure(n int) string {
	return fmt.Sprintf(`{"failed_at":"2026/11/22 10:00:00 UTC","payload":{"class":"Send","args":[%d],"id":"f%d"},"exception":"E","error":"boom","backtrace":null,"worker":"w:1:mail","queue":"mail"}`, n, n)
}

// fill fills a list with texts, n of them.
func fill(t testing.TB, server *redistest.Server, list string, n int, text func(n int) string) {
	t.Helper()
	c := server.Dial(t)
	for from := 0; from < n; from += 10_000 {
		args := redis.Args{list}
		for i := from; i < min(n, from+10_000); i++ {
			args = args.Add(text(i))
		}
		if _, err := c.Do("RPUSH", args...); err != nil {
			t.Fatal(err)
		}
	}
}

// leaseOver is the ten seconds after which the lease of a killed runner has run out.
func leaseOver(t *testing.T, server *redistest.Server) { server.Do(t, "DEL", "resque:go:operating") }

// drive runs or takes back an operation until it ends or the program dies.
func drive(steps func(func(inspect.Operation, error) bool)) (last inspect.Operation, err error) {
	for op, failed := range steps {
		last, err = op, failed
	}
	return last, err
}

// Ten thousand failures are retried at a pace. The program that does it is killed at each request in turn, before Redis gets it
// and after Redis has served it; another one goes on. Each failure is retried once.
func TestEachFailureIsRetriedOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const failures = 10_000
	fill(t, server, "resque:failed", failures, failure)
	ctx := t.Context()
	alive := inspect.New(face{server: server})
	op, err := alive.Operations().Start(ctx, inspect.Plan{Verb: inspect.Retry, Query: inspect.Query{Class: "Send"}, Pace: 50_000})
	if err != nil {
		t.Fatal(err)
	}
	kills := 0
	for nth, after := 1, false; ; after = !after {
		if after {
			nth = nth%20 + 1 // each boundary of a run and of its first steps
		}
		mortal := redistest.NewMortal(nth, after)
		last, err := drive(inspect.New(face{server, mortal}).Operations().Run(mortal.Life(ctx), op.ID))
		if !mortal.Dead() {
			if err != nil {
				t.Fatal(err)
			}
			op = last
			break
		}
		kills++
		leaseOver(t, server)
		if now, err := alive.Operations().Get(ctx, op.ID); err != nil || now.State == inspect.OperationDone {
			op = now
			break
		}
	}
	if op, err = alive.Operations().Get(ctx, op.ID); op.State != inspect.OperationDone || op.Done != failures || op.Refused != 0 {
		t.Errorf("after %d kills: %+v, %v", kills, op, err)
	}
	if kills < 40 {
		t.Errorf("only %d programs were killed", kills)
	}
	seen := make(map[string]int)
	for _, job := range server.List(t, "LRANGE", "resque:queue:mail", 0, -1) {
		seen[job]++
	}
	for n := range failures {
		if job := fmt.Sprintf(`{"class":"Send","args":[%d],"id":"f%d"}`, n, n); seen[job] != 1 {
			t.Fatalf("after %d kills job %d waits %d times", kills, n, seen[job])
		}
	}
	for n, record := range server.List(t, "LRANGE", "resque:failed", 0, -1) {
		if strings.Count(record, `"retried_at":"`) != 1 || !strings.Contains(record, fmt.Sprintf(`"id":"f%d"`, n)) {
			t.Fatalf("record %d: %s", n, record)
		}
	}
	t.Logf("%d programs were killed", kills)

	// What still waits is taken back: workers took a third of the jobs.
	server.Do(t, "LTRIM", "resque:queue:mail", 3333, -1)
	op, err = drive(alive.Operations().Undo(ctx, op.ID))
	if err != nil || op.State != inspect.OperationUndone || op.Back != failures-3333 || op.Gone != 3333 {
		t.Errorf("taken back: %+v, %v", op, err)
	}
	if n := server.Int(t, "LLEN", "resque:queue:mail"); n != 0 {
		t.Errorf("%d jobs wait after all was taken back", n)
	}
	marked := 0
	for n, record := range server.List(t, "LRANGE", "resque:failed", 0, -1) {
		if strings.Contains(record, "retried_at") {
			marked++
		} else if record != failure(n) {
			t.Fatalf("record %d is not as it was: %s", n, record)
		}
	}
	if marked != 3333 {
		t.Errorf("%d records say that they were retried", marked)
	}
}

// A cleared queue of a million jobs comes back byte for byte and in order, with its lanes, though jobs came meanwhile.
func TestAMillionComesBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const jobs, laned, lanes = 1_000_000, 20_000, 300 // more lanes than one step takes; one of them is long
	job := func(n int) string { return fmt.Sprintf(`{"class":"Send","args":[%d,"%x"]}`, n, n*7919) }
	fill(t, server, "resque:queue:mail", jobs, job)
	server.Do(t, "SADD", "resque:queues", "mail")
	keys := []string{"resque:queue:mail"}
	all := int64(jobs)
	server.Do(t, "SADD", "resque:go:lanes", laneSet)
	for n := range lanes {
		own := fmt.Sprintf("c:A/key=%d", n)
		key := fmt.Sprintf("resque:go:lane:4:mail7:f:A/key%s", own)
		keys = append(keys, key)
		size := 3
		if n == 0 {
			size = laned
		}
		fill(t, server, key, size, func(i int) string { return fmt.Sprintf(`{"class":"Send","args":[%d,%d],"id":"l%d-%d"}`, n, i, n, i) })
		server.Do(t, "ZADD", "resque:go:lanes:"+laneSet, n, own)
		all += int64(size)
	}
	in := inspect.New(face{server: server})
	ctx := t.Context()
	digest := func() string {
		args := redis.Args{"local d = '' for _, key in ipairs(KEYS) do for from = 0, redis.call('LLEN', key) - 1, 5000 do d = redis.sha1hex(d .. table.concat(redis.call('LRANGE', key, from, from + 4999), '|')) end end return d", len(keys)}
		return server.Text(t, "EVAL", args.AddFlat(keys)...)
	}
	turns := func() string {
		found := server.List(t, "ZRANGE", "resque:go:lanes:"+laneSet, 0, -1)
		slices.Sort(found)
		return fmt.Sprint(server.List(t, "SMEMBERS", "resque:go:lanes"), found)
	}
	before, turned := digest(), turns()
	for _, came := range []int{0, 300, 2000} { // none, few, and more than change places
		op, err := in.Operations().Start(ctx, inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "mail"}})
		if err == nil {
			op, err = drive(in.Operations().Run(ctx, op.ID))
		}
		if err != nil || op.Done != all || op.Binned != all {
			t.Fatalf("cleared: %+v, %v", op, err)
		}
		if n := server.Int(t, "EXISTS", redis.Args{"resque:go:lanes"}.AddFlat(keys)...); n != 0 {
			t.Fatalf("%d lists are there after the queue was cleared", n)
		}
		fill(t, server, "resque:queue:mail", came, func(n int) string { return fmt.Sprintf(`{"class":"Late","args":[%d]}`, n) })
		op, err = drive(in.Operations().Undo(ctx, op.ID))
		if err != nil || op.State != inspect.OperationUndone || op.Back != all || op.Binned != 0 {
			t.Fatalf("taken back: %+v, %v", op, err)
		}
		for _, key := range []string{keys[0], keys[1], keys[lanes]} {
			if ttl := server.Int(t, "PTTL", key); ttl != -1 {
				t.Errorf("%s goes in %d ms", key, ttl)
			}
		}
		if now := turns(); now != turned {
			t.Errorf("the lanes that have a turn are %.300s\nand were %.300s", now, turned)
		}
		late := server.List(t, "LRANGE", "resque:queue:mail", jobs, -1)
		for n, text := range late {
			if text != fmt.Sprintf(`{"class":"Late","args":[%d]}`, n) {
				t.Fatalf("behind the others, job %d: %s", n, text)
			}
		}
		server.Do(t, "LTRIM", "resque:queue:mail", 0, jobs-1)
		if after := digest(); len(late) != came || after != before {
			t.Errorf("%d jobs came meanwhile, and %d are behind the others; the others are as they were: %v", came, len(late), after == before)
		}
	}
}

var retriedAt, endedAt = regexp.MustCompile(`,"retried_at":"[^"]*"`), regexp.MustCompile(`ended:\d+`)

// jobsOf is what a Redis has but for what belongs to operations, with lists and times made comparable.
func jobsOf(t *testing.T, server *redistest.Server, results bool) string {
	var texts []string
	for key, value := range server.Dump(t, "") {
		if strings.HasPrefix(key, "resque:go:operat") || strings.HasPrefix(key, "resque:go:bin:") || !results && strings.HasPrefix(key, "resque:go:result:") {
			continue
		}
		if key == "resque:go:cancelled" {
			value = slices.Sorted(slices.Values(server.List(t, "ZRANGE", key, 0, -1)))
		}
		if list, ok := value.([]string); ok {
			slices.Sort(list)
		}
		texts = append(texts, fmt.Sprint(key, " ", value))
	}
	slices.Sort(texts)
	return endedAt.ReplaceAllString(retriedAt.ReplaceAllString(strings.Join(texts, "\n"), `,"retried_at":"then"`), "ended:then")
}

const (
	laneSet  = "4:mailf:A/key"
	laneOwn  = "c:A/key=x"
	laneName = "4:mail7:f:A/key" + laneOwn
)

// everywhere puts jobs into every place.
func everywhere(t *testing.T, server *redistest.Server) {
	server.Do(t, "FLUSHALL")
	server.Do(t, "EVAL", filling, 0)
}

const filling = `
for n = 1, 40 do
  redis.call('RPUSH', 'resque:queue:mail', '{"class":"Send","args":[' .. n .. ']}')
  redis.call('RPUSH', 'resque:queue:mail', '{"class":"Send","args":[' .. n .. '],"id":"u' .. n .. '","unique":"done:d' .. n .. '","result":60000}')
  redis.call('RPUSH', 'resque:failed', '{"failed_at":"2026/11/22 10:00:00 UTC","payload":{"class":"Send","args":[' .. n .. '],"id":"f' .. n .. '"},"exception":"E","error":"boom","backtrace":null,"worker":"w:1:mail","queue":"mail"}')
  redis.call('ZADD', 'resque:go:schedule', 4000000000000 + n, '4:mail{"class":"Send","args":[' .. n .. '],"id":"d' .. n .. '"}')
  local item, second = '{"class":"Send","args":["later",' .. n .. '],"queue":"mail"}', '400000000' .. n % 3
  redis.call('RPUSH', 'resque:delayed:' .. second, item)
  redis.call('SADD', 'resque:timestamps:' .. item, 'delayed:' .. second)
  redis.call('ZADD', 'resque:delayed_queue_schedule', second, second)
  redis.call('RPUSH', 'resque:go:lane:` + laneName + `', '{"class":"Send","args":[' .. n .. '],"id":"l' .. n .. '"}')
  redis.call('HSET', 'resque:go:unique:d' .. n, 'u' .. n, '0 0 q4:mail{"class":"Send","args":[' .. n .. '],"id":"u' .. n .. '","unique":"done:d' .. n .. '","result":60000}')
  redis.call('HSET', 'resque:go:result:u' .. n, 'state', 'pending', 'ttl', '60000')
end
redis.call('SADD', 'resque:queues', 'mail')
redis.call('SADD', 'resque:go:lanes', '` + laneSet + `')
redis.call('ZADD', 'resque:go:lanes:` + laneSet + `', 0, '` + laneOwn + `')`

// The program that runs or takes back an operation is killed at every request that it sends, before Redis gets it and after Redis
// has served it, and another program goes on. What becomes of the jobs is what becomes of them when none is killed.
func TestKilledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	for name, plan := range plans() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			alive := inspect.New(face{server: server}).Operations()
			var done, undone string
			var whole, back inspect.Operation
			for _, undo := range []bool{false, true} {
				for nth := 0; ; nth++ {
					died := false
					for _, after := range []bool{false, true} {
						everywhere(t, server)
						op, err := alive.Start(t.Context(), plan)
						if err != nil {
							t.Fatal(err)
						}
						if undo {
							if _, err := drive(alive.Run(t.Context(), op.ID)); err != nil {
								t.Fatal(err)
							}
						}
						steps := func(ctx context.Context, o *inspect.Operations) (inspect.Operation, error) {
							if undo {
								return drive(o.Undo(ctx, op.ID))
							}
							return drive(o.Run(ctx, op.ID))
						}
						if nth > 0 {
							mortal := redistest.NewMortal(nth, after)
							_, err := steps(mortal.Life(t.Context()), inspect.New(face{server, mortal}).Operations())
							if died = died || mortal.Dead(); !mortal.Dead() {
								if err != nil {
									t.Fatalf("no program died: %v", err)
								}
								continue
							}
							leaseOver(t, server)
						}
						last, err := steps(t.Context(), alive)
						if errors.Is(err, inspect.ErrOperationOver) { // it died behind the end
							last, err = alive.Get(t.Context(), op.ID)
						}
						if err != nil {
							t.Fatalf("killed at %d, after %v, undo %v: %v", nth, after, undo, err)
						}
						// Where a job is that was moved its result says soon, and its end says it if that is lost.
						is := jobsOf(t, server, plan.Verb == inspect.Drop || plan.Verb == inspect.Revoke)
						was, of := &done, &whole
						if undo {
							was, of = &undone, &back
						}
						if nth == 0 {
							*was, *of = is, last
							continue
						}
						if is != *was {
							t.Fatalf("killed at %d, after %v, undo %v, the jobs are\n%s\nwithout a kill\n%s", nth, after, undo, is, *was)
						}
						if last.Done != of.Done || last.Ended != of.Ended || last.Back != of.Back || last.Binned != of.Binned || last.State != of.State {
							t.Fatalf("killed at %d, after %v, undo %v, it is\n%+v\nwithout a kill\n%+v", nth, after, undo, last, *of)
						}
					}
					if nth > 0 && !died {
						t.Logf("undo %v: %d boundaries", undo, nth-1)
						break
					}
				}
			}
		})
	}
}
