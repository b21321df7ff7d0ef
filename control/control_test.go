package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	wire "github.com/goworker/goworker/internal/resque/control"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// fleet is daemons on one Redis, and a client beside them.
type fleet struct {
	*testing.T
	redis  *redistest.Server
	client *goworker.Client
}

func setup(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, redis: redistest.Start(t)}
	var err error
	if f.client, err = goworker.NewClient(goworker.WorkerSettings{URI: f.redis.OperatorsURI(), Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.client.Close)
	return f
}

// daemon is one that runs.
type daemon struct {
	*goworker.Daemon
	log   *daemontest.LogBook
	ended chan error
	over  bool
	stop  func() error
}

func (d *daemon) id() string { return d.log.Process() }

// start starts a daemon and waits until it is in the fleet.
func (f *fleet) start(name string, change ...func(*goworker.WorkerSettings, *goworker.Daemon)) *daemon {
	f.Helper()
	d := &daemon{log: new(daemontest.LogBook)}
	s := goworker.WorkerSettings{
		URI: f.redis.URI(), QueuesString: "work", Concurrency: 1, PollInterval: time.Minute, Name: name, AllowNoHandlers: true,
		Logger: slog.New(d.log), DisableSignals: true,
	}
	d.Daemon = goworker.New(s)
	for _, c := range change {
		c(&s, d.Daemon)
	}
	d.SetSettings(s)
	ctx, cancel := context.WithCancel(f.Context())
	d.ended = make(chan error, 1)
	go func() { d.ended <- d.Run(ctx) }()
	d.stop = func() error {
		cancel()
		defer d.Close()
		if d.over {
			return nil
		}
		d.over = true
		return <-d.ended
	}
	f.Cleanup(func() { _ = d.stop() })
	redistest.Eventually(f.T, daemontest.Soon, name+" is ready", func() bool { return d.Health().Ready })
	return d
}

func (f *fleet) gather(of control.Inspects, verb string, opts ...control.CallOption) control.Result {
	f.Helper()
	if _, isDaemon := of.(*daemon); isDaemon && f.redis.OperatorsURI() != f.redis.URI() {
		of = f.client // the user of workers asks nothing
	}
	r, err := control.Gather(control.New(of).Inspect(f.Context(), verb, append([]control.CallOption{control.Timeout(daemontest.Soon)}, opts...)...))
	if err != nil {
		f.Error(err)
	}
	return r
}

func processes(r control.Result) (ids []string) {
	for _, reply := range r.Replies {
		ids = append(ids, reply.Process)
	}
	slices.Sort(ids)
	return ids
}

// One Control asks for many people: the audit names the one of each call, and of calls without a name the Control's.
func TestAs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.start("mailer")
	f.redis.Do(t, "SADD", "resque:queues", "q0", "q1", "q2")
	c := control.New(f.client, control.By("ops"), control.Face("page"))
	for n, opts := range [][]control.CallOption{{control.As("ann", "")}, {control.As("bob", "phone")}, nil} {
		if _, err := control.Gather(c.Do(t.Context(), control.Pause, append(opts, control.Timeout(daemontest.Soon))...)); err != nil {
			t.Error(err)
		}
		if err := c.PauseQueue(t.Context(), fmt.Sprint("q", n), opts...); err != nil {
			t.Error(err)
		}
	}
	all, err := f.client.Inspect().Audit(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range slices.Backward(all) {
		got = append(got, e.Who+" "+e.Face)
	}
	if want := []string{"ann page", "ann page", "bob phone", "bob phone", "ops page", "ops page"}; !slices.Equal(got, want) {
		t.Errorf("the audit names %q", got)
	}
}

