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
	p := &process{T: t, dials: dials{server: redistest.Start(t)}}
	log := slog.New(slog.DiscardHandler)
	b := part.Base{Log: log, Outages: logging.NewOutages(log, c), Clock: c, Store: resque.New(""), Dialer: &p.dials}
	config.Now, config.Process = time.Now, func() resque.Process { return resque.Process{ID: "a"} }
	config.Level, config.Common = max(config.Level, On), NewCommon(c, nil, 1)
	p.Control, p.asker = New(b, config), p.dials.server.Dial(t)
	p.Add(Verb{Name: "ping", Do: func(context.Context, *Call) (any, error) { return "pong", nil }})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	redistest.Eventually(t, soon, "the process is older than the commands", func() bool { return p.age() > 10*time.Millisecond })
	return p
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
	message, err := c.Encode()
	if err == nil {
		_, err = p.store.Announce(p.asker, control.Announcement{Message: message})
	}
	if err != nil {
		p.Fatal(err)
	}
	return c.ID
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
	for n := int64(1); n <= 2; n++ {
		if all := p.dials.all.Load(); all != n-1 {
			t.Errorf("%d connections without a command", all-n+1)
		}
		p.answered(p.announce("ping"))
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
	p := start(t, clock.System, Config{Level: Full, Key: key})
	ends := make(chan time.Time, 1)
	p.Add(Verb{Name: "end", Level: Full, Do: func(ctx context.Context, _ *Call) (any, error) {
		end, _ := ctx.Deadline()
		ends <- end
		return nil, nil
	}})
	now := time.Now()
	c := control.Command{ID: control.NewID(), Verb: "end", At: now.UnixMilli(), Until: now.Add(control.FullLives).UnixMilli(), Wait: soon.Milliseconds()}
	message, err := c.Encode()
	if err == nil {
		_, err = p.store.Announce(p.asker, control.Announcement{Message: message, Signature: p.store.Sign(key, message)})
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Noticed(control.CommandNotice)
	if r := p.answered(c.ID); r.Error != "" {
		t.Fatal(r.Error)
	}
	if end := <-ends; end.Before(now.Add(control.FullLives + time.Second)) {
		t.Errorf("its context ends %s after the command was made, and the caller waits %s", end.Sub(now), soon)
	}
}
