package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/webhook"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var key = []byte("0123456789abcdef0123456789abcdef")

const stream, state = "resque:go:webhook:ops", "resque:go:webhook:ops:state"

// receiver is an HTTP server that receives deliveries.
type receiver struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	answer func(webhook.Body) int // the status; nil: 200
	tries  []string               // the ids of all deliveries that came
	got    []webhook.Body         // those that were accepted
}

func receive(t *testing.T) *receiver {
	r := &receiver{t: t}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	raw, err := io.ReadAll(q.Body)
	var body webhook.Body
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	if err == nil {
		err = webhook.Verify(q.Header.Get(webhook.SignatureHeader), raw, key, time.Hour)
	}
	if err != nil || q.Header.Get(webhook.DeliveryHeader) != body.ID || len(body.ID) != 32 || len(raw) > webhook.MostBody || q.Method != http.MethodPost {
		r.t.Errorf("%v: %s %v %s", err, q.Method, q.Header, raw)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries = append(r.tries, body.ID)
	status := http.StatusOK
	if r.answer != nil {
		status = r.answer(body)
	}
	if status/100 == 2 {
		r.got = append(r.got, body)
	}
	if status == http.StatusFound {
		w.Header().Set("Location", r.URL)
	}
	w.WriteHeader(status)
}

func (r *receiver) set(answer func(webhook.Body) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) tried() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tries)
}

// bodies are the deliveries that were accepted.
func (r *receiver) bodies() []webhook.Body {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// items are the events that were accepted.
func (r *receiver) items() (all []webhook.Item) {
	for _, b := range r.bodies() {
		all = append(all, b.Events...)
	}
	return all
}

func (r *receiver) count(kind string) (n int) {
	for _, i := range r.items() {
		if i.Kind == kind {
			n++
		}
	}
	return n
}

func (r *receiver) cut() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.got {
		n += b.Cut
	}
	return n
}

// jobs are the ids of jobs whose failures were accepted.
func (r *receiver) jobs() map[string]int {
	ids := make(map[string]int)
	for _, i := range r.items() {
		ids[i.Job]++
	}
	return ids
}

// fleet is a Redis with a daemon whose jobs fail, and a client beside it.
type fleet struct {
	*testing.T
	redis  *redistest.Server
	client *goworker.Client
	log    *daemontest.LogBook
	number int
}

func setup(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, redis: redistest.Start(t), log: new(daemontest.LogBook)}
	f.client = f.connect(f.redis.URI())
	f.daemon(f.redis.URI())
	return f
}

