//go:build unix

package goworker_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A failure record shows the name of a Go type, and failure tools group by it. This
// golden holds every name and every text that a record can get from this package, so
// that a type which moves or a sentence which changes is seen.

var update = flag.Bool("update", false, "write testdata/exceptions.txt")

// childVar is set for the children of isolated jobs: the Redis they work on.
const childVar = "GOWORKER_EXCEPTIONS_TEST_URI"

// childMain says what main does in a child before it works: "return" or "hang".
const childMain = "GOWORKER_EXCEPTIONS_TEST_MAIN"

func TestExceptions(t *testing.T) {
	t.Parallel()
	groups := []struct {
		name string
		run  func(*testing.T) map[string]string
	}{
		{"payloads", payloadExceptions},
		{"arguments", argumentExceptions},
		{"ActiveJob", activeJobExceptions},
		{"returned", returnedExceptions},
		{"returned by this package", ownExceptions},
		{"panics", panicExceptions},
		{"cancelled", cancelledExceptions},
		{"stopped", stoppedExceptions},
		{"isolated", isolatedExceptions},
		{"found in dead processes", deadExceptions},
	}
	shown := make([]string, len(groups))
	t.Run("groups", func(t *testing.T) {
		for i, g := range groups {
			t.Run(g.name, func(t *testing.T) {
				t.Parallel()
				records := g.run(t)
				var b strings.Builder
				fmt.Fprintf(&b, "# %s\n", g.name)
				for _, name := range slices.Sorted(maps.Keys(records)) {
					fmt.Fprintf(&b, "\n%s\n%s", name, records[name])
				}
				shown[i] = b.String()
			})
		}
	})
	if t.Failed() {
		return
	}
	got := strings.Join(shown, "\n")
	const file = "testdata/exceptions.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("what failure records say, -file +now (-update writes the file):\n%s", diff)
	}
}

// failing is a Redis, and a daemon on it that writes failure records.
type failing struct {
	t      *testing.T
	redis  *redistest.Server
	daemon *goworker.Daemon
}

func newFailing(t *testing.T, change ...func(*goworker.WorkerSettings)) *failing {
	t.Helper()
	f := &failing{t: t, redis: redistest.Start(t)}
	f.daemon = goworker.New(failingSettings(f.redis.URI(), change...))
	t.Cleanup(f.daemon.Close)
	return f
}

