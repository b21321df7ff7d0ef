package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

var randomID = regexp.MustCompile(`,"id":"[A-Z0-9]{16}"`)

// Options of one job stand in its payload, in a fixed order, before its expiry and its id. A job
// without options has class and args only, also if its class has a Retry and a Timeout.
func TestOptionsOfOneJobInThePayload(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	class := goworker.Define[string, goworker.None]("C", goworker.OnQueue("work"), goworker.Retry(3), goworker.Timeout(time.Minute))
	tagged := goworker.Define[string, goworker.None]("M", goworker.OnQueue("work"),
		goworker.WithMeta(map[string]string{"team": "billing", "tenant": "none"}), goworker.WithMeta(map[string]string{"more": "1"}))
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()}, goworker.Classes(class, tagged))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	items, want := []goworker.Item{
		class.Item("plain"),
		class.Item("retry", goworker.Retry(0)),
		class.Item("ever", goworker.Retry(goworker.NoLimit)),
		class.Item("timeout", goworker.Timeout(1500*time.Microsecond)),
		class.Item("none", goworker.Timeout(0)),
		class.Item("meta", goworker.WithMeta(map[string]string{"b": "2", "a": `"1"`}), goworker.WithMeta(map[string]string{"b": "3"})),
		class.Item("empty", goworker.WithMeta(nil)),
		class.Item("all", goworker.WithID("mine"), goworker.ExpiresAt(time.UnixMilli(9e12)), goworker.WithMeta(map[string]string{"a": "1"}),
			goworker.Unique(goworker.ByKey("k")), goworker.Timeout(time.Second), goworker.Retry(2)),
		tagged.Item("class"),
		tagged.Item("both", goworker.WithMeta(map[string]string{"tenant": "acme"})),
	}, []string{
		`{"class":"C","args":["plain"]}`,
		`{"class":"C","args":["retry"],"retries":0,ID}`,
		`{"class":"C","args":["ever"],"retries":-1,ID}`,
		`{"class":"C","args":["timeout"],"timeout_ms":2,ID}`,
		`{"class":"C","args":["none"],"timeout_ms":0,ID}`,
		`{"class":"C","args":["meta"],"meta":{"a":"\"1\"","b":"3"},ID}`,
		`{"class":"C","args":["empty"]}`,
		`{"class":"C","args":["all"],"retries":2,"timeout_ms":1000,"unique":"LOCK","meta":{"a":"1"},"expires_at":9000000000000,"id":"mine"}`,
		`{"class":"M","args":["class"],"meta":{"more":"1","team":"billing","tenant":"none"},ID}`,
		`{"class":"M","args":["both"],"meta":{"more":"1","team":"billing","tenant":"acme"},ID}`,
	}
	if _, err := client.EnqueueMany(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
	lock := regexp.MustCompile(`"unique":"[^"]*"`)
	for i, raw := range server.List(t, "LRANGE", "resque:queue:work", 0, -1) {
		if got := lock.ReplaceAllString(randomID.ReplaceAllString(raw, ",ID"), `"unique":"LOCK"`); got != want[i] {
			t.Errorf("the payload is\n%s\nwant\n%s", got, want[i])
		}
	}
}