// Every process answers, and the call ends with the last answer. A process that is not meant does not hear of it.
func TestPing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	a, b := f.start("mailer"), f.start("media")
	all := []string{a.id(), b.id()}
	slices.Sort(all)
	for range 3 {
		if got := processes(f.gather(f.client, control.Ping)); !slices.Equal(got, all) {
			t.Errorf("%q answered, not %q", got, all)
		}
	}
	if got := processes(f.gather(a, control.Ping, control.To("m?dia"))); !slices.Equal(got, []string{b.id()}) {
		t.Errorf("media is %q", got)
	}
	if _, err := control.Gather(control.New(f.client).Inspect(t.Context(), control.Ping, control.To("other"))); !errors.Is(err, control.ErrNoMatch) {
		t.Errorf("nobody is named so, and the error is %v", err)
	}
	if r := f.gather(f.client, "no-such-verb", control.To(a.id())); len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Text, "no-such-verb") {
		t.Errorf("a verb that is not there: %+v", r)
	}
	for range control.New(f.client).Inspect(t.Context(), control.Ping) {
		break // the caller may leave at the first answer
	}
	func() { // or panic
		defer func() { _ = recover() }()
		for range control.New(f.client).Inspect(t.Context(), control.Ping) {
			panic("left")
		}
	}()
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if got := processes(f.gather(f.client, control.Ping)); !slices.Equal(got, []string{a.id()}) {
		t.Errorf("%q answered after one has left", got)
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	if _, err := control.Gather(control.New(f.client).Inspect(t.Context(), control.Ping)); !errors.Is(err, control.ErrNobody) {
		t.Errorf("nobody is there, and the error is %v", err)
	}
}

// Without the channel, or without notifications at all, a process hears of a command with its next renewal. With its -control off it
// says nothing, and one of an older release is named as that.
func TestWhoCannotHear(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.redis.Do(t, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "&__redis__:invalidate", "+@all")
	deaf := f.start("deaf", func(s *goworker.WorkerSettings, _ *goworker.Daemon) {
		s.URI = "redis://deaf:secret@" + f.redis.Addr
	})
	blind := f.start("blind", func(s *goworker.WorkerSettings, _ *goworker.Daemon) { s.DisableTracking = true })
	off := f.start("off", func(s *goworker.WorkerSettings, _ *goworker.Daemon) { s.Control = goworker.ControlOff })
	f.redis.Do(t, "ZADD", "resque:go:processes", "9999999999999", "old:1:aa")
	f.redis.Do(t, "HSET", "resque:go:process:old:1:aa", "epoch", 1, "host", "old", "version", "v0.8.2")
	r := f.gather(f.client, control.Ping)
	want := []string{deaf.id(), blind.id()}
	slices.Sort(want)
	if got := processes(r); !slices.Equal(got, want) {
		t.Errorf("%q answered, not %q", got, want)
	}
	if len(r.Silent) != 2 {
		t.Fatalf("%d are named, not 2", len(r.Silent))
	}
	for _, s := range r.Silent {
		if s.Process == off.id() != s.Off || s.Process == "old:1:aa" != s.TooOld {
			t.Errorf("%+v", s)
		}
	}
	if text := fmt.Sprint(r.Silent); !strings.Contains(text, "too old: v0.8.2") || !strings.Contains(text, "control is off") {
		t.Errorf("they are named as %s", text)
	}
}