func (f *fleet) connect(uri string) *goworker.Client {
	f.Helper()
	c, err := goworker.NewClient(goworker.WorkerSettings{URI: uri, Connections: 5, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	return c
}

func (f *fleet) daemon(uri string) {
	f.Helper()
	d := goworker.New(goworker.WorkerSettings{
		URI: uri, QueuesString: "work", Concurrency: 4, PollInterval: 100 * time.Millisecond, Logger: slog.New(f.log), DisableSignals: true,
	})
	d.Register("Fails", func(string) error { return errors.New("dial tcp: timeout") })
	d.Register("Done", func() error { return nil })
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	f.Cleanup(func() {
		cancel()
		<-ended
		d.Close()
	})
	redistest.Eventually(f, daemontest.Soon, "the daemon is ready", func() bool { return d.Health().Ready })
}

// fail has jobs fail, and returns their ids.
func (f *fleet) fail(n int) (ids []string) {
	f.Helper()
	before := f.redis.Int(f, "LLEN", "resque:failed")
	for range n {
		f.number++
		id := fmt.Sprint("job", f.number)
		ids = append(ids, id)
		f.redis.Do(f, "RPUSH", "resque:queue:work", `{"class":"Fails","args":["secret"],"id":"`+id+`"}`)
	}
	redistest.Eventually(f, daemontest.Soon, "the jobs have failed", func() bool { return f.redis.Int(f, "LLEN", "resque:failed") == before+n })
	return ids
}

// run runs a Deliverer until the test ends or stop is called.
func (f *fleet) run(of webhook.Inspects, s webhook.Settings, change func(*webhook.Deliverer)) (d *webhook.Deliverer, stop func()) {
	f.Helper()
	s.Name, s.Logger = "ops", slog.New(f.log)
	if s.Key == nil {
		s.Key = key
	}
	d, err := webhook.New(of, s)
	if err != nil {
		f.Fatal(err)
	}
	d.Hurry(time.Millisecond, 10, 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond)
	if change != nil {
		change(d)
	}
	return d, f.start(d)
}

// start starts a Deliverer, and returns what stops it.
func (f *fleet) start(d *webhook.Deliverer) (stop func()) {
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := d.Run(ctx); err != nil {
			f.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	f.Cleanup(stop)
	return stop
}

// heard waits until the process writes for the webhook. The failures until then may be missing.
func (f *fleet) heard() {
	f.Helper()
	redistest.Eventually(f, daemontest.Soon, "the process writes for the webhook", func() bool {
		f.fail(1)
		return f.redis.Int(f, "HEXISTS", state, "written") == 1
	})
}

// all waits until the failures of these jobs were accepted.
func (r *receiver) all(ids []string) {
	r.t.Helper()
	redistest.Eventually(r.t, daemontest.Soon, "all failures are delivered", func() bool {
		jobs := r.jobs()
		return !slices.ContainsFunc(ids, func(id string) bool { return jobs[id] == 0 })
	})
}

// While no webhook is announced nothing is written. A delivery says what failed, and not with which arguments.
func TestDelivers(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	f.fail(1)
	if n := f.redis.Int(t, "EXISTS", stream, state, "resque:go:notice"); n > 0 {
		t.Errorf("%d keys, and no webhook is announced", n)
	}
	d, stop := f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	f.heard()
	f.redis.Do(t, "RPUSH", "resque:queue:work", `{"class":"Done","args":[]}`)
	ids := f.fail(3)
	r.all(ids)
	for _, i := range r.items() {
		if i.Kind != events.Failed || i.Class != "Fails" || i.Queue != "work" || i.Attempt != 1 || i.Error != "dial tcp: timeout" || i.TookMS <= 0 || i.Process == "" || i.Args != nil || i.ID == "" {
			t.Errorf("%+v", i)
		}
		if record, err := f.client.Inspect().Failures().Get(t.Context(), i.Failure); err != nil || f.log.Count("failure="+record.ID) != 1 {
			t.Errorf("the failure %q: %v", i.Failure, err)
		}
	}
	r.mu.Lock()
	if text := r.got[0].Text; !strings.HasPrefix(text, "Fails failed in queue work: dial tcp: timeout") {
		t.Error(text)
	}
	r.mu.Unlock()
	redistest.Eventually(t, daemontest.Soon, "what was delivered is gone", func() bool { return f.redis.Int(t, "XLEN", stream) == 0 })
	if ttl := f.redis.Int(t, "TTL", stream); ttl < 24*3600 {
		t.Errorf("the stream stays for %d s", ttl)
	}
	if strings.Contains(f.redis.Text(t, "HGET", "resque:go:notice", "webhook:ops"), "http") {
		t.Error("Redis has the URL")
	}
	stop()
	if s := d.Stats(); s.Delivered == 0 || s.Events < 4 || s.Dead != 0 || s.Error != "" {
		t.Errorf("%+v", s)
	}

	_, stop = f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true, Arguments: true}, nil)
	redistest.Eventually(t, daemontest.Soon, "arguments are delivered", func() bool {
		f.fail(1)
		all := r.items()
		return string(all[len(all)-1].Args) == `["secret"]`
	})
	stop()
	if was, err := webhook.Forget(t.Context(), f.client, "ops"); !was || err != nil {
		t.Error(was, err)
	}
	redistest.Eventually(t, daemontest.Soon, "the process has stopped to write", func() bool { f.fail(1); return f.redis.Int(t, "EXISTS", stream, state) == 0 })
}

// The receiver is down for ten minutes of the usual pace, six hundredfold: each failure is delivered, the deliveries keep the pace,
// and the other deliveries wait without loss.
func TestReceiverIsDown(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	var down atomic.Bool
	r.set(func(webhook.Body) int {
		if down.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusNoContent
	})
	const every, burst = 20 * time.Millisecond, 3
	began := time.Now()
	hurry := func(d *webhook.Deliverer) {
		d.Hurry(every, burst, slices.Repeat([]time.Duration{100 * time.Millisecond}, 1000)...)
	}
	f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, hurry)
	f.run(f.connect(f.redis.URI()), webhook.Settings{URL: r.URL, NoNotices: true}, hurry) // the pace is that of both
	f.heard()
	down.Store(true)
	var ids []string
	for range 6 { // a delivery has room for some eighty of them, and counts the others
		ids = append(ids, f.fail(10)...)
	}
	tried := len(r.tried())
	redistest.Eventually(t, daemontest.Soon, "deliveries are tried again", func() bool {
		again := make(map[string]int)
		for _, id := range r.tried()[tried:] {
			again[id]++
		}
		return len(again) > 0 && slices.ContainsFunc(r.tried()[tried:], func(id string) bool { return again[id] > 2 })
	})
	down.Store(false)
	r.all(ids)
	if n, most := len(r.tried()), burst+1+int(time.Since(began)/every); n > most {
		t.Errorf("%d tries, where the pace allows %d", n, most)
	}
	if n := r.cut(); n > 0 {
		t.Errorf("%d events were lost", n)
	}
	redistest.Eventually(t, daemontest.Soon, "the log says that the receiver is back", func() bool { return f.log.Count("accepts deliveries again") > 0 })
}

