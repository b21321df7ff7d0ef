package goworker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

var updateEnds = flag.Bool("update-ends", false, "write testdata/ends.txt")

// what a job may have, and what of it is looked at after the job's end. Each is tried alone, and all of
// them together: one must not change what becomes of another.
var owned = []string{"lock done", "lock start", "lock time", "slot", "rate", "retry", "php", "expiry", "deaths"}

// end is one way in which jobs end.
type end struct {
	by, name string

	payload  string                 // of bytes that are no job
	options  []Option               // of the class; Retry comes from retries
	retries  int                    // 0: the class has no Retry, unless the job has resque-retry's count
	wait     time.Duration          // of a retry
	past     bool                   // the job's time is over
	leave    bool                   // jobs of unknown classes are left to others
	unknown  bool                   // the class is not registered
	most     int                    // bytes of a payload; 0: any
	handler  func() error           // nil: it is done
	cause    error                  // why its context ends while it runs
	extra    func() outcome.Feature // one feature more
	dead     bool                   // the process is dead, and another one ends it
	poison   bool                   // it was found in too many
	back     bool                   // the process gives it back
	handed   bool                   // of dead and back: it was with a worker
	ungroups bool                   // it lies in its queue and belongs into a lane
}

func fails() error { return errNoLuck }

// decides returns a feature that decides about errors.
func decides(o outcome.Outcome) func() outcome.Feature {
	return func() outcome.Feature {
		return outcome.Feature{Name: "test", Bind: func(*outcome.Class) outcome.Policy { return decision{o: o} }}
	}
}

type decision struct {
	outcome.None
	o outcome.Outcome
}

func (d decision) Decide(_ context.Context, _ *outcome.Job, err error) (outcome.Outcome, bool) {
	d.o.Err = err
	return d.o, true
}

var ends = []end{
	{by: "worker", name: "done"},
	{by: "worker", name: "failed", handler: fails},
	{by: "worker", name: "retried at once", handler: fails, retries: 9},
	{by: "worker", name: "retried later", handler: fails, retries: 9, wait: time.Hour},
	{by: "worker", name: "snoozed", handler: func() error { return Snooze(time.Hour) }},
	{by: "worker", name: "snoozed at once", handler: func() error { return Snooze(0) }},
	{by: "worker", name: "discarded", handler: func() error { return Discard(errNoLuck) }},
	{by: "worker", name: "cancelled", handler: fails, extra: decides(outcome.Outcome{State: outcome.Cancelled})},
	{by: "worker", name: "interrupted", handler: func() error { return context.Canceled }, cause: ErrShutdown},
	{by: "worker", name: "goexit", handler: func() error { runtime.Goexit(); return nil }},
	{by: "admit", name: "expired", past: true},
	{by: "admit", name: "expired, instead", past: true, options: []Option{OnExpired(func(context.Context, *Delivery) error { return nil })}},
	{by: "admit", name: "expired, unknown", past: true, unknown: true},
	{by: "admit", name: "unknown", unknown: true},
	{by: "admit", name: "unknown, left", unknown: true, leave: true},
	{by: "admit", name: "into a lane", ungroups: true},
	{by: "admit", name: "no job", payload: "no job"},
	{by: "admit", name: "no job, left", payload: `{"args":[],"unique":"done:L","id":"j1","queue_time":1,"expires_at":1}`, leave: true},
	{by: "admit", name: "long no job", payload: "no " + strings.Repeat("job ", 300_000)},
	{by: "admit", name: "too large", most: 10},
	{by: "poller", name: "given back", back: true},
	{by: "poller", name: "given back, begun", back: true, handed: true},
	{by: "reaper", name: "taken back", dead: true},
	{by: "reaper", name: "taken back, begun", dead: true, handed: true},
	{by: "reaper", name: "poison", dead: true, handed: true, poison: true},
	{by: "reaper", name: "poison, no job", payload: "no job", dead: true, handed: true, poison: true},
	{by: "reaper", name: "taken back, no job", payload: "no job", dead: true, handed: true},
	{by: "poller", name: "given back, no job", payload: "no job", back: true, handed: true},
}