// Commands, pauses, limits and cancels work when Redis is out of memory.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	f, r := setup(t), new(runs)
	c, ctx := control.New(f.client), t.Context()
	a := f.start("a", r.held(nil))
	f.one("Hold", "running")
	f.one("Laned", "delayed", goworker.ProcessIn(time.Hour))
	f.at("running", inspect.Running)
	f.redis.Do(t, "CONFIG", "SET", "maxmemory", 1)
	defer f.redis.Do(t, "CONFIG", "SET", "maxmemory", 0)
	if got := processes(f.gather(f.client, control.Ping)); !slices.Equal(got, []string{a.id()}) {
		t.Errorf("%q answered", got)
	}
	for _, id := range []string{"running", "delayed"} {
		if goesOn, err := c.Cancel(ctx, id, control.Timeout(daemontest.Soon)); err != nil || len(goesOn) > 0 {
			t.Errorf("cancelling %s: %v goes on, %v", id, goesOn, err)
		}
	}
	f.ok(c.PauseQueue(ctx, "work", control.For(time.Hour)))
	f.ok(c.PauseClass(ctx, "Laned"))
	f.ok(c.LimitClass(ctx, "Laned", "5/s", control.Key("0")))
	if rules, err := c.Rules(ctx); err != nil || len(rules) != 3 {
		t.Errorf("the rules are %+v, %v", rules, err)
	}
	f.ok(c.ResetClass(ctx, "Laned"))
	f.ok(c.ResumeClass(ctx, "Laned"))
	f.ok(c.ResumeQueue(ctx, "work"))
}

// A process that cannot reach Redis is named as silent, with the age of its lease, and the others' answers come before. One
// that leaves while the call waits is not waited for.
func TestSilentProcesses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	proxy := f.redis.StartProxy(t)
	live := f.start("live")
	stuck := f.start("stuck", func(s *goworker.WorkerSettings, _ *goworker.Daemon) { s.URI = "redis://" + proxy.Addr })
	var order []string
	release := func() {}
	redistest.Eventually(t, daemontest.Soon, "the live process answers in time", func() bool { // a busy machine may keep it from that
		release()
		order, release = nil, proxy.Hold()
		named := false
		for reply, err := range control.New(f.client).Inspect(t.Context(), control.Ping, control.Timeout(2*time.Second)) {
			order = append(order, reply.Process)
			if silent := new(control.SilentError); reply.Process == stuck.id() {
				named = errors.As(err, &silent) && silent.Age > 0 && !silent.Gone
			}
		}
		return named && slices.Equal(order, []string{live.id(), stuck.id()})
	})
	release()
	f.gather(f.client, control.Ping) // both renew their leases
	gone := false
	release = proxy.Hold()
	for reply, err := range control.New(f.client).Inspect(t.Context(), control.Ping, control.Timeout(daemontest.Soon)) {
		if reply.Process == live.id() { // the other one leaves now
			f.redis.Do(t, "ZREM", "resque:go:processes", stuck.id())
		} else if silent := new(control.SilentError); errors.As(err, &silent) {
			gone = silent.Gone && reply.Host != "" && reply.Name != ""
		}
	}
	if !gone {
		t.Error("a process that left is waited for")
	}
	release()
}

// A call passes over answers of processes that it has not asked, and keeps no more bytes of one that it has than all answers may have.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	asked, release := make(chan struct{}, 2), make(chan struct{})
	wait := func(_ *goworker.WorkerSettings, d *goworker.Daemon) {
		d.AddVerb(goworker.Verb{Name: "wait", Harmless: true, Do: func(context.Context, json.RawMessage) (any, error) {
			asked <- struct{}{}
			<-release
			return "done", nil
		}})
	}
	a, b := f.start("a", wait), f.start("b", wait)
	go func() {
		defer close(release)
		<-asked
		<-asked
		entry := f.redis.Do(t, "XREVRANGE", "resque:go:control", "+", "-", "COUNT", 1).([]any)[0].([]any)[1].([]any)
		c, err := wire.ParseCommand(entry[1].([]byte))
		if err != nil {
			t.Error(err)
		}
		key := "resque:go:reply:" + c.ID
		f.redis.Do(t, "XADD", key, "*", "p", "ghost", "n", 0, "l", 1, "b", `{"process":"ghost","body":1}`)
		for n := range 5 { // of 8 MiB each, and 32 are allowed
			f.redis.Do(t, "XADD", key, "*", "p", b.id(), "n", n, "l", "", "b", strings.Repeat("x", 8<<20))
		}
	}()
	r := f.gather(f.client, "wait")
	if got := processes(r); !slices.Equal(got, []string{a.id()}) || string(r.Replies[0].Body) != `"done"` {
		t.Errorf("%q answered", got)
	}
	if len(r.Refused) != 1 || r.Refused[0].Process != b.id() || !strings.Contains(r.Refused[0].Text, "larger than") {
		t.Errorf("an answer that is too large: %+v", r.Refused)
	}
}