func failingSettings(uri string, change ...func(*goworker.WorkerSettings)) goworker.WorkerSettings {
	s := goworker.WorkerSettings{
		URI: uri, QueuesString: "*", Concurrency: 8, PollInterval: time.Second, AllowNoHandlers: true,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

// push puts a job into a queue that has the name of its case.
func (f *failing) push(name, payload string) {
	f.t.Helper()
	f.redis.Do(f.t, "SADD", "resque:queues", name)
	f.redis.Do(f.t, "RPUSH", "resque:queue:"+name, payload)
}

// fail registers a handler for the case and pushes a job for it.
func (f *failing) fail(name string, handler any, args string, opts ...goworker.Option) {
	f.t.Helper()
	class := "Case" + strings.ReplaceAll(name, " ", "")
	f.daemon.Register(class, handler, opts...)
	f.push(name, `{"class":"`+class+`","args":`+args+`}`)
}

// records runs the daemon until there are n failures, and returns what each says, by case.
func (f *failing) records(n int) map[string]string {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.daemon.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	}()
	f.wait(n)
	return f.shown()
}

// wait waits for n failure records.
func (f *failing) wait(n int) {
	f.t.Helper()
	defer func() {
		if f.t.Failed() {
			f.t.Log("these have failed:", slices.Sorted(maps.Keys(f.shown())))
		}
	}()
	redistest.Eventually(f.t, 20*time.Second, fmt.Sprint(n, " jobs have failed"), func() bool {
		return f.redis.Int(f.t, "LLEN", "resque:failed") >= n
	})
}

// masks hide what differs from run to run and from place to place.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`(\.go|\.s):\d+`), "$1:LINE"},
	{regexp.MustCompile(`(func|gowrap)\d+(\.\d+)*`), "$1N"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^ ]*Z`), "TIME"},
	{regexp.MustCompile(`held [0-9.]+ MiB`), "held SOME MiB"},
	{regexp.MustCompile(`no connection was free within 1\d(\.\d)?s`), "no connection was free within 10s"}, // how long it waited
	{regexp.MustCompile(`job [A-Z2-7]{16}\b`), "job ID"},
	{regexp.MustCompile(`script: [0-9a-f]{40}, on @user_script:\d+`), "script: SHA1, on @user_script:LINE"},
	{regexp.MustCompile(`x{100,}`), "xxx…"},
}

// shown is each record's exception, text, first line of the backtrace, and payload where
// it is not the job's own.
func (f *failing) shown() map[string]string {
	f.t.Helper()
	all := make(map[string]string)
	for _, raw := range f.redis.List(f.t, "LRANGE", "resque:failed", 0, -1) {
		var r struct {
			Payload          struct{ Class string }
			Exception, Error string
			Backtrace        []string
			Queue            string
		}
		if err := json.Unmarshal([]byte(raw), &r); err != nil {
			f.t.Fatalf("failure record %s: %v", raw, err)
		}
		text := fmt.Sprintf("  exception  %s\n", r.Exception)
		for i, line := range strings.Split(r.Error, "\n") {
			text += fmt.Sprintf("  %-9s  %s\n", []string{"error", ""}[min(i, 1)], line)
		}
		if len(r.Backtrace) > 0 {
			text += fmt.Sprintf("  backtrace  %s\n", r.Backtrace[0])
		}
		if r.Payload.Class == "InvalidPayload" {
			text += "  payload    InvalidPayload\n"
		}
		for _, m := range masks {
			text = m.what.ReplaceAllString(text, m.with)
		}
		if all[r.Queue] != "" {
			f.t.Errorf("%s has failed twice", r.Queue)
		}
		all[r.Queue] = strings.ReplaceAll(text, f.redis.Dir, "DIR")
	}
	return all
}

func payloadExceptions(t *testing.T) map[string]string {
	f := newFailing(t, func(s *goworker.WorkerSettings) { s.MaxPayload = 300_000 })
	f.daemon.Register("Known", func() {})
	payloads := map[string]string{
		"not JSON":                `this is <no> "json"`,
		"cut short":               `{"class":"Known","args":[`,
		"more behind":             `{"class":"Known","args":[]} {}`,
		"empty":                   ``,
		"null":                    `null`,
		"a number":                `42`,
		"a string":                `"Known"`,
		"an array":                `["Known"]`,
		"no class":                `{"args":[1]}`,
		"null class":              `{"class":null,"args":[]}`,
		"empty class":             `{"class":"","args":[]}`,
		"class is a number":       `{"class":1,"args":[]}`,
		"args are an object":      `{"class":"Known","args":{}}`,
		"args are a string":       `{"class":"Known","args":"x"}`,
		"bytes that are no UTF-8": "{\"class\":\"Known\xff\",\"args\":[]}",
		"nested too deep":         `{"class":"Known","args":[` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `]}`,
		"long and no job":         strings.Repeat("x", 200_000),
		"too long":                `{"class":"Known","args":["` + strings.Repeat("x", 400_000) + `"]}`,
		"unknown class":           `{"class":"Nobody::Knows","args":["é", 1.0]}`,
		"unknown class like HTML": `{"class":"<b>","args":[]}`,
		"expired":                 `{"class":"Late","args":[],"expires_at":1000}`,
	}
	f.daemon.Register("Late", func() {}, goworker.OnExpired(func(context.Context, *goworker.Delivery) error {
		return errors.New("it was too late")
	}))
	for name, p := range payloads {
		f.push(name, p)
	}
	return f.records(len(payloads))
}

// order is a parameter of its own type, tint reads itself.
type (
	order struct {
		Customer struct{ Age int }
	}
	tint struct{}
)

func (*tint) UnmarshalJSON([]byte) error { return errors.New("no such color") }

func argumentExceptions(t *testing.T) map[string]string {
	f := newFailing(t)
	cases := map[string]struct {
		handler any
		args    string
	}{
		"too few":                 {func(string, int) {}, `["a"]`},
		"too many":                {func(string) {}, `["a","b"]`},
		"too many for none":       {func(context.Context) {}, `[1]`},
		"too few for a variadic":  {func(string, ...int) {}, `[]`},
		"string for int":          {func(int) {}, `["5"]`},
		"fraction for int":        {func(int) {}, `[1.5]`},
		"null for int":            {func(a, b int) error { return fmt.Errorf("null became %d", b) }, `[1,null]`},
		"out of range":            {func(int8) {}, `[300]`},
		"negative for unsigned":   {func(uint) {}, `[-1]`},
		"out of range of float":   {func(float32) {}, `[1e300]`},
		"number for string":       {func(string) {}, `[5]`},
		"object for string":       {func(string) {}, `[{"a":1}]`},
		"string for bool":         {func(bool) {}, `["true"]`},
		"bool for list":           {func([]int) {}, `[true]`},
		"string in list":          {func([]int) {}, `[["a"]]`},
		"array for map":           {func(map[string]int) {}, `[[1]]`},
		"string for struct":       {func(order) {}, `["a"]`},
		"wrong field":             {func(order) {}, `[{"Customer":{"Age":"old"}}]`},
		"wrong time":              {func(time.Time) {}, `["yesterday"]`},
		"number for time":         {func(time.Time) {}, `[5]`},
		"own way to read":         {func(tint) {}, `["red"]`},
		"number for pointer":      {func(*string) {}, `[5]`},
		"string for rest":         {func(...int) {}, `[1,"two"]`},
		"string for bytes":        {func([]byte) {}, `["no base64"]`},
		"too large for any":       {func(string, ...any) error { return errors.New("it was decoded") }, `[1e999]`},
		"too large for a Job":     {func(context.Context, *goworker.Job) error { return errors.New("it was decoded") }, `[1e999]`},
		"too large for interface": {func(any) error { return errors.New("it was decoded") }, `[1e999]`},
	}
	for name, c := range cases {
		f.fail(name, c.handler, c.args)
	}
	return f.records(len(cases))
}

func activeJobExceptions(t *testing.T) map[string]string {
	f := newFailing(t)
	f.daemon.Register("Known", func(int) {})
	cases := map[string]string{
		"no argument":         ``,
		"two arguments":       `{},{}`,
		"not an object":       `"Known"`,
		"no class":            `{"job_id":"x"}`,
		"unknown class":       `{"job_class":"Nobody::Knows","arguments":[]}`,
		"arguments no array":  `{"job_class":"Known","arguments":5}`,
		"wrong argument":      `{"job_class":"Known","arguments":["a"]}`,
		"wrong GlobalID":      `{"job_class":"Known","arguments":[{"_aj_globalid":"http://x"}]}`,
		"GlobalID no string":  `{"job_class":"Known","arguments":[{"_aj_globalid":5}]}`,
		"unknown serializer":  `{"job_class":"Known","arguments":[{"_aj_serialized":"Rails::Odd","value":1}]}`,
		"serialized duration": `{"job_class":"Known","arguments":[{"_aj_serialized":"ActiveJob::Serializers::DurationSerializer","value":"x"}]}`,
		"serialized time":     `{"job_class":"Known","arguments":[{"_aj_serialized":"ActiveJob::Serializers::TimeSerializer","value":5}]}`,
		"serialized symbol":   `{"job_class":"Known","arguments":[{"_aj_serialized":"ActiveJob::Serializers::SymbolSerializer","value":"x"}]}`,
		"odd mark":            `{"job_class":"Known","arguments":[{"_aj_odd":1}]}`,
	}
	for name, args := range cases {
		f.push(name, `{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[`+args+`]}`)
	}
	return f.records(len(cases))
}

type (
	plainFailure          struct{}
	pointerFailure        struct{ text string }
	genericFailure[T any] struct{}
	fälure                struct{}
	tracedFailure         struct{ lines []string }
	hostileFailure        struct{}
	hurriedFailure        struct{}
)

func (plainFailure) Error() string               { return "plain" }
func (e *pointerFailure) Error() string          { return e.text }
func (genericFailure[T]) Error() string          { return "generic" }
func (fälure) Error() string                     { return "umlaut" }
func (tracedFailure) Error() string              { return "traced" }
func (e tracedFailure) Backtrace() []string      { return e.lines }
func (hostileFailure) Error() string             { panic("no text") }
func (hostileFailure) Backtrace() []string       { panic("no trace") }
func (hostileFailure) Unwrap() error             { panic("nothing inside") }
func (hurriedFailure) Error() string             { return "hurried" }
func (hurriedFailure) RetryAfter() time.Duration { return time.Nanosecond }

var errNoLuck = errors.New("no luck")

func returnedExceptions(t *testing.T) map[string]string {
	f := newFailing(t)
	_, parsed := strconv.Atoi("five")
	var syntax any
	unmarshalled := json.Unmarshal([]byte("{"), &syntax)
	cases := map[string]error{
		"errors.New":          errors.New("<b>"),
		"fmt.Errorf":          fmt.Errorf("no %d", 1),
		"several lines":       errors.New("one\ntwo"),
		"own type":            plainFailure{},
		"pointer":             &pointerFailure{"x"},
		"nil pointer":         (*pointerFailure)(nil),
		"type parameters":     genericFailure[map[string]int]{},
		"other letters":       fälure{},
		"wrapped":             fmt.Errorf("a: %w", fmt.Errorf("b: %w", plainFailure{})),
		"wrapped several":     fmt.Errorf("%w, %w", errors.New("x"), plainFailure{}),
		"joined":              errors.Join(errors.New("x"), plainFailure{}),
		"joined texts":        errors.Join(errors.New("x"), errors.New("y")),
		"path":                &fs.PathError{Op: "open", Path: "p", Err: fs.ErrNotExist},
		"number":              parsed,
		"JSON":                unmarshalled,
		"system call":         syscall.ENOSPC,
		"deadline":            context.DeadlineExceeded,
		"canceled":            context.Canceled,
		"end of file":         io.EOF,
		"own backtrace":       fmt.Errorf("x: %w", tracedFailure{[]string{"a.rb:1:in `f'", "b"}}),
		"hostile":             hostileFailure{},
		"Fail":                goworker.FailNow(plainFailure{}),
		"Fail of nothing":     goworker.FailNow(nil),
		"Fail wrapped":        fmt.Errorf("again: %w", goworker.FailNow(errNoLuck)),
		"RetryAfter, no more": hurriedFailure{},
	}
	for name, err := range cases {
		f.fail(name, func() error { return err }, `[]`)
	}
	n := len(cases)
	add := func(name string, handler any, opts ...goworker.Option) { f.fail(name, handler, `[]`, opts...); n++ }
	atOnce := goworker.Delays{0}
	add("retries used up", func() error { return plainFailure{} }, goworker.Retry(1, atOnce))
	add("RetryIn used up", func() error { return goworker.RetryIn(0, nil) }, goworker.Retry(1, atOnce))
	add("RetryIn of an error used up", func() error { return goworker.RetryIn(0, plainFailure{}) }, goworker.Retry(1, atOnce))
	add("no retry on it", func() error { return plainFailure{} }, goworker.Retry(1, atOnce, goworker.NoRetryIf(goworker.ErrorAs[plainFailure])))
	add("deciding panics", func() error { return plainFailure{} }, goworker.Retry(1, atOnce, goworker.NoRetryIf(func(error) bool { panic("aargh") })))
	add("timeout", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, goworker.Timeout(20*time.Millisecond))
	add("cause of a timeout", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, goworker.Timeout(20*time.Millisecond))
	add("own error after a timeout", func(ctx context.Context) error { <-ctx.Done(); return plainFailure{} }, goworker.Timeout(20*time.Millisecond))
	add("count of resque-retry broken", func() {}, goworker.Retry(1, atOnce, goworker.ResqueRetry{}))
	f.redis.Do(t, "HSET", "resque:resque-retry:Casecountofresque-retrybroken", "a", "b")
	return f.records(n)
}

// ownExceptions are the errors that this package makes, as a handler returns them.
func ownExceptions(t *testing.T) map[string]string {
	f := newFailing(t, func(s *goworker.WorkerSettings) { s.MaxPayload, s.QueuesString = 1000, "*,!other,!a,!b" })
	n := 0
	add := func(name string, run func(context.Context) error) {
		f.fail(name, run, `[]`)
		n++
	}
	value := func(name string, err error) { add(name, func(context.Context) error { return err }) }
	value("PanicError", &goworker.PanicError{Value: "x"})
	value("UnknownClassError", &goworker.UnknownClassError{Class: "C"})
	value("ArgumentError", &goworker.ArgumentError{Class: "C", Index: 1, Want: "int", Found: "a string"})
	value("CrashError", &goworker.CrashError{Class: "C", ExitCode: 1})
	value("MemoryLimitError", &goworker.MemoryLimitError{Class: "C", Limit: 1 << 20, Used: 2 << 20})
	value("TimeLimitError", &goworker.TimeLimitError{Class: "C", Limit: time.Second})
	value("ShutdownError", &goworker.ShutdownError{Unfinished: []string{"a"}, Undelivered: 2})
	value("ShardError", &goworker.ShardError{URI: "redis://x", Err: errNoLuck})
	value("DuplicateError", &goworker.DuplicateError{Class: "C", Holder: "x", Queue: "q"})
	for name, err := range map[string]error{
		"ErrLeaseLost": goworker.ErrLeaseLost, "ErrShutdown": goworker.ErrShutdown, "ErrCancelled": goworker.ErrCancelled,
		"ErrGoexit": goworker.ErrGoexit, "ErrTooFewReplicas": goworker.ErrTooFewReplicas, "ErrClosed": goworker.ErrClosed,
		"ErrRunning": goworker.ErrRunning, "ErrNoSchedule": goworker.ErrNoSchedule, "ErrNoFailure": goworker.ErrNoFailure,
		"ErrRetried": goworker.ErrRetried,
	} {
		if errors.Is(err, goworker.ErrLeaseLost) {
			continue // the job goes back
		}
		value(name, err)
	}

	job := &goworker.Job{Queue: "other", Payload: goworker.Payload{Class: "C", Args: []any{}}}
	address := "redis://" + f.redis.Addr
	// elsewhere calls another daemon with settings of its own.
	elsewhere := func(name string, change func(*goworker.WorkerSettings), call func(context.Context, *goworker.Daemon) error) {
		add(name, func(ctx context.Context) error {
			d := goworker.New(failingSettings(address, change))
			defer d.Close()
			return call(ctx, d)
		})
	}
	enqueue := func(_ context.Context, d *goworker.Daemon) error { return d.Enqueue(job) }
	uri := func(uri string) func(*goworker.WorkerSettings) {
		return func(s *goworker.WorkerSettings) { s.URI = uri }
	}
	same := func(*goworker.WorkerSettings) {}
	closed := fmt.Sprint("redis://127.0.0.1:", redistest.FreePort(t))
	elsewhere("nobody listens", uri(closed), enqueue)
	elsewhere("no host", uri("redis://nowhere.invalid:6379"), func(ctx context.Context, d *goworker.Daemon) error {
		if err := d.Enqueue(job); !strings.Contains(err.Error(), "nowhere.invalid") {
			return err
		}
		return nil
	})
	n-- // it does not fail: what name resolution says differs
	elsewhere("no socket", uri("unix:///nowhere/redis.sock"), enqueue)
	elsewhere("unknown scheme", uri("gopher://x"), enqueue)
	elsewhere("no scheme", uri("localhost:6379"), enqueue)
	elsewhere("no such database", uri(address+"/99"), enqueue)
	elsewhere("wrong password", uri("redis://nobody:secret@"+f.redis.Addr), enqueue)
	elsewhere("no replicas", func(s *goworker.WorkerSettings) { s.WaitReplicas = 1 }, enqueue)
	elsewhere("wrong settings", func(s *goworker.WorkerSettings) { s.Concurrency, s.Order = -1, "odd" }, enqueue)
	elsewhere("no connection free", func(s *goworker.WorkerSettings) { s.Connections = 1 }, func(_ context.Context, d *goworker.Daemon) error {
		c, err := d.GetConn()
		if err != nil {
			return err
		}
		defer d.PutConn(c)
		return d.Enqueue(job)
	})
	elsewhere("after Close", same, func(_ context.Context, d *goworker.Daemon) error {
		d.Close()
		return d.Enqueue(job)
	})
	elsewhere("no job", same, func(_ context.Context, d *goworker.Daemon) error { return d.Enqueue(nil) })
	elsewhere("no queue", same, func(_ context.Context, d *goworker.Daemon) error {
		return d.Enqueue(&goworker.Job{Payload: job.Payload})
	})
	elsewhere("no JSON", same, func(_ context.Context, d *goworker.Daemon) error {
		return d.Enqueue(&goworker.Job{Queue: "other", Payload: goworker.Payload{Class: "C", Args: []any{make(chan int)}}})
	})
	elsewhere("payload too long", func(s *goworker.WorkerSettings) { s.MaxPayload = 10 }, enqueue)
	elsewhere("queue of another type", same, func(_ context.Context, d *goworker.Daemon) error {
		return d.Enqueue(&goworker.Job{Queue: "broken", Payload: job.Payload})
	})
	f.redis.Do(t, "SET", "resque:queue:broken", "x")
	elsewhere("twice", same, func(_ context.Context, d *goworker.Daemon) error {
		_, err := d.EnqueueWith(job, goworker.Unique(), goworker.Unique())
		return err
	})
	elsewhere("duplicate", same, func(_ context.Context, d *goworker.Daemon) error {
		if _, err := d.EnqueueWith(job, goworker.Unique()); err != nil {
			return err
		}
		_, err := d.EnqueueWith(job, goworker.Unique())
		return err
	})
	elsewhere("no such failure", same, func(_ context.Context, d *goworker.Daemon) error {
		_, err := d.Failures().Get("0123456789abcdef")
		return err
	})
	elsewhere("no such schedule", same, func(_ context.Context, d *goworker.Daemon) error { return d.RunScheduleNow("nothing") })
	elsewhere("wrong schedule", same, func(_ context.Context, d *goworker.Daemon) error {
		return d.Schedule("odd", goworker.Recurring{Cron: "* * odd", Class: "C", Queue: "q"})
	})
	elsewhere("pause of a pattern", same, func(_ context.Context, d *goworker.Daemon) error { return d.PauseQueue("a*") })
	elsewhere("running already", same, func(ctx context.Context, d *goworker.Daemon) error { return f.daemon.Run(ctx) })
	shards := func(name string, call func(*goworker.Shards) error) {
		add(name, func(context.Context) error {
			s := goworker.NewShards(failingSettings("", func(s *goworker.WorkerSettings) { s.QueuesString = "" }),
				goworker.Shard{URI: address, Queues: []string{"a"}}, goworker.Shard{URI: closed, Queues: []string{"b"}})
			defer s.Close()
			return call(s)
		})
	}
	shards("no shard for a queue", func(s *goworker.Shards) error { return s.Enqueue(job) })
	shards("a shard is away", func(s *goworker.Shards) error {
		return s.EnqueueAll(&goworker.Job{Queue: "a", Payload: job.Payload}, &goworker.Job{Queue: "b", Payload: job.Payload})
	})
	add("refused by Redis", func(context.Context) error {
		c, err := f.daemon.GetConn()
		if err != nil {
			return err
		}
		defer f.daemon.PutConn(c)
		_, err = c.Do("LPUSH", "resque:queues", "x")
		return err
	})
	return f.records(n)
}

func panicExceptions(t *testing.T) map[string]string {
	f := newFailing(t)
	f.daemon.Use(func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
			if d.Queue == "in middleware" {
				panic("no way through")
			}
			return next.Perform(ctx, d)
		})
	})
	var none *failing
	var table map[string]int
	five := 5
	cases := map[string]func(){
		"string":           func() { panic("aargh") },
		"number":           func() { panic(5) },
		"struct":           func() { panic(struct{ A int }{1}) },
		"error":            func() { panic(errNoLuck) },
		"own type":         func() { panic(plainFailure{}) },
		"wrapped":          func() { panic(fmt.Errorf("a: %w", plainFailure{})) },
		"nil":              func() { panic(nil) },
		"nil pointer":      func() { none.t.Name() },
		"nil map":          func() { table["a"] = 1 },
		"index":            func() { _ = []int{1}[five] },
		"division":         func() { _ = 1 / (five - 5) },
		"type":             func() { _ = any(five).(string) },
		"own backtrace":    func() { panic(tracedFailure{[]string{"a.rb:1"}}) },
		"hostile":          func() { panic(hostileFailure{}) },
		"asked to fail":    func() { panic(goworker.FailNow(errNoLuck)) },
		"ended goroutine":  runtime.Goexit,
		"in middleware":    func() {},
		"in a deferred":    func() { defer func() { panic("second") }(); panic("first") },
		"of another panic": func() { defer func() { panic(fmt.Sprint("after ", recover())) }(); panic("first") },
	}
	for name, run := range cases {
		f.fail(name, func() { run() }, `[]`)
	}
	return f.records(len(cases))
}