// applies reports whether such a job can have it.
func (e *end) applies(what string) bool {
	switch {
	case what == "slot" || what == "rate":
		return !e.ungroups
	case e.payload != "": // the lane is all that is known of it
		return what == "deaths"
	}
	return true
}

// endTest is one job that ends, in a namespace of its own.
type endTest struct {
	*end
	t       *testing.T
	server  *redistest.Server
	c       redis.Conn
	ns      string
	store   resque.Store
	has     []string
	class   *registry // knows the class, whether or not the process that ends the job does
	process resque.Process
	job     resque.Reserved
	rate    string // the start that the rate has counted

	dialer conn.Dialer
}

func (e *endTest) with(what string) bool { return slices.Contains(e.has, what) }

func (e *endTest) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatalf("%s with %q: %v", e.name, e.has, err)
	}
}

func (e *endTest) do(command string, args ...any) any {
	e.t.Helper()
	reply, err := e.c.Do(command, args...)
	e.must(err)
	return reply
}

func (e *endTest) key(name string) string { return e.ns + ":" + name }

func (e *endTest) text(command string, args ...any) string {
	e.t.Helper()
	text, err := redis.String(e.do(command, args...), nil)
	if err != nil && err != redis.ErrNil {
		e.t.Fatal(err)
	}
	return text
}

func (e *endTest) list(command string, args ...any) []string {
	e.t.Helper()
	list, err := redis.Strings(e.do(command, args...), nil)
	e.must(err)
	return list
}

const endArgs = `[{"a":1}]` // Ruby 3.4 spells a hash in another way

// raw is the payload.
func (e *endTest) raw() string {
	if e.payload != "" {
		return e.payload
	}
	text := `{"class":"C","args":` + endArgs
	if e.with("lock done") {
		text += `,"unique":"done:L"`
	} else if e.with("lock start") {
		text += `,"unique":"start:L"`
	}
	switch {
	case e.past:
		text += `,"expires_at":1`
	case e.with("expiry"):
		text += `,"expires_at":` + fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())
	}
	if e.with("php") {
		text += `,"queue_time":1795229105.5`
	}
	if e.with("lock done") || e.with("lock start") || e.with("lock time") || e.with("php") {
		text += `,"id":"j1"`
	}
	return text + "}"
}

// register returns a registry with the class, and its options.
func (e *endTest) register() *registry {
	r := newRegistry()
	opts := slices.Clone(e.options)
	delay := DelayFunc(func(int, error) time.Duration { return e.wait })
	if e.with("retry") {
		opts = append(opts, Retry(e.retries, delay, ResqueRetry{}))
	} else if e.retries > 0 {
		opts = append(opts, Retry(e.retries, delay))
	}
	var limits []Limit
	if e.with("slot") || e.ungroups {
		limits = append(limits, MaxRunning(1))
	}
	if e.with("rate") {
		limits = append(limits, RateLimit(1, time.Minute))
	}
	for _, l := range limits {
		opts = append(opts, l)
	}
	r.register("C", func(string, ...any) error { return nil }, opts)
	if e.payload != "" { // only its queue's limits hold for it
		if len(limits) > 0 {
			all, err := plainLimits(limits)
			e.must(err)
			r.limits.SetQueue("work", all)
		}
	}
	return r
}

func (e *endTest) retryKeys() (keys []string) {
	for _, blanks := range []bool{false, true} {
		keys = append(keys, string(resque.NewRetryKey("C", []json.RawMessage{json.RawMessage(endArgs[1 : len(endArgs)-1])}, blanks)))
	}
	return keys
}