// A verb of a program is refused or done by its level, and its panic is an answer.
func TestOwnVerbs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	a := f.start("a", func(_ *goworker.WorkerSettings, d *goworker.Daemon) {
		d.AddVerb(goworker.Verb{Name: "pool", Help: "Say how large the pool is", Harmless: true, Do: func(_ context.Context, args json.RawMessage) (any, error) {
			return map[string]json.RawMessage{"of": args}, nil
		}})
		d.AddVerb(goworker.Verb{Name: "panic", Harmless: true, Do: func(context.Context, json.RawMessage) (any, error) { panic("no pool") }})
		d.AddVerb(goworker.Verb{Name: "large", Harmless: true, Addressed: true, Do: func(context.Context, json.RawMessage) (any, error) {
			return strings.Repeat("x", 1<<20), nil
		}})
		d.AddVerb(goworker.Verb{Name: "harm", Do: func(context.Context, json.RawMessage) (any, error) { t.Error("harm was done"); return nil, nil }})
	})
	if r := f.gather(a, "pool", control.Args([]int{1})); len(r.Replies) != 1 || string(r.Replies[0].Body) != `{"of":[1]}` {
		t.Errorf("%+v", r)
	}
	if r := f.gather(a, "panic"); len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Text, "no pool") {
		t.Errorf("%+v", r)
	}
	if r := f.gather(a, "large"); len(r.Refused) != 1 {
		t.Error("a verb that needs an address has none")
	}
	if r := f.gather(a, "large", control.To("a")); len(r.Replies) != 1 || len(r.Replies[0].Body) != 1<<20+2 {
		t.Error("an answer of many pieces does not arrive whole")
	}
	if r := f.gather(a, "harm"); len(r.Refused) != 1 {
		t.Error("a verb of the level full is done at the level on")
	}
	var verbs []control.VerbAnswer
	if r := f.gather(a, control.Verbs); len(r.Replies) != 1 || r.Replies[0].Decode(&verbs) != nil {
		t.Fatalf("%+v", r)
	}
	listed := make(map[string]control.VerbAnswer)
	for _, v := range verbs {
		listed[v.Name] = v
	}
	for _, want := range []control.VerbAnswer{
		{Name: "harm", Level: "full"}, {Name: "pool", Help: "Say how large the pool is", Level: "on"}, {Name: "large", Level: "on", Addressed: true},
		{Name: control.Verbs, Help: listed[control.Verbs].Help, Level: "on"}, {Name: control.Shutdown, Help: "Stop as after a signal", Level: "full"},
	} {
		if listed[want.Name] != want {
			t.Errorf("listed is %+v and not %+v", listed[want.Name], want)
		}
	}
}