// A deliverer dies between a delivery and its acknowledgement. Another one claims what it had, and delivers it again under the same id.
func TestDelivererDies(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	proxy := f.redis.StartProxy(t)
	var killed atomic.Bool
	r.set(func(b webhook.Body) int {
		victim := slices.ContainsFunc(b.Events, func(i webhook.Item) bool { return i.Job == "victim" })
		if victim && killed.CompareAndSwap(false, true) {
			proxy.Refuse(true)
		}
		return http.StatusOK
	})
	_, stop := f.run(f.connect("redis://"+proxy.Addr), webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	f.heard()
	f.redis.Do(t, "RPUSH", "resque:queue:work", `{"class":"Fails","args":["x"],"id":"victim"}`)
	redistest.Eventually(t, daemontest.Soon, "it is delivered once", func() bool { return r.jobs()["victim"] == 1 })
	stop()
	if n := f.redis.Int(t, "XLEN", stream); n == 0 {
		t.Fatal("Redis knows that it was delivered")
	}
	f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, func(d *webhook.Deliverer) { d.Orphan(2 * time.Second) })
	redistest.Eventually(t, daemontest.Soon, "it is delivered again", func() bool { return r.jobs()["victim"] > 1 }) // a busy machine may do it once more
	redistest.Eventually(t, daemontest.Soon, "it is acknowledged", func() bool { return f.redis.Int(t, "XLEN", stream) == 0 })
	var ids, events []string
	for _, b := range r.bodies() {
		for _, e := range b.Events {
			if e.Job == "victim" {
				ids, events = append(ids, b.ID), append(events, e.ID)
			}
		}
	}
	if len(slices.Compact(events)) != 1 {
		t.Errorf("the event has the ids %s", events)
	}
	if len(slices.Compact(ids)) != 1 {
		t.Errorf("the delivery has the ids %s", ids)
	}
}