// take puts into Redis what the job has, and takes the job.
func (e *endTest) take() {
	raw := []byte(e.raw())
	e.class = e.register()
	e.process = resque.Process{ID: "p", Host: "h", PID: 1, Queues: "work", Concurrency: 1, Started: time.Now(), IDHead: "p-", IDQueues: "work"}
	now := time.Now()
	e.must(e.store.Enter(e.c, e.process, time.Minute, now))
	e.must(e.store.Push(e.c, "work", raw, []byte("other")))
	x := resque.Exchange{Process: "p", Epoch: 1, Want: 1, Asks: []resque.Ask{{Queue: "work", Quota: 1}}}
	if e.with("slot") || e.with("rate") {
		lane := e.class.limits.Lanes("work", [][]byte{raw})[0]
		if lane.Shared == "" {
			e.t.Fatalf("%s with %q has no limits", e.name, e.has)
		}
		numbers, err := e.class.limits.Numbers()
		e.must(err)
		_, _, err = e.store.Sort(e.c, "work", [][]byte{raw}, []resque.Lane{lane}, resque.Next{})
		e.must(err)
		x.Want, x.Asks, x.Take = 0, nil, &resque.Take{Want: 1, Lanes: []resque.Lane{lane}, Numbers: numbers}
	}
	jobs := e.exchange(x).Jobs
	if len(jobs) != 1 || !bytes.Equal(jobs[0].Payload, raw) {
		e.t.Fatalf("%s with %q: %v was taken", e.name, e.has, jobs)
	}
	e.job = jobs[0]
	e.rate = e.starts()
	if e.with("lock done") || e.with("lock start") || e.with("lock time") {
		e.do("HSET", e.key("go:unique:L"), "j1", "done 1 1  4:work"+string(raw))
	}
	if e.with("retry") {
		for _, key := range e.retryKeys() {
			e.do("SET", e.key(key), 1)
			e.do("SET", e.key("failure-"+key), "record")
		}
	}
	if e.with("php") {
		e.do("SET", e.key("job:j1:status"), `{"status":2}`)
	}
	if e.with("deaths") || e.poison {
		e.do("HSET", e.key("go:recovered"), resque.Digest(raw), fmt.Sprintf("8 %d other 7 0", now.UnixMilli()))
	}
}

func (e *endTest) exchange(x resque.Exchange) resque.Exchanged {
	e.t.Helper()
	e.must(e.store.Send(e.c, &x))
	out, err := e.store.Receive(e.c, &x)
	e.must(err)
	if len(out.Refused)+len(out.Broken) > 0 {
		e.t.Fatalf("%s with %q was refused: %v %v", e.name, e.has, out.Refused, out.Broken)
	}
	return out
}

// starts is what the rate has counted.
func (e *endTest) starts() string {
	if !e.with("rate") {
		return ""
	}
	keys := e.list("KEYS", e.key("go:rate:*"))
	if len(keys) != 1 {
		e.t.Fatalf("%s with %q: rates %q", e.name, e.has, keys)
	}
	return e.text("GET", keys[0])
}

type machine struct{}

func (machine) Now() time.Time { return time.Now() }

// set makes the features of the process that ends the job.
func (e *endTest) set(r *registry) *outcome.Set {
	features := r.features(r.limits)
	if e.extra != nil {
		features = slices.Insert(features, 0, func(outcome.Deps) outcome.Feature { return e.extra() })
	}
	most := e.most
	if most == 0 {
		most = 8 << 20
	}
	return outcome.New(outcome.Deps{
		Base: part.Base{Log: quiet, Outages: logging.NewOutages(quiet, clock.System), Store: e.store, Dialer: e.dialer, Clock: clock.System},
		Time: machine{}, Exceptions: exceptionOf, Settings: outcome.Settings{MaxPayload: most, LeaveUnknown: e.leave},
		Do: func(_ context.Context, f func(redis.Conn) error) error { return f(e.c) },
	}, r, features...)
}

