package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/failed"
	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// bundle is a Redis, and what a drain of it needs.
type bundle struct {
	*testing.T
	server *redistest.Server
	conn   redis.Conn
	ends   *outcome.Set
	start  time.Time // from which delayed jobs count
}

func setup(t *testing.T, args ...string) *bundle {
	t.Helper()
	s := redistest.Start(t, args...)
	set := outcome.New(outcome.Deps{
		Base:     part.Base{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Store: resque.New(""), Clock: clock.System},
		Time:     clock.System,
		Settings: outcome.Settings{MaxPayload: 1 << 20},
	}, noClasses{}, limits.New(limits.NewTable(nil)), unique.New, failed.New)
	t.Cleanup(set.Close)
	return &bundle{T: t, server: s, conn: s.Dial(t), ends: set, start: time.Now().Truncate(time.Second)}
}

// noClasses knows no class, as a program that only drains.
type noClasses struct{}

func (noClasses) Class(string) *outcome.Class              { return nil }
func (noClasses) Unknown(class string) error               { return errors.New("no class " + class) }
func (noClasses) Misfit(class string, _ *args.Error) error { return errors.New("no class " + class) }

// Do makes a bundle the way to its Redis.
func (b *bundle) Do(_ context.Context, f func(resque.Store, redis.Conn) error) error {
	return f(resque.New(""), b.conn)
}

func (b *bundle) config(change ...func(*Config)) Config {
	c := Config{Redis: b, Clock: clock.System, Ends: b.ends, RecoverLimit: 3, Watch: time.Millisecond}
	for _, f := range change {
		f(&c)
	}
	return c
}

// drain drains to the end.
func (b *bundle) drain(change ...func(*Config)) Report {
	b.Helper()
	r, err := Run(b.Context(), b.config(change...))
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *bundle) do(command string, args ...any) { b.Helper(); b.server.Do(b, command, args...) }

func (b *bundle) list(key string) []string { b.Helper(); return b.server.List(b, "LRANGE", key, 0, -1) }