// While no deliverer is there, processes go on to write, also after the notice was lost. What the stream cuts meanwhile is counted.
func TestDelivererIsAway(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	_, stop := f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	f.heard()
	r.all(f.fail(1))
	redistest.Eventually(t, daemontest.Soon, "all is delivered", func() bool { return f.redis.Int(t, "XLEN", stream) == 0 })
	stop()
	f.redis.Do(t, "DEL", "resque:go:notice")
	for range 2 { // the process reads the notice with each renewal of its lease
		lease := f.redis.List(t, "ZRANGE", "resque:go:processes", 0, -1, "WITHSCORES")
		redistest.Eventually(t, daemontest.Soon, "the lease is renewed", func() bool {
			return !slices.Equal(lease, f.redis.List(t, "ZRANGE", "resque:go:processes", 0, -1, "WITHSCORES"))
		})
	}
	f.fail(10)
	if n := f.redis.Int(t, "XLEN", stream); n != 10 {
		t.Fatalf("%d of 10 failures wait", n)
	}
	f.redis.Do(t, "XTRIM", stream, "MAXLEN", 2)
	before := r.count(events.Failed)
	d, _ := f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	redistest.Eventually(t, daemontest.Soon, "the others are delivered", func() bool { return r.count(events.Failed) == before+2 })
	if n := r.cut(); n != 8 {
		t.Errorf("the receiver hears of %d lost events", n)
	}
	redistest.Eventually(t, daemontest.Soon, "the log says it", func() bool { return f.log.Count("events of the webhook were lost") == 1 && d.Stats().Cut == 8 })
	r.all(f.fail(3))
	if n := r.cut(); n != 8 {
		t.Errorf("lost events are reported twice: %d", n)
	}
	f.redis.Do(t, "DEL", stream) // its deliverer makes it again
	redistest.Eventually(t, daemontest.Soon, "failures are delivered again", func() bool {
		f.fail(1)
		return r.jobs()[fmt.Sprint("job", f.number-1)] > 0
	})
}

// Redis is away for a while: nothing is lost.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	proxy := f.redis.StartProxy(t)
	f.run(f.connect("redis://"+proxy.Addr), webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	f.heard()
	proxy.Refuse(true)
	redistest.Eventually(t, daemontest.Soon, "the log says so", func() bool { return f.log.Count("cannot ask Redis") > 0 })
	ids := f.fail(5)
	proxy.Refuse(false)
	r.all(ids)
}

// A delivery that the receiver never accepts is given up, with a line in the log of the fleet, and does not hold up the others.
func TestDeadDelivery(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	d, _ := f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	f.heard()
	r.set(func(b webhook.Body) int {
		if slices.ContainsFunc(b.Events, func(i webhook.Item) bool { return i.Job == "bad" }) {
			return http.StatusFound
		}
		return http.StatusOK
	})
	f.redis.Do(t, "RPUSH", "resque:queue:work", `{"class":"Fails","args":["x"],"id":"bad"}`)
	redistest.Eventually(t, daemontest.Soon, "it is tried", func() bool { return d.Stats().Failed > 0 })
	r.all(f.fail(5))
	var line inspect.LogEntry
	redistest.Eventually(t, daemontest.Soon, "the log of the fleet has it", func() bool {
		entries, _, err := f.client.Inspect().Log(t.Context(), "", 100)
		at := slices.IndexFunc(entries, func(e inspect.LogEntry) bool { return e.Kind == inspect.LogWebhookDead })
		if at >= 0 {
			line = entries[at]
		}
		return err == nil && at >= 0
	})
	if line.More["webhook"] != "ops" || !strings.Contains(line.Text, "given up after 4 tries: the receiver answered 302 Found, and redirects are not followed") {
		t.Errorf("%+v", line)
	}
	if n := len(slices.DeleteFunc(r.tried(), func(id string) bool { return id != line.More["delivery"] })); n != 4 {
		t.Errorf("it was tried %d times", n)
	}
	if s := d.Stats(); s.Dead != 1 || s.Failed != 4 {
		t.Errorf("%+v", s)
	}
}

// A receiver that answers 410 gets nothing for a while, and no delivery is given up.
func TestGone(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	d, _ := f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, func(d *webhook.Deliverer) { d.Hurry(time.Millisecond, 10) })
	f.heard()
	r.set(func(webhook.Body) int { return http.StatusGone })
	ids := f.fail(3)
	redistest.Eventually(t, daemontest.Soon, "it is tried twice", func() bool { return d.Stats().Failed > 1 })
	if s := d.Stats(); s.Dead > 0 || !strings.Contains(s.Error, "410 Gone") {
		t.Errorf("%+v", s)
	}
	last := 0
	redistest.Eventually(t, daemontest.Soon, "Redis hears that the deliverer has it, so no other one claims it", func() (fell bool) {
		pending, err := redis.Values(f.redis.Do(t, "XPENDING", stream, "deliverers", "-", "+", 1), nil)
		if err != nil || len(pending) == 0 {
			return false
		}
		row, _ := redis.Values(pending[0], nil)
		idle, _ := redis.Int(row[2], nil)
		fell, last = idle < last, idle
		return fell
	})
	r.set(nil)
	r.all(ids)
}