// finish ends the job, in a process that knows its class or does not.
func (e *endTest) finish(known bool) {
	r := newRegistry()
	if known {
		r = e.class
	}
	s := e.set(r)
	defer s.Close()
	handed := resque.HandedOut{}
	if e.handed {
		handed = resque.HandedOut{UpTo: 1, Trial: 1}
	}
	switch {
	case e.dead:
		e.exchange(resque.Exchange{Process: "p", Epoch: 1, Last: 1, Handed: handed.String()})
		fenced, err := e.store.Fence(e.c, "p", e.text("ZSCORE", e.key("go:processes"), "p"))
		if err != nil || !fenced {
			e.t.Fatal(fenced, err)
		}
		limit := 0
		if e.poison {
			limit = 1
		}
		recovered, err := e.store.Recover(e.c, e.process, limit, time.Now(), s.Bury)
		e.must(err)
		if len(recovered.Refused) > 0 {
			e.t.Fatalf("%s with %q: %v", e.name, e.has, recovered.Refused)
		}
	case e.back:
		o := s.End(&outcome.Job{Reserved: e.job, Process: "p", Worker: "p-0:work", Started: e.handed}, outcome.Returned, nil)
		e.commit(&o)
	default:
		o := e.run(s)
		e.commit(&o)
	}
}

