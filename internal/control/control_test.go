package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// soon is long for what happens at once.
const soon = time.Minute

// hurried is a clock whose timers end after a fiftieth of their time, as its Now says.
type hurried struct {
	clock.Clock
	began time.Time
}

const hurry = 50

func (h hurried) Now() time.Time { return h.began.Add(hurry * time.Since(h.began)) }

func (h hurried) NewTimer(d time.Duration) clock.Timer {
	return hurriedTimer{h.Clock.NewTimer(d / hurry)}
}

type hurriedTimer struct{ clock.Timer }

func (t hurriedTimer) Reset(d time.Duration) bool { return t.Timer.Reset(d / hurry) }

// dials are the connections of a part.
type dials struct {
	server     *redistest.Server
	all, still atomic.Int64
}

type dialed struct {
	redis.ConnWithTimeout
	shut func()
}

func (d dialed) Close() error {
	d.shut()
	return d.ConnWithTimeout.Close()
}

func (d *dials) Dial(ctx context.Context) (redis.Conn, error) {
	c, err := redis.DialContext(ctx, "tcp", d.server.Addr)
	if err != nil {
		return nil, err
	}
	d.all.Add(1)
	d.still.Add(1)
	return dialed{c.(redis.ConnWithTimeout), sync.OnceFunc(func() { d.still.Add(-1) })}, nil
}

// process is a Control without its daemon.
type process struct {
	*testing.T
	*Control
	dials dials
	asker redis.Conn
}

func start(t *testing.T, c clock.Clock, config Config) *process {
	t.Helper()
	p := idle(t, c, config)
	p.run()
	return p
}

// idle makes a process that run starts.
func idle(t *testing.T, c clock.Clock, config Config) *process {
	t.Helper()
	p := &process{T: t, dials: dials{server: redistest.Start(t)}}
	log := slog.New(slog.DiscardHandler)
	b := part.Base{Log: log, Outages: logging.NewOutages(log, c), Clock: c, Store: resque.New(""), Dialer: &p.dials}
	joined := time.Now()
	config.Now, config.Since = time.Now, func() time.Time { return joined }
	config.Process = func() resque.Process { return resque.Process{ID: "a"} }
	config.Level, config.Common = max(config.Level, On), NewCommon(c, nil, 1)
	p.Control, p.asker = New(b, config), p.dials.server.Dial(t)
	p.Add(Verb{Name: "ping", Do: func(context.Context, *Call) (any, error) { return "pong", nil }})
	return p
}

func (p *process) run() {
	p.Helper()
	if err := p.Start(p.Context()); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = p.Stop(context.Background()) })
}

// announce writes a command, and has the process hear of it.
func (p *process) announce(verb string) (id string) {
	p.Helper()
	id = p.write(verb)
	p.Noticed(control.CommandNotice)
	return id
}

func (p *process) write(verb string) (id string) {
	p.Helper()
	now := time.Now()
	c := control.Command{ID: control.NewID(), Verb: verb, At: now.UnixMilli(), Until: now.Add(soon).UnixMilli()}
	p.put(c, nil)
	return c.ID
}

// put writes a command, signed where there is a key.
func (p *process) put(c control.Command, key []byte) {
	p.Helper()
	message, err := c.Encode()
	if err == nil {
		a := control.Announcement{Message: message}
		if key != nil {
			a.Signature = p.store.Sign(key, message)
		}
		_, err = p.store.Announce(p.asker, a)
	}
	if err != nil {
		p.Fatal(err)
	}
}

// answered waits for the answer to a command.
func (p *process) answered(id string) (r control.Reply) {
	p.Helper()
	redistest.Eventually(p.T, soon, "an answer to "+id, func() bool {
		pieces, err := p.store.ReadAnswers(p.asker, id, "0", time.Second)
		if err != nil {
			p.Fatal(err)
		}
		return len(pieces) == 1 && json.Unmarshal(pieces[0].Bytes, &r) == nil
	})
	return r
}

// The connection is dialed for a command, and closed ten seconds after the last one.
func TestConnectionCloses(t *testing.T) {
	t.Parallel()
	p := start(t, hurried{clock.System, time.Now()}, Config{})
	if n := p.dials.all.Load(); n > 0 {
		t.Errorf("%d connections without a command", n)
	}
	for range 2 {
		before := p.dials.all.Load() // on a busy machine a command may have had two, since ten seconds are short here
		p.answered(p.announce("ping"))
		if p.dials.all.Load() == before {
			t.Error("a command needed no connection")
		}
		redistest.Eventually(t, soon, "the connection is closed", func() bool { return p.dials.still.Load() == 0 })
	}
}