// What begins to be wrong is said once, and so is its end, whichever deliverer looks.
func TestNotices(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	f.run(f.client, webhook.Settings{URL: r.URL}, nil)
	_, stop := f.run(f.connect(f.redis.URI()), webhook.Settings{URL: r.URL}, nil)
	f.redis.Do(t, "SET", "resque:pause-all-workers", "true")
	redistest.Eventually(t, daemontest.Soon, "the beginning is delivered", func() bool { return r.notices("paused-all", webhook.Begun) == 1 })
	looks, last := 0, ""
	redistest.Eventually(t, daemontest.Soon, "it is looked again", func() bool {
		if lease := f.redis.Text(t, "HGET", state, "lease"); lease != last {
			looks, last = looks+1, lease
		}
		return looks > 3
	})
	stop()
	f.redis.Do(t, "DEL", "resque:pause-all-workers")
	redistest.Eventually(t, daemontest.Soon, "the end is delivered", func() bool { return r.notices("paused-all", webhook.Ended) == 1 })
	if n := r.notices("paused-all", webhook.Begun); n != 1 {
		t.Errorf("the beginning was said %d times", n)
	}
	for _, i := range r.items() {
		if i.Check == "paused-all" && (i.Sentence == "" || i.Severity != "warning" || i.At.IsZero()) {
			t.Errorf("%+v", i)
		}
	}
}

// A kind of failures that is new is said once, however many there are, and whichever deliverer looks.
func TestNewFailures(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	_, stop := f.run(f.client, webhook.Settings{URL: r.URL}, nil)
	f.fail(12)
	redistest.Eventually(t, daemontest.Soon, "the new kind is delivered", func() bool { return r.notices("new-failures", webhook.Begun) == 1 })
	f.fail(5)
	stop()
	f.run(f.connect(f.redis.URI()), webhook.Settings{URL: r.URL}, nil)
	failed := f.redis.Int(t, "LLEN", "resque:failed")
	for range 10 {
		f.redis.Do(t, "RPUSH", "resque:queue:work", `{"class":"Other","args":[]}`)
	}
	redistest.Eventually(t, daemontest.Soon, "the jobs have failed", func() bool { return f.redis.Int(t, "LLEN", "resque:failed") == failed+10 })
	redistest.Eventually(t, daemontest.Soon, "another kind is delivered", func() bool { return r.notices("new-failures", webhook.Begun) == 2 })
	if n := r.notices("new-failures", webhook.Ended); n > 0 {
		t.Errorf("%d kinds are new no more", n)
	}
	for _, i := range r.items() {
		if i.Check == "new-failures" && !strings.Contains(i.Sentence, `of class "Fails" with`) && !strings.Contains(i.Sentence, `of class "Other" with`) {
			t.Errorf("%+v", i)
		}
	}
}

// notices counts what was said. What a deliverer sent while it was stopped comes again from another one, with the same id.
func (r *receiver) notices(check, kind string) int {
	ids := make(map[string]bool)
	for _, i := range r.items() {
		if i.Check == check && i.Kind == kind {
			ids[i.ID] = true
		}
	}
	return len(ids)
}