// The level full needs a key, and obeys what is signed with it, for this namespace, once, and for processes that were there.
func TestFull(t *testing.T) {
	t.Parallel()
	f := setup(t)
	file := keyFile(t, strings.Repeat("k", 32))
	done := make(chan struct{}, 10)
	full := func(s *goworker.WorkerSettings, d *goworker.Daemon) {
		s.Control, s.ControlKeyFile = goworker.ControlFull, file
		d.AddVerb(goworker.Verb{Name: "harm", Do: func(context.Context, json.RawMessage) (any, error) {
			done <- struct{}{}
			return nil, nil
		}})
	}
	for what, s := range map[string]goworker.WorkerSettings{
		"without a key":    {},
		"with a short one": {ControlKeyFile: keyFile(t, "short")},
		"without its file": {ControlKeyFile: file + "x"},
	} {
		s.Control, s.QueuesString, s.AllowNoHandlers, s.URI = goworker.ControlFull, "work", true, f.redis.URI()
		d := goworker.New(s)
		if err := d.Run(t.Context()); err == nil {
			t.Errorf("%s it starts", what)
		}
		d.Close()
	}
	a := f.start("a", full)
	ask := func(opts ...control.Option) control.Result {
		t.Helper()
		r, err := control.Gather(control.New(f.client, opts...).Do(t.Context(), "harm", control.Timeout(daemontest.Soon)))
		if err != nil {
			t.Error(err)
		}
		return r
	}
	if r := ask(); len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Text, "not signed") {
		t.Errorf("without a signature: %+v", r)
	}
	if r := ask(control.KeyFile(keyFile(t, strings.Repeat("l", 32)))); len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Text, "not signed with the key of this process") {
		t.Errorf("with another key: %+v", r)
	}
	if r := ask(control.KeyFile(file)); len(r.Replies) != 1 || len(done) != 1 {
		t.Errorf("signed: %+v, done %d times", r, len(done))
	}
	if audit := f.redis.List(t, "LRANGE", "resque:go:audit", 0, 0); len(audit) != 1 || !strings.Contains(audit[0], "Control harm") {
		t.Errorf("the audit has %q", audit)
	}
	// It is copied: to the same process, and for one that starts later.
	signed := f.redis.Do(t, "XREVRANGE", "resque:go:control", "+", "-", "COUNT", 1)
	entry := signed.([]any)[0].([]any)[1].([]any)
	f.announce(entry)
	if r := f.gather(f.client, control.Ping); len(r.Replies) != 1 || len(done) != 1 {
		t.Errorf("a copied command is obeyed, %d times in all", len(done))
	}
	b := f.start("b", full)
	f.announce(entry)
	if r := f.gather(f.client, control.Ping); len(r.Replies) != 2 || len(done) != 1 {
		t.Errorf("a copied command is obeyed by a process that came later, %d times in all", len(done))
	}
	if err := errors.Join(a.stop(), b.stop()); err != nil {
		t.Error(err)
	}
	f.start("a", full) // restarted
	f.start("b", full)
	f.announce(entry)
	if r := f.gather(f.client, control.Ping); len(r.Replies) != 2 || len(done) != 1 {
		t.Errorf("a copied command is obeyed by a process that was restarted, %d times in all", len(done))
	}

	// It is valid for too long, over, of another namespace, or no command at all.
	s, c := wire.New(resque.New("")), f.redis.Dial(t)
	key, now := []byte(strings.Repeat("k", 32)), time.Now()
	for what, forged := range map[string]struct {
		at, until time.Duration
		by        wire.Store
	}{
		"for long":             {0, time.Minute, s},
		"over":                 {0, time.Millisecond, s},
		"of another namespace": {0, 10 * time.Second, wire.New(resque.New("other"))},
	} {
		message, err := wire.Command{ID: wire.NewID(), Verb: "harm", At: now.Add(forged.at).UnixMilli(), Until: now.Add(forged.until).UnixMilli()}.Encode()
		if what == "over" { // by more than the process may be wrong about Redis's time
			redistest.Eventually(t, daemontest.Soon, "it is over for long", func() bool { return time.Since(now) > 3*time.Second })
		}
		if err == nil {
			_, err = s.Announce(c, wire.Announcement{Message: message, Signature: forged.by.Sign(key, message)})
		}
		if err != nil {
			t.Fatal(err)
		}
		if r := f.gather(f.client, control.Ping); len(r.Replies) != 2 || len(done) != 1 {
			t.Errorf("%s: obeyed", what)
		}
	}
	for _, text := range []string{"", "{", "null", `{"id":"../../x","verb":"harm"}`, `{"v":9,"id":"00000000000000000000000000000000"}`} {
		if _, err := s.Announce(c, wire.Announcement{Message: []byte(text), Signature: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if r := f.gather(f.client, control.Ping); len(r.Replies) != 2 || len(done) != 1 {
		t.Error("what is no command is obeyed, or keeps the next one from being read")
	}

	// A program that accepts the risk needs no signature.
	f.start("unsigned", full, func(s *goworker.WorkerSettings, _ *goworker.Daemon) { s.ControlKeyFile, s.ControlUnsigned = "", true })
	if r := f.gather(f.client, "harm", control.To("unsigned")); len(r.Replies) != 1 || len(done) != 2 {
		t.Errorf("a process with -control-unsigned: %+v", r)
	}
}

// announce writes an entry into the stream again and has processes hear of it.
func (f *fleet) announce(entry []any) {
	f.Helper()
	id := f.redis.Text(f.T, "XADD", append([]any{"resque:go:control", "*"}, entry...)...)
	f.redis.Do(f.T, "HSET", "resque:go:notice", "command", id)
	f.redis.Do(f.T, "PUBLISH", "resque:go:notice", "command")
}

// A process answers questions about itself, and obeys the verbs that change itself.
func TestVerbs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	file := keyFile(t, strings.Repeat("k", 32))
	running, release, ready := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a := f.start("a", func(s *goworker.WorkerSettings, d *goworker.Daemon) {
		s.Logger, s.LogLevel, s.Control, s.ControlKeyFile = nil, "error", goworker.ControlFull, file
		d.Register("Nap", func(string, ...any) error { close(running); <-release; return nil })
		d.AddPart(goworker.Part{Name: "odd", Requires: []string{"poller"}, Info: func() any { return running }}) // JSON has no word for it
		d.OnReady(func() { close(ready) })
	})
	if _, err := f.client.Enqueue(t.Context(), goworker.NewJob("work", "Nap", "secret"), goworker.WithID("one")); err != nil {
		t.Fatal(err)
	}
	<-running
	<-ready
	c := control.New(f.client, control.KeyFile(file))
	ask := func(verb string, opts ...control.CallOption) string {
		t.Helper()
		opts = append(opts, control.To("a"), control.Timeout(daemontest.Soon))
		r, err := control.Gather(c.Do(t.Context(), verb, opts...))
		if err != nil || len(r.Replies)+len(r.Refused) != 1 {
			t.Fatalf("%s: %+v, %v", verb, r, err)
		}
		if len(r.Refused) == 1 {
			return r.Refused[0].Text
		}
		return string(r.Replies[0].Body)
	}
	for _, want := range []struct {
		verb  string
		args  any
		parts []string
	}{
		{"ping", nil, []string{`"busy":1`, `"workers":1`}},
		{"stats", nil, []string{`"up_seconds":`, `"heap_bytes":`, `"since_renewal_seconds":`, `"exchanges":`, `"p95_seconds":`, `"classes":{`}},
		{"active", nil, []string{`"class":"Nap"`, `"id":"one"`, `"ticket":`, `"for_seconds":`}},
		{"active", map[string]bool{"args": true}, []string{`"args":["secret"]`}},
		{"active", map[string]bool{"arg": true}, []string{"the arguments are wrong"}},
		{"reserved", nil, []string{`[]`}},
		{"registered", nil, []string{`"name":"Nap"`}},
		{"conf", nil, []string{`{"name":"Concurrency","value":"1","default":false,"source":"program"}`, `{"name":"Name","value":"a","default":false,"source":"program"}`}},
		{"queues", nil, []string{`"queues":"work"`, `"ready":true`}},
		{"report", nil, []string{`"name":"lease","state":"running"`, `"info":"renewed `, `"name":"odd","state":"running"`, `"requires":["poller"]`, `"info":"0x`, `"go":"go`, `"heap_bytes":`, `"rtt_seconds":`, `"queues":"work","order":"strict","concurrency":"1","ready":true`}},
		{"stacks", nil, []string{"TestVerbs", `"goroutines":`}},
		{"stacks", nil, []string{"a moment ago"}},
		{"log", map[string]any{"level": "debug", "for": 60}, []string{`"level":"debug","was":"error"`}},
		{"log", map[string]any{"level": "debug", "for": 7200}, []string{"at most"}},
		{"log", map[string]any{"level": "loud"}, []string{"must be debug"}},
		{"pause", nil, []string{`"ready":false`}},
		{"resume", nil, []string{`"ready":true`}},
	} {
		if got := ask(want.verb, control.Args(want.args)); slices.ContainsFunc(want.parts, func(part string) bool { return !strings.Contains(got, part) }) {
			if want.verb == "pause" || want.verb == "resume" { // the poller may not have turned yet
				ready := want.verb == "resume"
				redistest.Eventually(t, daemontest.Soon, want.verb, func() bool { return a.Health().Ready == ready })
				continue
			}
			if want.verb == "report" || want.verb == "stacks" { // a part may be late with what it says of itself, and a moment may be over
				redistest.Eventually(t, daemontest.Soon, want.verb, func() bool {
					got = ask(want.verb)
					return !slices.ContainsFunc(want.parts, func(part string) bool { return !strings.Contains(got, part) })
				})
				continue
			}
			t.Errorf("%s %v answers %s, without one of %q", want.verb, want.args, got, want.parts)
		}
	}
	ask("pause")
	redistest.Eventually(t, daemontest.Soon, "the pause of an operator is a reason", func() bool {
		h := a.Health()
		return h.PausedByOperator && len(h.Reasons) == 1 && strings.Contains(h.Reasons[0], "an operator has paused this process")
	})
	ask("resume")
	a.Pause()
	redistest.Eventually(t, daemontest.Soon, "the program's pause", func() bool { return !a.Health().Ready })
	ask("pause")
	redistest.Eventually(t, daemontest.Soon, "the operator's pause beside it, each with its own remedy", func() bool {
		h := a.Health()
		why := strings.Join(h.Reasons, "\n")
		return h.PausedByProgram && h.PausedByOperator && strings.Contains(why, "call Resume, or send CONT") && strings.Contains(why, "run goworker control resume --self")
	})
	ask("resume")
	redistest.Eventually(t, daemontest.Soon, "the operator's pause ends", func() bool { return !a.Health().PausedByOperator })
	if got := ask("queues"); a.Health().Ready || !a.Health().PausedByProgram || !strings.Contains(got, `"ready":false`) {
		t.Errorf("resume has ended the program's own pause: %s", got)
	}
	a.Resume()
	close(release)
	ask("shutdown")
	if err := <-a.ended; err != nil {
		t.Errorf("a shutdown ends the run with %v", err)
	}
	a.over = true
}

// The concurrency goes back by itself to what it was before all timed changes, and not once it was changed for good.
func TestConcurrencyGoesBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	a := f.start("a", func(s *goworker.WorkerSettings, _ *goworker.Daemon) { s.Concurrency = 5 })
	change := func(workers string, seconds float64, want string) {
		t.Helper()
		r, err := control.Gather(control.New(f.client).Do(t.Context(), control.Concurrency, control.Args(map[string]any{"workers": workers, "for": seconds}), control.Timeout(daemontest.Soon)))
		if err != nil || len(r.Replies) != 1 || !strings.Contains(string(r.Replies[0].Body), want) {
			t.Fatalf("%s: %+v, %v", workers, r, err)
		}
	}
	is := func(n int) func() bool { return func() bool { return a.Stats().Workers == n } }
	change("3", 3600, `"from":5,"to":3,"settings":5,"for":3600`)
	change("-1", 0.5, `"from":3,"to":2`)
	redistest.Eventually(t, daemontest.Soon, "it goes back", is(5))
	change("3", 3600, `"to":3`)
	change("4", 0, `"to":4`)
	change("1", 0.5, `"from":4,"to":1`)
	redistest.Eventually(t, daemontest.Soon, "it goes back to what was to stay", is(4))
}