// What cannot stand in a payload is refused, with the way out.
func TestOptionsOfOneJobRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI()})
	defer d.Close()
	many := make(map[string]string)
	for i := range goworker.MaxMetaKeys + 1 {
		many[fmt.Sprint(i)] = ""
	}
	meta := func(key, value string) goworker.EnqueueOption {
		return goworker.WithMeta(map[string]string{key: value})
	}
	for _, tt := range []struct {
		opts []goworker.EnqueueOption
		want string
	}{
		{[]goworker.EnqueueOption{goworker.Retry(-2)}, "Retry(-2): it must be a number of retries, or NoLimit (-1) to retry for ever"},
		{[]goworker.EnqueueOption{goworker.Retry(1 << 40)}, "Retry(1099511627776): one job takes at most 1073741824 retries, or NoLimit"},
		{[]goworker.EnqueueOption{goworker.Retry(1), goworker.Retry(2)}, "Retry(1) and Retry(2) both say how often a failed job is retried"},
		{[]goworker.EnqueueOption{goworker.Retry(1, goworker.Delays{1})}, "Retry(1): one job takes only the number; give delays, conditions and ResqueRetry to its class, with Register or Define"},
		{[]goworker.EnqueueOption{goworker.Retry(1, goworker.RetryOn(daemontest.ErrNoLuck))}, "Retry(1): one job takes only the number"},
		{[]goworker.EnqueueOption{goworker.Retry(1, nil)}, "Retry(1): one job takes only the number"},
		{[]goworker.EnqueueOption{goworker.Timeout(-1)}, "Timeout(-1ns): it must be positive, or 0 for no limit"},
		{[]goworker.EnqueueOption{goworker.Timeout(1), goworker.Timeout(1)}, "Timeout(1ns) is given twice"},
		{[]goworker.EnqueueOption{goworker.WithMeta(many)}, "WithMeta: the job's metadata has 65 keys, and 64 are allowed"},
		{[]goworker.EnqueueOption{meta("a", strings.Repeat("x", goworker.MaxMetaBytes))}, "WithMeta: the job's metadata has 16392 bytes as JSON, and 16384 are allowed"},
		{[]goworker.EnqueueOption{meta("a", strings.Repeat("x", 9000)), meta("b", strings.Repeat("x", 9000))}, "WithMeta: the job's metadata has 18015 bytes as JSON"},
		{[]goworker.EnqueueOption{meta("", "x")}, "WithMeta: a key of the job's metadata is empty"},
		{[]goworker.EnqueueOption{meta("\xff", "x")}, `WithMeta: the key "\xff" of the job's metadata is not UTF-8`},
		{[]goworker.EnqueueOption{meta("a", "\xff")}, `WithMeta: the value of the key "a" is not UTF-8`},
		{[]goworker.EnqueueOption{goworker.ResqueScheduler(), goworker.ProcessIn(time.Hour), meta("a", "b")}, "ResqueScheduler: its schedule has no place for an id"},
	} {
		_, err := d.Client().Enqueue(t.Context(), goworker.NewJob("q", "C"), tt.opts...)
		if err == nil || !strings.HasPrefix(err.Error(), "goworker: enqueueing C: "+tt.want) || !strings.HasSuffix(err.Error(), "nothing was enqueued") {
			t.Errorf("the error %v does not say %q", err, tt.want)
		}
	}
	if keys := server.Keys(t); len(keys) > 0 {
		t.Errorf("keys: %q", keys)
	}
	daemontest.WantPanic(t, `goworker: Register("C"): WithMeta: the job's metadata has 65 keys`, func() { d.Register("C", func() {}, goworker.WithMeta(many)) })

	// The metadata of class and job count together.
	d.Register("D", func() {}, goworker.WithMeta(map[string]string{"class": strings.Repeat("x", 9000)}))
	_, err := d.Client().Enqueue(t.Context(), goworker.NewJob("q", "D"), meta("job", strings.Repeat("x", 9000)))
	if err == nil || !strings.Contains(err.Error(), "enqueueing D: WithMeta: the job's metadata has 18021 bytes as JSON") {
		t.Errorf("together: %v", err)
	}
}

// A job's own number of retries holds in place of its class's, run for run, and Delivery.RetriesLeft
// says so. Fields that are no such number are another program's.
func TestRetriesOfOneJob(t *testing.T) {
	t.Parallel()
	now := []goworker.Option{goworker.Retry(1, goworker.Delays{0})}
	for name, tt := range map[string]struct {
		class []goworker.Option
		field string
		seen  string
	}{
		"more than its class": {now, `,"retries":2`, "1/2 2/1 3/0"},
		"fewer":               {now, `,"retries":0`, "1/0"},
		"none":                {now, ``, "1/1 2/0"},
		"a text":              {now, `,"retries":"2"`, "1/1 2/0"},
		"a fraction":          {now, `,"retries":2.0`, "1/1 2/0"},
		"too few":             {now, `,"retries":-2`, "1/1 2/0"},
		"too many":            {now, `,"retries":99999999999`, "1/1 2/0"},
		"an object":           {now, `,"retries":{"a":1}`, "1/1 2/0"},
		"null":                {now, `,"retries":null`, "1/1 2/0"},
		"the last counts":     {now, `,"retries":0,"retries":2`, "1/2 2/1 3/0"},
		"the class has none":  {nil, `,"retries":2`, "1/2 2/1 3/0"},
		"its conditions hold": {[]goworker.Option{goworker.Retry(5, goworker.NoRetryOn(daemontest.ErrNoLuck))}, `,"retries":2`, "1/2"},
		"as Ruby counts":      {[]goworker.Option{goworker.Retry(5, goworker.Delays{0}, goworker.ResqueRetry{})}, `,"retries":1`, "1/1 2/0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Trying(t, daemontest.Unlucky, tt.class...)
			b.Push(`{"class":"Try","args":["a"]` + tt.field + `}`)
			b.Start()
			b.Eventually("it is given up", func() bool {
				if len(b.Scheduled()) > 0 {
					b.Due()
				}
				return len(b.Failures()) == 1
			})
			if b.Seen() != tt.seen {
				t.Errorf("the runs saw %s, want %s", b.Seen(), tt.seen)
			}
		})
	}
}