// The user of a deliverer that docs/redis.md shows is enough, and without one of its rules the log names that.
func TestACL(t *testing.T) {
	redistest.OwnUser(t)
	t.Parallel()
	f, r := setup(t), receive(t)
	rules := redistest.ACL(t, "deliverer")
	f.redis.Do(t, "ACL", redis.Args{"SETUSER"}.AddFlat(rules)...)
	uri := strings.Replace(f.redis.URI(), "redis://", "redis://deliverer:"+redistest.ACLPassword+"@", 1)
	_, stop := f.run(f.connect(uri), webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	f.heard()
	r.all(f.fail(2))
	stop()
	if was, err := webhook.Forget(t.Context(), f.connect(uri), "ops"); !was || err != nil {
		t.Error(was, err)
	}
	looks := slices.DeleteFunc(redistest.ACL(t, "doctor")[1:], func(rule string) bool { return rule == "-@all" })
	f.redis.Do(t, "ACL", redis.Args{"SETUSER", "deliverer"}.AddFlat(looks)...)
	_, stop = f.run(f.connect(uri), webhook.Settings{URL: r.URL}, nil)
	f.redis.Do(t, "SET", "resque:pause-all-workers", "true")
	redistest.Eventually(t, daemontest.Soon, "the notice is delivered", func() bool { return r.notices("paused-all", webhook.Begun) == 1 })
	stop()
	if n := f.log.Count("Redis refuses") + f.log.Count("cannot run its checks"); n > 0 {
		t.Errorf("Redis refuses something:\n%s", f.log.Text())
	}
	f.redis.Do(t, "ACL", "SETUSER", "deliverer", "-xautoclaim")
	f.run(f.connect(uri), webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	redistest.Eventually(t, daemontest.Soon, "the log names the rule", func() bool { return f.log.Count("rule=+xautoclaim") > 0 })
}

// A process that may not write for a webhook says so, and its jobs end.
func TestProcessMayNotWrite(t *testing.T) {
	redistest.OwnUser(t)
	t.Parallel()
	f, r := &fleet{T: t, redis: redistest.Start(t), log: new(daemontest.LogBook)}, receive(t)
	f.redis.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "+@all", "&*", "resetkeys", "~resque:[^g]*", "~resque:go:[^w]*", "~resque:go:w[^e]*")
	f.client = f.connect(f.redis.URI())
	f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	f.daemon(strings.Replace(f.redis.URI(), "redis://", "redis://worker:secret@", 1))
	redistest.Eventually(t, daemontest.Soon, "the process says so", func() bool {
		f.fail(1)
		return f.log.Count("Redis refuses the events of this process for a webhook") > 0
	})
	f.fail(2)
	if n := f.redis.Int(t, "XLEN", stream); n > 0 {
		t.Errorf("%d entries", n)
	}
}

// Over several Redises an event names the process of its own Redis.
func TestSeveralRedises(t *testing.T) {
	t.Parallel()
	east, west, r := redistest.Start(t), redistest.Start(t), receive(t)
	shards := goworker.NewShards(goworker.WorkerSettings{
		Concurrency: 4, PollInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), DisableSignals: true,
	}, goworker.Shard{URI: east.URI(), Queues: []string{"work"}}, goworker.Shard{URI: west.URI(), Queues: []string{"mail"}})
	shards.Register("Fails", func() error { return errors.New("no") })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- shards.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		shards.Close()
	})
	f := &fleet{T: t, redis: east, log: new(daemontest.LogBook)}
	f.run(shards, webhook.Settings{URL: r.URL}, nil)
	places := map[string]*redistest.Server{"work": east, "mail": west}
	redistest.Eventually(t, daemontest.Soon, "failures of both are delivered", func() bool {
		seen := make(map[string]bool)
		for queue, server := range places {
			server.Do(t, "RPUSH", "resque:queue:"+queue, `{"class":"Fails","args":[]}`)
		}
		for _, i := range r.items() {
			seen[i.Queue] = true
		}
		return seen["work"] && seen["mail"]
	})
	for _, i := range r.items() {
		if server := places[i.Queue]; server != nil && server.Text(t, "ZSCORE", "resque:go:processes", i.Process) == "" {
			t.Errorf("%+v is from no process of its Redis", i)
		}
	}
}