// A command that is not signed makes no log quieter than the settings do.
func TestLogIsNotSilenced(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.start("a", func(s *goworker.WorkerSettings, _ *goworker.Daemon) { s.Logger, s.LogLevel = nil, "warn" })
	for level, refused := range map[string]int{"error": 1, "debug": 0} {
		r, err := control.Gather(control.New(f.client).Do(t.Context(), "log", control.Args(map[string]string{"level": level}), control.Timeout(daemontest.Soon)))
		if err != nil || len(r.Refused) != refused || len(r.Replies) != 1-refused {
			t.Errorf("%s: %+v, %v", level, r, err)
		}
	}
}

// The user of docs/redis.md who asks may ask, and may not push a job. A change that this user wants is not announced, because the audit
// cannot have its line.
func TestAskersUser(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	f := setup(t)
	a := f.start("a", func(_ *goworker.WorkerSettings, d *goworker.Daemon) {
		d.AddVerb(goworker.Verb{Name: "change", Harmless: true, Do: func(context.Context, json.RawMessage) (any, error) { t.Error("it is done"); return nil, nil }})
	})
	rules := redistest.ACL(t, "asker")
	args := []any{"SETUSER"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	f.redis.Do(t, "ACL", args...)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://asker:" + redistest.ACLPassword + "@" + f.redis.Addr, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if got := processes(f.gather(client, control.Ping)); !slices.Equal(got, []string{a.id()}) {
		t.Errorf("%q answered", got)
	}
	if _, err := client.Enqueue(t.Context(), goworker.NewJob("work", "Harm")); err == nil {
		t.Error("the user who asks can enqueue")
	}
	announced := f.redis.Int(t, "XLEN", "resque:go:control")
	if _, err := control.Gather(control.New(client).Do(t.Context(), "change")); err == nil || !strings.Contains(err.Error(), "lacks a permission") {
		t.Errorf("a change without its line of the audit: %v", err)
	}
	if n := f.redis.Int(t, "XLEN", "resque:go:control"); n != announced {
		t.Errorf("%d commands more are announced", n-announced)
	}
}