// run does what a worker does.
func (e *endTest) run(s *outcome.Set) (o outcome.Outcome) {
	j := &outcome.Job{Reserved: e.job, Process: "p", Worker: "p-0:work", StartedAt: time.Now()}
	if e.with("deaths") {
		j.Found = 8
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	returned, left := false, make(chan struct{})
	go func() {
		defer close(left)
		s.Run(ctx, j, func(context.Context, *outcome.Job) error {
			cancel(e.cause)
			if e.handler == nil {
				return nil
			}
			return e.handler()
		}, &o)
		returned = true
	}()
	<-left
	if !returned {
		s.Fail(context.Background(), j, failure.ErrGoexit, &o)
	}
	return o
}

func (e *endTest) commit(o *outcome.Outcome) {
	x := resque.Exchange{Process: "p", Epoch: 1, Last: 1}
	if o.Plain() {
		x.Done = []int64{e.job.Ticket}
	} else {
		x.Ended = []resque.Ended{o.Ended(e.job.Ticket)}
	}
	e.exchange(x)
}

// place says where the job is now; with a * if its payload is another.
func (e *endTest) place() string {
	var found []string
	add := func(where, payload string) {
		if payload != string(e.job.Payload) {
			where += "*"
		}
		found = append(found, where)
	}
	queue := e.list("LRANGE", e.key("queue:work"), 0, -1)
	for i, payload := range queue {
		if payload != "other" && i == 0 {
			add("head", payload)
		} else if payload != "other" {
			add("tail", payload)
		}
	}
	for _, key := range e.list("KEYS", e.key("go:lane:*")) {
		for _, payload := range e.list("LRANGE", key, 0, -1) {
			add("lane", payload)
		}
	}
	for _, member := range e.list("ZRANGE", e.key("go:schedule"), 0, -1) {
		add("schedule", strings.TrimPrefix(member, "4:work"))
	}
	for _, key := range e.list("KEYS", e.key("delayed:*")) {
		found = append(found, fmt.Sprintf("Ruby's schedule %d", len(e.list("LRANGE", key, 0, -1))))
	}
	if held := e.list("HKEYS", e.key("go:inflight:p")); slices.Contains(held, "1") {
		found = append(found, "HELD")
	}
	return cmpOr(strings.Join(found, " "), "gone")
}

func cmpOr(text, or string) string {
	if text == "" {
		return or
	}
	return text
}

// state says what became of something that the job has.
func (e *endTest) state(what string) string {
	switch what {
	case "job":
		return e.place()
	case "record":
		switch n := len(e.list("LRANGE", e.key("failed"), 0, -1)); n {
		case 0:
			return "-"
		case 1:
			if len(e.list("LRANGE", e.key("go:kept:work"), 0, -1)) == 1 {
				return "filed, kept"
			}
			return "filed"
		default:
			return fmt.Sprint(n)
		}
	case "counted":
		return cmpOr(e.text("GET", e.key("stat:processed")), "0") + "/" + cmpOr(e.text("GET", e.key("stat:failed")), "0")
	case "lock done", "lock start", "lock time":
		switch said := e.text("HGET", e.key("go:unique:L"), "j1"); {
		case said == "":
			return "free"
		case strings.HasSuffix(said, " 4:work"+string(e.job.Payload)):
			return "held"
		default:
			next := append(e.list("LRANGE", e.key("queue:work"), 0, -1), e.list("ZRANGE", e.key("go:schedule"), 0, -1)...)
			if _, payload, _ := strings.Cut(said, "4:work"); slices.ContainsFunc(next, func(text string) bool { return strings.TrimPrefix(text, "4:work") == payload }) {
				return "moved"
			}
			return "MOVED TO NOTHING"
		}
	case "slot":
		if keys := e.list("KEYS", e.key("go:slots:*")); len(keys) > 0 {
			return "held"
		}
		return "free"
	case "rate":
		was, _ := strconv.ParseFloat(e.rate, 64)
		is, _ := strconv.ParseFloat(e.starts(), 64)
		switch {
		case is == was:
			return "counted"
		case was-is > 59e6 && was-is < 61e6:
			return "given back"
		}
		return fmt.Sprintf("moved by %v", is-was)
	case "retry": // the spelling of the class's Ruby, and the other
		var said []string
		for _, key := range e.retryKeys() {
			text := cmpOr(e.text("GET", e.key(key)), "-")
			switch record := e.text("GET", e.key("failure-"+key)); record {
			case "":
			case "record":
				text += "+"
			default:
				text += "+new"
			}
			said = append(said, text)
		}
		return strings.Join(said, " ")
	case "php":
		return map[string]string{"1": "waiting", "2": "running", "3": "failed", "4": "complete"}[phpStatus.FindStringSubmatch(e.text("GET", e.key("job:j1:status")))[1]]
	case "expiry":
		return cmpOr(e.text("HGET", e.key("go:stats"), "expired"), "-")
	case "deaths":
		return cmpOr(strings.Fields(e.text("HGET", e.key("go:recovered"), resque.Digest(e.job.Payload)) + " -")[0], "-")
	}
	return "?"
}

var phpStatus = regexp.MustCompile(`"status":(\d)`)

// states says what became of several things.
func (e *endTest) states(columns []string) map[string]string {
	states := make(map[string]string)
	for _, what := range columns {
		states[what] = e.state(what)
	}
	return states
}

// TestEnds ends jobs in every way, with everything a job may have, and says what is left in Redis. What
// a job has is given up alike whether or not the process that ends it knows the class, and whatever else
// the job has. testdata/ends.txt is the table: change it only where the promise changes.
//
// In the column of resque-retry's count, + is the record of a failure that the key beside it has; the
// second count is that of the other Ruby's spelling.
func TestEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dialer, err := conn.NewDialer(t.Context(), conn.Config{URI: server.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n, c := 0, server.Dial(t)
	run := func(e *end, known bool, has ...string) *endTest {
		n++
		ns := fmt.Sprint("n", n)
		has = slices.DeleteFunc(slices.Clone(has), func(what string) bool { return !e.applies(what) })
		test := &endTest{end: e, t: t, server: server, c: c, ns: ns, store: resque.New(ns), has: has, dialer: dialer}
		test.take()
		test.finish(known)
		return test
	}
	common := []string{"job", "record", "counted"}
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "ended by\t\t%s\t%s\n", strings.Join(common, "\t"), strings.Join(owned, "\t"))
	for i := range ends {
		e := &ends[i]
		knows := []bool{!e.unknown}
		if e.back || e.dead { // it must not matter
			knows = []bool{true, false}
		}
		row := run(e, knows[0]).states(common)
		for _, known := range knows {
			same := func(what string, test *endTest, want map[string]string, columns ...string) {
				t.Helper()
				want = maps.Clone(want)
				maps.DeleteFunc(want, func(name string, _ string) bool { return !slices.Contains(columns, name) })
				if diff := cmp.Diff(want, test.states(columns)); diff != "" {
					t.Errorf("%s by the %s, class known %v, %s (-want +got):\n%s", e.name, e.by, known, what, diff)
				}
			}
			same("nothing", run(e, known), row, common...)
			var others []string
			for _, what := range owned {
				if !e.applies(what) {
					row[what] = "."
					continue
				}
				alone := run(e, known, what)
				state := alone.state(what)
				for _, column := range []string{"job", "counted"} {
					if said := alone.state(column); said != row[column] {
						state += " " + said
					}
				}
				if was, ok := row[what]; ok && was != state {
					t.Errorf("%s by the %s, with %s: %s where the class is known, else %s", e.name, e.by, what, was, state)
				}
				row[what] = state
				same("with "+what, alone, row, "record")
				if !strings.HasPrefix(what, "lock") {
					others = append(others, what)
				}
			}
			if e.payload != "" {
				continue
			}
			for _, lock := range owned[:3] {
				all := append([]string{lock}, others...)
				test := run(e, known, all...)
				for _, what := range all {
					want, _, _ := strings.Cut(row[what], " ")
					got, _, _ := strings.Cut(test.state(what), " ")
					switch {
					case got == want:
					case want == "moved" && got == "held": // resque-retry's way changes no byte
					case e.name == "too large" && got == "held": // of bytes that are not parsed only the last fields are read
					default:
						t.Errorf("%s by the %s, class known %v: with all, %s is %q, and alone %q", e.name, e.by, known, what, test.state(what), row[what])
					}
				}
			}
		}
		fmt.Fprintf(w, "%s\t%s", e.by, e.name)
		for _, what := range slices.Concat(common, owned) {
			fmt.Fprintf(w, "\t%s", row[what])
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(` +\n`).ReplaceAllString(out.String(), "\n")
	const file = "testdata/ends.txt"
	if *updateEnds {
		if err := os.WriteFile(file, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(table, "\n")); diff != "" {
		t.Errorf("-file +now (-update-ends writes the file):\n%s", diff)
	}
}

// stopped is a clock that stands still.
type stopped struct{ clock.Clock }

func (stopped) Now() time.Time { return time.UnixMilli(1795229105123) }

// However a job ends: what its end takes is the same whether or not the class is registered, for all
// that stands in the payload and in the lane. Class options count before the end. Of a dead process's
// job resque-retry's keys are dropped too, whatever the options of its class are.
func TestEndsWithoutClass(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.register("C", func(string, ...any) error { return nil }, []Option{
		Retry(3), MaxRunning(1), RateLimit(1, time.Minute), OnExpired(func(context.Context, *Delivery) error { return nil }), Timeout(time.Second), Isolated(),
	})
	ruby := newRegistry()
	ruby.register("C", func(string, ...any) error { return nil }, []Option{Retry(3, ResqueRetry{Ruby34: true}), MaxRunning(1), RateLimit(1, time.Minute)})
	random := regexp.MustCompile(`id":"[^"]*"`)
	effects := func(r *registry, job func() *outcome.Job, state outcome.State, err error) string {
		now := stopped{clock.System}
		s := outcome.New(outcome.Deps{
			Base: part.Base{Log: quiet, Store: resque.New(""), Clock: now}, Time: now, Exceptions: exceptionOf, Settings: outcome.Settings{MaxPayload: 1 << 20},
		}, r, r.features(r.limits)...)
		defer s.Close()
		o := s.End(job(), state, err)
		//lint:ignore SA5009 the bytes in effects are shown as texts
		return random.ReplaceAllString(fmt.Sprintf("%s %s", any(o.Effects), o.Counts), "")
	}
	for _, fields := range []string{
		``, `,"unique":"done:L","id":"j1"`, `,"unique":"start:L","id":"j1"`, `,"expires_at":1,"id":"j1"`, `,"queue_time":1,"id":"j1"`,
		`,"retries":2,"timeout_ms":5,"meta":{"a":"b"}`, `,"retries":0,"unique":"done:L","meta":{"a":"b"},"expires_at":1,"id":"j1"`,
		`,"unique":"done:L:500","expires_at":1,"queue_time":1,"id":"j1","attempt":2`,
	} {
		raw := []byte(`{"class":"C","args":` + endArgs + fields + `}`)
		lane := r.limits.Lanes("work", [][]byte{raw})[0]
		for state := outcome.Done; state <= outcome.Cancelled; state++ {
			for n := range 16 {
				job := func() *outcome.Job {
					j := &outcome.Job{Reserved: resque.Reserved{Ticket: 7, Queue: "work", Payload: raw}, Process: "p", Worker: "w"}
					if j.Dead, j.Started = n&1 > 0, n&2 > 0; n&4 > 0 {
						j.Lane = &lane
					}
					if n&8 > 0 {
						j.Found = 3
					}
					return j
				}
				var err error
				if state == outcome.Failed {
					err = errNoLuck
				}
				known, unknown := effects(r, job, state, err), effects(newRegistry(), job, state, err)
				if known != unknown {
					t.Errorf("%v of %s, case %b:\nregistered %s\nnot        %s", state, raw, n, known, unknown)
				}
				if n&1 > 0 {
					if known := effects(ruby, job, state, err); known != unknown {
						t.Errorf("%v of %s, case %b:\ncounted as by Ruby %s\nnot registered     %s", state, raw, n, known, unknown)
					}
				}
			}
		}
	}
}

// What cannot be parsed, or is too long to be, meets failure and limits only, whatever its bytes look
// like: it is filed and gives back its lane's slot and start.
func TestUnreadableMeetsFailureAndLimits(t *testing.T) {
	t.Parallel()
	d := New(WorkerSettings{})
	d.LimitQueue("work", MaxRunning(1), RateLimit(1, time.Minute))
	d.Register("C", func(string, ...any) error { return nil }, Retry(3), MaxRunning(1))
	for _, leave := range []bool{false, true} {
		for _, raw := range []string{"", "no job", `{"args":[],"unique":"done:L","id":"j1","queue_time":1,"expires_at":1}`, `{"class":"C","args":[],"unique":"done:L","id":"j1","queue_time":1,"expires_at":1` + strings.Repeat(" ", 1000) + `}`} {
			lane := d.registry.limits.Lanes("work", [][]byte{[]byte(raw)})[0]
			if lane.Shared == "" {
				t.Fatalf("%.50q is held to nothing", raw)
			}
			store := resque.New("")
			s := outcome.New(outcome.Deps{
				Base: part.Base{Log: quiet, Store: store, Clock: clock.System}, Time: machine{}, Exceptions: exceptionOf, Settings: outcome.Settings{MaxPayload: 1000, LeaveUnknown: leave},
			}, d.registry, d.registry.features(d.registry.limits)...)
			for _, l := range []*resque.Lane{nil, &lane} {
				j := &outcome.Job{Reserved: resque.Reserved{Ticket: 7, Queue: "work", Payload: []byte(raw), Lane: l}, Process: "p"}
				var o outcome.Outcome
				s.Run(t.Context(), j, func(context.Context, *outcome.Job) error { t.Error("it runs"); return nil }, &o)
				if l == nil {
					// It lay in its queue, which has limits.
					if o.State != outcome.Returned || o.Next.Lane == nil {
						t.Errorf("%.50q from its queue: %v %v", raw, o.State, o.Next)
					}
					continue
				}
				want := store.LeaveLane(nil, "p", j.Reserved, false)
				record, keep := outcome.Deps{Base: part.Base{Store: store, Clock: clock.System}, Exceptions: exceptionOf}.Record(j, o.Err)
				filed := len(store.FileFailure("work", record.Encode(), false))
				if keep {
					filed++
				}
				if o.State != outcome.Failed || len(o.Effects) != len(want)+filed || fmt.Sprint(o.Effects[:len(want)]) != fmt.Sprint(want) {
					t.Errorf("%.50q from a lane: %v %s", raw, o.State, any(o.Effects))
				}
			}
			s.Close()
		}
	}
}