func cancelledExceptions(t *testing.T) map[string]string {
	f := newFailing(t)
	records, err := f.cancelled(func() { f.daemon.CancelJobs() })
	if err != nil {
		t.Error(err)
	}
	return records
}

// cancelled runs jobs that wait for their contexts to end, and returns their records and the error of the run.
func (f *failing) cancelled(cancel func()) (records map[string]string, err error) {
	var waiting sync.WaitGroup
	cases := map[string]func(context.Context) error{
		"error":     func(ctx context.Context) error { return ctx.Err() },
		"cause":     context.Cause,
		"own error": func(context.Context) error { return plainFailure{} },
		"text":      func(context.Context) error { return errNoLuck },
		"panic":     func(context.Context) error { panic("aargh") },
		"goexit":    func(context.Context) error { runtime.Goexit(); return nil },
	}
	waiting.Add(len(cases))
	for name, run := range cases {
		f.fail(name, func(ctx context.Context) error { waiting.Done(); <-ctx.Done(); return run(ctx) }, `[]`)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.daemon.Run(ctx) }()
	waiting.Wait()
	cancel()
	if f.t.Name() == "TestExceptions/groups/stopped" {
		stop()
	} else {
		f.wait(len(cases))
		stop()
	}
	err = <-ended
	return f.shown(), err
}