// A command that is not signed has a process run no more jobs than its settings say, and work no other queues.
func TestChangesNeedTheirLevel(t *testing.T) {
	t.Parallel()
	f := setup(t)
	a := f.start("a", func(s *goworker.WorkerSettings, _ *goworker.Daemon) { s.Concurrency = 2 })
	for _, c := range []struct {
		verb    string
		args    any
		refused int
	}{
		{control.Concurrency, map[string]string{"workers": "3"}, 1},
		{control.Concurrency, map[string]string{"workers": "1"}, 0},
		{control.Concurrency, map[string]string{"workers": "+1"}, 0},
		{control.WorkQueues, map[string][]string{"add": {"mail"}}, 1},
		{control.WorkQueues, map[string][]string{"remove": {"work"}}, 1},
		{control.WorkQueues, map[string][]string{"set": {"mail"}}, 1},
	} {
		r := f.gather(a, c.verb, control.Args(c.args))
		if len(r.Refused) != c.refused || len(r.Replies) != 1-c.refused {
			t.Errorf("%s %v: %+v", c.verb, c.args, r)
		}
		for _, e := range r.Refused { // it says what the process has, what the verb needs, and what there is to do
			for _, part := range []string{"the verb " + c.verb + " needs the level full", "the process has -control=on", "-control=full and -control-key-file"} {
				if !strings.Contains(e.Text, part) {
					t.Errorf("%s %v: the refusal does not say %q: %s", c.verb, c.args, part, e.Text)
				}
			}
		}
	}
	var queues control.QueuesAnswer
	if r := f.gather(a, control.Queues); len(r.Replies) != 1 || r.Replies[0].Decode(&queues) != nil || queues.Queues != "work" {
		t.Errorf("%+v", r)
	}
}