// Retry(0) of one job refuses RetryIn, as that of a class does; NoLimit has no end.
func TestRetryLimitsOfOneJob(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, func(d *goworker.Delivery) error {
		if d.Attempt == 40 {
			return nil
		}
		return goworker.RetryIn(0, daemontest.ErrNoLuck)
	})
	b.Start()
	if _, err := b.Daemon.Client().Enqueue(t.Context(), goworker.NewJob("work", "Try", "never"), goworker.Retry(0)); err != nil {
		t.Fatal(err)
	}
	b.Eventually("it has failed", func() bool { return len(b.Failures()) == 1 })
	if _, err := b.Daemon.Client().Enqueue(t.Context(), goworker.NewJob("work", "Try", "ever"), goworker.Retry(goworker.NoLimit)); err != nil {
		t.Fatal(err)
	}
	b.Eventually("it is done", func() bool { return b.Stat("processed") == 41 })
	if !strings.HasPrefix(b.Seen(), "1/0 1/-1 2/-1 3/-1") || len(b.Failures()) != 1 {
		t.Errorf("the runs saw %s", b.Seen())
	}
}

// The time limit of one job holds in place of its class's.
func TestTimeoutOfOneJob(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		class time.Duration
		field string
		want  time.Duration // 0: no deadline
	}{
		"shorter":         {time.Hour, `,"timeout_ms":60000`, time.Minute},
		"longer":          {time.Minute, `,"timeout_ms":3600000`, time.Hour},
		"none":            {time.Minute, `,"timeout_ms":0`, 0},
		"the class's":     {time.Minute, ``, time.Minute},
		"of no class's":   {0, `,"timeout_ms":60000`, time.Minute},
		"a text":          {time.Minute, `,"timeout_ms":"1"`, time.Minute},
		"negative":        {time.Minute, `,"timeout_ms":-1`, time.Minute},
		"a fraction":      {time.Minute, `,"timeout_ms":1.5`, time.Minute},
		"beyond any time": {time.Minute, `,"timeout_ms":9223372036854775807`, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ExitOnComplete = true })
			b.Daemon.Register("Limited", func(ctx context.Context) {
				deadline, ok := ctx.Deadline()
				if left := time.Until(deadline); ok != (tt.want > 0) || ok && (left > tt.want || left < tt.want-30*time.Second) {
					t.Errorf("there is a deadline: %v, in %s, want %s", ok, left, tt.want)
				}
			}, goworker.Timeout(tt.class))
			b.Push(`{"class":"Limited","args":[]` + tt.field + `}`)
			b.Start()
			if err := b.Wait(); err != nil || b.Stat("processed") != 1 {
				t.Fatal(err)
			}
		})
	}
	// It ends the context, the failure names it, and it holds for the retry too.
	b := daemontest.Trying(t, func(d *goworker.Delivery) error { return nil })
	b.Daemon.Register("Slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, goworker.Retry(1, goworker.Delays{0}))
	b.Start()
	if _, err := b.Daemon.Client().Enqueue(t.Context(), goworker.NewJob("work", "Slow"), goworker.Timeout(20*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	b.Eventually("it has failed", func() bool { return len(b.Failures()) == 1 && b.Stat("processed") == 2 })
	if f := b.Failures()[0]; !strings.HasPrefix(f.Error, "Slow ran longer than its timeout of 20ms: ") {
		t.Errorf("the failure says %q", f.Error)
	}
}

// Metadata reaches the handler, middleware and hooks in every run, and stays with the job over a
// delay, retries and a snooze.
func TestMetaStays(t *testing.T) {
	t.Parallel()
	want := map[string]string{"tenant": "acme", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	errs := []error{daemontest.ErrNoLuck, goworker.Snooze(time.Hour), goworker.RetryIn(0, nil), nil}
	run := 0
	b := daemontest.Trying(t, func(d *goworker.Delivery) error {
		if !maps.Equal(d.Meta, want) {
			t.Errorf("run %d saw %v", run+1, d.Meta)
		}
		run++
		return errs[run-1]
	}, goworker.Retry(5, goworker.Delays{time.Hour}), goworker.Unique())
	seen := 0
	b.Daemon.AddHooks(goworker.Hooks{
		Retry:   func(_ context.Context, d *goworker.Delivery, _ error, _ time.Time) { seen += len(d.Meta) },
		Snooze:  func(_ context.Context, d *goworker.Delivery, _ error, _ time.Time) { seen += len(d.Meta) },
		Success: func(_ context.Context, d *goworker.Delivery) { seen += len(d.Meta) },
	})
	if _, err := b.Daemon.Client().Enqueue(t.Context(), goworker.NewJob("work", "Try", "a"), goworker.WithMeta(want), goworker.ProcessIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.Start()
	for range 3 {
		b.Eventually("it waits", func() bool { return len(b.Scheduled()) == 1 })
		b.Due()
	}
	b.Eventually("it is done", func() bool { return b.Stat("processed") == 4 })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if run != 4 || seen != 8 {
		t.Errorf("%d runs, and hooks saw %d values", run, seen)
	}
}

// It also stays where the job comes from a lane, where it was found in a dead process, and where it
// failed: an operator's retry has it again.
func TestMetaStaysInLanesAndFailures(t *testing.T) {
	t.Parallel()
	fails := true
	b := daemontest.Trying(t, func(d *goworker.Delivery) error {
		if d.Meta["tenant"] != "acme" {
			t.Errorf("it saw %v", d.Meta)
		}
		if fails {
			fails = false
			return daemontest.ErrNoLuck
		}
		return nil
	}, goworker.MaxRunning(1))
	if _, err := b.Daemon.Client().Enqueue(t.Context(), goworker.NewJob("work", "Try", "a"), goworker.WithMeta(map[string]string{"tenant": "acme"})); err != nil {
		t.Fatal(err)
	}
	b.Start()
	b.Eventually("it has failed", func() bool { return len(b.Failures()) == 1 })
	var job struct{ Meta map[string]string }
	if err := json.Unmarshal(b.Failures()[0].Payload, &job); err != nil || job.Meta["tenant"] != "acme" {
		t.Errorf("the record has %s", b.Failures()[0].Payload)
	}
	b.Push(string(b.Failures()[0].Payload))
	b.Eventually("it is done", func() bool { return b.Stat("processed") == 2 })
}

// ReplaceWaiting puts the new job's metadata and limits in the place of the old one's.
func TestMetaOfAReplacedJob(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	client, key := b.Daemon.Client(), goworker.Unique(goworker.ByKey("k"), goworker.ReplaceWaiting())
	for _, tenant := range []string{"old", "new"} {
		if _, err := client.Enqueue(t.Context(), goworker.NewJob("work", "Mark", tenant), key, goworker.WithMeta(map[string]string{"tenant": tenant}), goworker.WithID(tenant)); err != nil {
			t.Fatal(err)
		}
	}
	if q := b.Queue("work"); len(q) != 1 || !strings.HasSuffix(q[0], `"meta":{"tenant":"new"},"id":"new"}`) {
		t.Errorf("the queue has %q", q)
	}
	b.Daemon.Close()
}

// What another program calls meta does no harm.
func TestMetaOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for i, tt := range []struct {
		field string
		want  string
	}{
		{``, "map[] true"},
		{`,"meta":null`, "map[] true"},
		{`,"meta":[1]`, "map[] true"},
		{`,"meta":"text"`, "map[] true"},
		{`,"meta":{}`, "map[] true"},
		{`,"meta":{"a":1}`, "map[] true"},
		{`,"meta":{"a":1,"b":"x","c":null,"d":{"e":"f"}}`, "map[b:x] false"},
		{`,"meta":{"a":"1"},"meta":{"b":"\u00e9"}`, "map[b:é] false"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			b := daemontest.Trying(t, func(d *goworker.Delivery) error {
				return errors.New(fmt.Sprint(d.Meta, d.Meta == nil))
			})
			b.Push(`{"class":"Try","args":["a"]` + tt.field + `}`)
			b.Start()
			b.Eventually("it has run", func() bool { return len(b.Failures()) == 1 })
			if got := b.Failures()[0].Error; got != tt.want {
				t.Errorf("of %s it saw %s, want %s", tt.field, got, tt.want)
			}
		})
	}
}

// Options of one job go with it to its shard.
func TestOptionsOfOneJobOnShards(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	s := goworker.NewShards(goworker.WorkerSettings{}, goworker.Shard{URI: one.URI(), Queues: []string{"a"}}, goworker.Shard{URI: two.URI(), Queues: []string{"*"}})
	defer s.Close()
	opts := []goworker.EnqueueOption{goworker.Retry(7), goworker.Timeout(time.Second), goworker.WithMeta(map[string]string{"k": "v"}), goworker.WithID("x")}
	if _, err := s.Client().EnqueueMany(t.Context(), goworker.Item{Job: goworker.NewJob("a", "C"), Options: opts}, goworker.Item{Job: goworker.NewJob("b", "C"), Options: opts}); err != nil {
		t.Fatal(err)
	}
	want := `{"class":"C","args":[],"retries":7,"timeout_ms":1000,"meta":{"k":"v"},"id":"x"}`
	for server, queue := range map[*redistest.Server]string{one: "a", two: "b"} {
		if got := server.List(t, "LRANGE", "resque:queue:"+queue, 0, -1); len(got) != 1 || got[0] != want {
			t.Errorf("queue %s has %q", queue, got)
		}
	}
}