// A command is read although Redis refuses the answer to the one before, and so are the answers behind it sent.
func TestRefusedAnswer(t *testing.T) {
	t.Parallel()
	p := start(t, clock.System, Config{})
	bad, good := control.NewID(), control.NewID()
	if _, err := p.asker.Do("SET", p.store.ReplyKey(bad).String(), "text"); err != nil {
		t.Fatal(err)
	}
	read := p.write("ping")
	ran, until := make(chan struct{}), time.Now().Add(soon).UnixMilli()
	p.mu.Lock()
	p.answers = []answer{
		{id: bad, until: until, reply: control.Reply{Process: "a"}, after: []func(){func() { close(ran) }}},
		{id: good, until: until, reply: control.Reply{Process: "a"}},
	}
	p.mu.Unlock()
	p.Noticed(control.CommandNotice)
	<-ran
	p.answered(good)
	p.answered(read)
}

// A notice that names an old command, in a stream of as many commands as are read at a time, does not keep the part reading.
func TestForgedNotice(t *testing.T) {
	t.Parallel()
	p := start(t, clock.System, Config{})
	for range control.MostRead - 1 {
		p.write("none")
	}
	last := p.write("ping")
	if _, err := p.asker.Do("HSET", p.store.NoticeKey().String(), control.CommandNotice, "1-1"); err != nil {
		t.Fatal(err)
	}
	p.Noticed(control.CommandNotice)
	p.answered(last)
}

// A verb that is under way when the process stops sees the end of its context.
func TestStopEndsVerbs(t *testing.T) {
	t.Parallel()
	p := start(t, clock.System, Config{})
	begun, ended := make(chan struct{}), make(chan struct{})
	p.Add(Verb{Name: "wait", Do: func(ctx context.Context, _ *Call) (any, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}})
	p.announce("wait")
	<-begun
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	<-ended
}

// A signed command is valid for half a minute, and what it has begun goes on as long as its caller waits.
func TestCallerWaits(t *testing.T) {
	t.Parallel()
	key := []byte("a key of thirty-two bytes or more")
	p := start(t, clock.System, Config{Level: Full, Key: func() ([]byte, error) { return key, nil }})
	ends := make(chan time.Time, 1)
	p.Add(Verb{Name: "end", Level: Full, Do: func(ctx context.Context, _ *Call) (any, error) {
		end, _ := ctx.Deadline()
		ends <- end
		return nil, nil
	}})
	now := time.Now()
	c := control.Command{ID: control.NewID(), Verb: "end", At: now.UnixMilli(), Until: now.Add(control.FullLives).UnixMilli(), Wait: soon.Milliseconds()}
	p.put(c, key)
	p.Noticed(control.CommandNotice)
	if r := p.answered(c.ID); r.Error != "" {
		t.Fatal(r.Error)
	}
	if end := <-ends; end.Before(now.Add(control.FullLives + time.Second)) {
		t.Errorf("its context ends %s after the command was made, and the caller waits %s", end.Sub(now), soon)
	}
}

// A process obeys a command that was made in the millisecond in which it joined the fleet, and none that was made before: such a command was
// for the process whose place it has taken.
func TestNewProcess(t *testing.T) {
	t.Parallel()
	p := start(t, clock.System, Config{})
	ran := make(chan string, 10)
	p.Add(Verb{Name: "run", Do: func(_ context.Context, c *Call) (any, error) { ran <- c.ID; return nil, nil }})
	joined := p.config.Since()
	until := joined.Add(soon).UnixMilli()
	before := control.Command{ID: control.NewID(), Verb: "run", At: joined.UnixMilli() - 1, Until: until}
	at := control.Command{ID: control.NewID(), Verb: "run", At: joined.UnixMilli(), Until: until}
	p.put(before, nil)
	p.put(at, nil)
	p.Noticed(control.CommandNotice)
	p.answered(at.ID)
	if id := <-ran; id != at.ID || len(ran) > 0 {
		t.Errorf("command %s was done, and %d more; %s was made when it joined", id, len(ran), at.ID)
	}
}

// However many commands without a signature there are, a process has room for one that is signed.
func TestRoomForSigned(t *testing.T) {
	t.Parallel()
	key := []byte("a key of thirty-two bytes or more")
	p := idle(t, clock.System, Config{Level: Full, Key: func() ([]byte, error) { return key, nil }})
	release := make(chan struct{})
	defer close(release)
	var begun sync.WaitGroup
	begun.Add(mostAtOnce)
	p.Add(Verb{Name: "wait", Do: func(context.Context, *Call) (any, error) { begun.Done(); <-release; return nil, nil }})
	now := time.Now()
	for range mostDone - mostAtOnce - 1 {
		p.unsigned.first(control.NewID(), now.Add(soon).UnixMilli(), now.UnixMilli())
	}
	p.run()
	for range mostAtOnce {
		p.announce("wait")
	}
	begun.Wait()
	for what, id := range map[string]string{"more at a time": p.announce("ping"), "more ids": p.announce("ping")} {
		if r := p.answered(id); r.Error != errBusy.Error() {
			t.Errorf("%s without a signature: %q", what, r.Error)
		}
	}
	c := control.Command{ID: control.NewID(), Verb: "ping", At: now.UnixMilli(), Until: now.Add(control.FullLives).UnixMilli()}
	p.put(c, key)
	p.Noticed(control.CommandNotice)
	if r := p.answered(c.ID); r.Error != "" {
		t.Errorf("a signed command is refused: %s", r.Error)
	}
}