// Webhooks work on the embedded Redis.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	r := receive(t)
	d := goworker.New(goworker.WorkerSettings{URI: "embedded:", QueuesString: "work", Logger: slog.New(slog.DiscardHandler), DisableSignals: true})
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open)
	d.Register("Fails", func() error { return errors.New("no") })
	w, err := webhook.New(d, webhook.Settings{Name: "ops", URL: r.URL, Key: key, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w.Hurry(time.Millisecond, 1)
	d.AddPart(goworker.Part{Name: "webhook", Run: w.Run, Info: w.Info})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	redistest.Eventually(t, daemontest.Soon, "a failure is delivered", func() bool {
		_, _ = d.Client().Enqueue(t.Context(), &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Fails"}})
		time.Sleep(50 * time.Millisecond)
		return r.count(events.Failed) > 0
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]webhook.Settings{
		"and \"a b\" is none":        {Name: "a b", URL: "http://x"},
		"has 3 bytes; give it 16":    {Name: "a", URL: "http://x", Key: []byte("abc")},
		"cannot deliver \"started\"": {Name: "a", URL: "http://x", Kinds: []string{"started"}},
		"needs a URL":                {Name: "a", URL: "ftp://user:secret@x"},
		"names no program":           {Name: "a", URL: "exec: "},
	} {
		if _, err := webhook.New(nil, s); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "goworker: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", want, err)
		}
	}
	now := time.Unix(1_700_000_000, 0)
	for value, want := range map[string]time.Duration{
		"": 0, "x": 0, "-5": 0, "30": 30 * time.Second, "99999999999": time.Hour, now.Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute,
		now.Add(-time.Minute).UTC().Format(http.TimeFormat): 0, "99999999999999999999": 0,
	} {
		if got := webhook.RetryAfter(value, now); got != want {
			t.Errorf("Retry-After %q is %s", value, got)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	body := []byte(`{"id":"x"}`)
	// printf '1700000000.{"id":"x"}' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
	const right = "v1=1d3a1a80c8ad0d56d3cc81d488b5779dbdd6367281fd813d1d9b8d7a5cd0204b"
	now := fmt.Sprint("t=", time.Now().Unix())
	for header, want := range map[string]error{
		"": webhook.ErrSignature, "t=1700000000": webhook.ErrSignature, "v1=00": webhook.ErrSignature, now + ",v1=zz": webhook.ErrSignature,
		"t=1700000000," + right: webhook.ErrTime, "t=1700000000,v1=00," + right: webhook.ErrTime, "t=1700000001," + right: webhook.ErrSignature,
		"t= 1700000000," + right: webhook.ErrSignature,
	} {
		if err := webhook.Verify(header, body, key, time.Minute); !errors.Is(err, want) {
			t.Errorf("%q: %v", header, err)
		}
	}
	if err := webhook.Verify("t=1700000000,"+right, body, key, 0); err != nil {
		t.Error(err)
	}
	if err := webhook.Verify("t=1700000000,"+right, append(body, ' '), key, 0); !errors.Is(err, webhook.ErrSignature) {
		t.Error(err)
	}
	if err := webhook.Verify("t=1700000000,"+right, body, nil, 0); !errors.Is(err, webhook.ErrSignature) {
		t.Error(err)
	}
}

// A body has at most 64 KiB, whatever the names and arguments are, and counts what it does not list.
func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	var all []string
	for n := range 1000 {
		e, err := json.Marshal(map[string]any{"k": "failed", "t": 1, "c": fmt.Sprint(strings.Repeat("\x01", 95), n), "q": strings.Repeat("\u2028", 33), "e": strings.Repeat("<", 300)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(e))
	}
	for _, args := range []string{"", `["` + strings.Repeat("<", 4000) + `"]`, "no JSON"} {
		raw := webhook.BodyOf(all, args, 5)
		var b webhook.Body
		if err := json.Unmarshal(raw, &b); err != nil || len(raw) > webhook.MostBody {
			t.Fatalf("%d bytes, %v", len(raw), err)
		}
		n := int64(len(b.Events))
		for _, s := range b.More {
			n += s.Count
		}
		if n != 1000 || b.Cut != 5 || len(b.Text) > 520 || bytes.ContainsRune([]byte(b.Text), 1) {
			t.Errorf("%d events, %d of them listed; %q", n, len(b.Events), b.Text)
		}
	}
	raw := webhook.BodyOf(slices.Repeat([]string{`{"k":"failed","t":1,"q":"mail","c":"SendEmail","e":"dial tcp: timeout"}`}, 413), "", 0)
	if want := `"text":"SendEmail failed in queue mail: dial tcp: timeout, and 412 more of class SendEmail"`; !strings.Contains(string(raw), want) {
		t.Errorf("%s", raw)
	}
}