// stoppedExceptions are of jobs that a forced stop cuts short and that return something else
// than that. The others go back.
func stoppedExceptions(t *testing.T) (records map[string]string) {
	daemontest.Punctually(t, func() (err error) {
		f := newFailing(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = 50 * time.Millisecond })
		records, err = f.cancelled(func() {})
		return err
	})
	return records
}

// registerIsolated registers the classes whose jobs run in children.
func registerIsolated(d *goworker.Daemon, uri string) (payloads map[string]string) {
	env := goworker.ChildEnv(childVar + "=" + uri)
	payloads = make(map[string]string)
	add := func(name string, handler any, args string, opts ...goworker.IsolatedOption) {
		class := "Case" + strings.ReplaceAll(name, " ", "")
		d.Register(class, handler, goworker.Isolated(append(opts, env)...))
		payloads[name] = `{"class":"` + class + `","args":` + args + `}`
	}
	add("exit", func() { os.Exit(3) }, `[]`)
	add("exit without a failure", func() { os.Exit(0) }, `[]`)
	add("exit with words", func() { fmt.Fprintln(os.Stderr, "last\nwords"); os.Exit(4) }, `[]`)
	add("crash", func() { go panic("boom"); select {} }, `[]`)
	add("killed", func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }, `[]`)
	add("panic", func() { panic(&pointerFailure{"x"}) }, `[]`)
	add("goexit", func() { runtime.Goexit() }, `[]`)
	add("own type", func() error { return fmt.Errorf("a: %w", plainFailure{}) }, `[]`)
	add("text", func() error { return errNoLuck }, `[]`)
	add("asked to fail", func() error { return goworker.FailNow(plainFailure{}) }, `[]`)
	add("argument", func(int) {}, `["a"]`)
	add("garbage", func() { _, _ = syscall.Write(4, []byte("Content-Type: text/html")); select {} }, `[]`)
	add("other plans", func() {}, `[]`, goworker.ChildEnv(childMain+"=return"))
	add("limit while starting", func() {}, `[]`, goworker.ChildEnv(childMain+"=hang"), goworker.HardTimeout(500*time.Millisecond))
	add("limit", func() { select {} }, `[]`, goworker.HardTimeout(5*time.Second), goworker.KillGrace(3*time.Second)) // in which it says where it is
	add("limit and error", func(ctx context.Context) error { <-ctx.Done(); return plainFailure{} }, `[]`, goworker.HardTimeout(5*time.Second))
	if runtime.GOOS == "linux" {
		add("memory", func() {
			kept := make([]byte, 512<<20)
			for i := 0; i < len(kept); i += 4096 {
				kept[i] = 1
			}
			time.Sleep(time.Minute)
			runtime.KeepAlive(kept)
		}, `[]`, goworker.MaxMemory(256<<20))
	}
	d.Register("Soft", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, goworker.Timeout(50*time.Millisecond), goworker.Isolated(env))
	payloads["timeout"] = `{"class":"Soft","args":[]}`
	return payloads
}