// same compares, and names what it compares.
func (b *bundle) same(what string, want, got any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func job(class string, fields ...string) string {
	return fmt.Sprintf(`{"class":%q,"args":[1]%s}`, class, strings.Join(append([]string{""}, fields...), ","))
}

func jobsOf(classes string) (all []string) {
	for class := range strings.FieldsSeq(classes) {
		all = append(all, job(class))
	}
	return all
}

// push puts jobs into a list, by the names of their classes.
func (b *bundle) push(key, classes string) {
	b.Helper()
	for _, j := range jobsOf(classes) {
		b.do("RPUSH", key, j)
	}
}

// lane puts jobs into a lane, whose turn comes at a time.
func (b *bundle) lane(l resque.Lane, turn int, payloads ...string) string {
	b.Helper()
	member := resque.JobPrefix(l.Queue) + l.Shared
	key := "resque:go:lane:" + resque.JobPrefix(l.Queue) + resque.JobPrefix(l.Shared) + l.Own
	b.do("SADD", "resque:go:lanes", member)
	b.do("ZADD", "resque:go:lanes:"+member, turn, l.Own)
	for _, p := range payloads {
		b.do("RPUSH", key, p)
	}
	return key
}

func (b *bundle) later(queue, payload string, in time.Duration) string {
	b.Helper()
	at := b.start.Add(in).UnixMilli()
	b.do("ZADD", "resque:go:schedule", at, resque.JobPrefix(queue)+payload)
	return fmt.Sprint((at + 999) / 1000)
}

// dead puts the record of a process that died with jobs.
func (b *bundle) dead(id string, lease any, values ...string) {
	b.Helper()
	b.do("HSET", "resque:go:process:"+id, "epoch", 1, "host", "web", "pid", 7, "concurrency", 2, "id_head", "web.go:7-", "id_queues", "mail", "handed", "9")
	b.do("HSET", "resque:go:inflight:"+id, "entered", "mark")
	for i, v := range values {
		b.do("HSET", "resque:go:inflight:"+id, i+1, v)
	}
	if lease != nil {
		b.do("ZADD", "resque:go:processes", lease, id)
	}
	b.do("SADD", "resque:workers", "web.go:7-0:mail", "web.go:7-1:mail")
	b.do("HSET", "resque:workers:heartbeat", "web.go:7-0:mail", "2026-01-01T00:00:00Z")
}

var (
	acme   = resque.NewLane("mail", resque.Limit{Kind: resque.LimitNone, Name: "Turn", Keyed: true, Key: "acme"})
	globex = resque.NewLane("mail", resque.Limit{Kind: resque.LimitNone, Name: "Turn", Keyed: true, Key: "globex"})
	report = resque.NewLane("work", resque.Limit{Kind: resque.LimitRunning, Name: "Report"})
)

// inLane is a value of the in-flight record of a job from a lane.
func inLane(l resque.Lane, payload string) string {
	return "+" + resque.JobPrefix(l.Shared) + resque.JobPrefix(l.Own) + resque.JobPrefix(l.Queue) + payload
}

// everything puts jobs in every state into Redis, and all keys that go with them. It returns the
// second of the jobs that are delayed.
func (b *bundle) everything() (second string) {
	b.Helper()
	b.do("SADD", "resque:queues", "mail", "work")
	b.push("resque:queue:mail", "Q1 Q2")
	b.push("resque:queue:work", "X1")
	b.lane(acme, 1, jobsOf("A1 A2 A3")...)
	b.lane(globex, 2, job("B1"), job("B2", `"id":"b2"`))
	b.lane(report, 3, jobsOf("W1 W2 W3 W4 W5 W6 W7")...)
	b.dead("web:7:dead", 5, "4:mail"+job("I1"), inLane(acme, job("I2")), inLane(report, job("W0")))
	b.do("SADD", "resque:go:slots:c:Report", "web:7:dead/3")
	b.dead("web:8:orphan", nil, "4:mail"+job("O1"))
	b.do("SET", "resque:resque:resque_scheduler_master_lock", "web:7:dead")

	second = b.later("mail", job("S1", `"attempt":2`, `"id":"s1"`), time.Hour)
	b.later("mail", job("S2", `"unique":"done:L1"`, `"id":"s2"`), time.Hour)
	b.later("new", job("S3", `"expires_at":99999999999999`), 2*time.Hour)
	b.later("mail", job("S0", `"id":"s0"`), -time.Minute)
	b.push("resque:go:kept:mail", "K1")
	b.do("HSET", "resque:go:unique:L1", "s2", "done 1 1  4:mail"+job("S2"))
	b.do("HSET", "resque:go:unique:L2", "gone", "time 1 1  ")

	b.do("HSET", "resque:go:limits", "c:Report", 1)
	b.do("SET", "resque:go:rate:r:Call", 5)
	b.do("SET", "resque:go:clock", "1 2")
	b.do("HSET", "resque:go:ticks", "nightly", "5 - x")
	b.do("HSET", "resque:go:ticks", "shared", "5 - x")
	b.do("HSET", "resque:persistent_schedules", "shared", "{}")
	b.do("HSET", "resque:go:recovered", "d", "1 1 p 0 0")
	b.do("ZADD", "resque:go:precise", 5, "5 1 x")
	b.do("SET", "resque:go:unique-rest", 1)
	b.do("SET", "resque:go:pulse", 1)
	b.do("HSET", "resque:go:stats", "expired", 3)
	return second
}

// everywhere returns the classes of all jobs, wherever they are, sorted: each as often as it is there.
func (b *bundle) everywhere() (classes []string) {
	b.Helper()
	add := func(text string) {
		if _, rest, ok := strings.Cut(text, `{"class":"`); ok {
			class, _, _ := strings.Cut(rest, `"`)
			classes = append(classes, class)
		}
	}
	for _, k := range b.server.Snapshot(b, "resque:") {
		if strings.HasPrefix(k.Key, "resque:go:unique:") {
			continue // a lock has a copy of its job
		}
		switch v := k.Value.(type) {
		case []string:
			if k.Type == "list" {
				for _, text := range v {
					add(text)
				}
			}
		case map[string]float64:
			for member := range v {
				add(member)
			}
		case map[string]string:
			for _, text := range v {
				add(text)
			}
		}
	}
	slices.Sort(classes)
	return classes
}