// exceptionsChild is main in a child.
func exceptionsChild(uri string) int {
	switch os.Getenv(childMain) {
	case "return":
		fmt.Fprintln(os.Stderr, "main has other plans")
		return 0
	case "hang":
		select {}
	}
	d := goworker.New(failingSettings(uri))
	registerIsolated(d, uri)
	registerWaiting(d, uri)
	if err := d.Work(); err != nil {
		fmt.Fprintln(os.Stderr, "Work:", err)
		return 2
	}
	return 0
}

func isolatedExceptions(t *testing.T) map[string]string {
	f := newFailing(t, func(s *goworker.WorkerSettings) { s.Concurrency = 4 })
	payloads := registerIsolated(f.daemon, f.redis.URI())
	for name, p := range payloads {
		f.push(name, p)
	}
	return f.records(len(payloads))
}

// deadExceptions are of jobs found in dead processes too often. That this one was is
// written into Redis by hand.
func deadExceptions(t *testing.T) map[string]string {
	f := newFailing(t)
	const payload = `{"class":"Poison","args":[]}`
	dead := "host:1:dead"
	f.redis.Do(t, "ZADD", "resque:go:processes", "5", dead)
	f.redis.Do(t, "HSET", "resque:go:process:"+dead, "host", "host", "pid", "1", "epoch", "1", "handed", "1 *1", "queues", "poison")
	f.redis.Do(t, "HSET", "resque:go:inflight:"+dead, "entered", "1", "1", "6:poison"+payload)
	f.redis.Do(t, "HSET", "resque:go:recovered", poisonDigest, fmt.Sprintf("9 %d host:1:before 9 0", time.Now().UnixMilli()))
	return f.records(1)
}

// poisonDigest is the first half of the SHA-256 of the poison's payload.
const poisonDigest = "0ed2e7847a7b0d5da0e574c1005d03f7"
