package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
	"github.com/goworker/goworker/internal/tokens"
)

// bundle is a Redis with its tokens.
type bundle struct {
	testing.TB
	redis *redistest.Server
	book  *tokens.Book
	said  *syncText

	untracked bool // rings do not ask for notifications
}

func setup(t testing.TB, args ...string) *bundle {
	t.Helper()
	b := &bundle{TB: t, redis: redistest.Start(t, args...), said: new(syncText)}
	b.book = &tokens.Book{Do: b.do(b.redis.URI()), Clock: clock.System, Who: "ada"}
	return b
}

// syncText is what was logged.
type syncText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *syncText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *syncText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (b *bundle) base(uri string) part.Base {
	b.Helper()
	log := slog.New(slog.NewTextHandler(b.said, nil))
	dialer, err := conn.NewDialer(context.Background(), conn.Config{URI: uri, ConnectTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return part.Base{Log: log, Outages: logging.NewOutages(log, clock.System), Store: resque.New(""), Dialer: dialer, Clock: clock.System}
}

func (b *bundle) do(uri string) tokens.Do {
	base := b.base(uri)
	return func(ctx context.Context, f func(resque.Store, redis.Conn) error) error {
		c, err := base.Dialer.Dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return f(base.Store, c)
	}
}

// ring starts a server's ring on a way to Redis.
func (b *bundle) ring(uri string) *tokens.Ring {
	b.Helper()
	r := tokens.NewRing(b.base(uri), b.do(uri), !b.untracked)
	r.Start(b.Context())
	b.Cleanup(func() { r.Stop(context.Background()) })
	return r
}

func (b *bundle) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// make makes a token of the namespace shop.
func (b *bundle) make(change ...func(*tokens.Record)) (token string, e *tokens.Entry) {
	b.Helper()
	record := tokens.Record{Namespace: "shop", Description: "the shop's"}
	for _, f := range change {
		f(&record)
	}
	token, e, err := b.book.Create(b.Context(), record, "")
	b.must(err)
	return token, e
}

// find looks for a token, again and again while Redis takes too long to answer, as on a busy machine.
func (b *bundle) find(r *tokens.Ring, token string) (found *tokens.Token, err error) {
	redistest.Eventually(b, 2*time.Minute, "Redis answers", func() bool {
		found, err = b.look(r, token)
		return !errors.As(err, new(*tokens.AwayError))
	})
	return found, err
}

func (b *bundle) look(r *tokens.Ring, token string) (*tokens.Token, error) {
	return r.Find(b.Context(), tokens.Digest("", "shop", token))
}

func (b *bundle) eventually(what string, f func() bool) {
	b.Helper()
	redistest.Eventually(b, 20*time.Second, what, f)
}

func TestCreate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, e := b.make()
	if len(token) != 32 {
		t.Errorf("the token %q has %d characters, want 160 bits in 32", token, len(token))
	}
	another, _ := b.make()
	if another == token {
		t.Error("two tokens are the same")
	}
	for _, text := range append(b.redis.List(t, "HVALS", "resque:go:http:tokens"), b.redis.List(t, "HKEYS", "resque:go:http:tokens")...) {
		if strings.Contains(text, token) {
			t.Errorf("Redis keeps the token: %s", text)
		}
	}
	own := "my-own-token-of-20-chars"
	given, _, err := b.book.Create(t.Context(), tokens.Record{Namespace: "shop", Pool: "east"}, own)
	if b.must(err); given != "east:"+own {
		t.Errorf("the token of a pool is %q", given)
	}
	if _, _, err := b.book.Create(t.Context(), tokens.Record{Namespace: "shop", Pool: "east"}, own); !errors.Is(err, tokens.ErrExists) {
		t.Errorf("the same token again: %v", err)
	}
	_, _, err = b.book.Create(t.Context(), tokens.Record{Namespace: "blog", Pool: "east"}, own)
	b.must(err) // one own token may serve two namespaces
	for _, tt := range []struct {
		token  string
		record tokens.Record
		want   string
	}{
		{"short", tokens.Record{Namespace: "shop"}, "too short"},
		{strings.Repeat("x", 256), tokens.Record{Namespace: "shop"}, "20 to 255"},
		{"a colon: is for the pool", tokens.Record{Namespace: "shop"}, "no colon"},
		{"", tokens.Record{}, "namespace"},
		{"", tokens.Record{Namespace: "shop", Scopes: []string{"fly"}}, `"fly" is no scope`},
		{"", tokens.Record{Namespace: "shop", Limits: &tokens.Limits{Read: 1}}, "interval should be > 0"},
	} {
		if _, _, err := b.book.Create(t.Context(), tt.record, tt.token); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q, %+v: %v, want %q", tt.token, tt.record, err, tt.want)
		}
	}
	b.must(b.book.Import(t.Context(), tokens.Record{Namespace: "old"}, "short"))
	all, err := b.book.List(t.Context(), "", "shop")
	b.must(err)
	if len(all) != 3 || all[0].Digest != e.Digest {
		t.Errorf("the list of shop is %+v", all)
	}
	var audit []string
	for _, row := range b.redis.List(t, "LRANGE", "resque:go:audit", 0, -1) {
		audit = append(audit, row)
		if strings.Contains(row, token) || strings.Contains(row, own) {
			t.Errorf("the audit has a token: %s", row)
		}
	}
	if len(audit) != 5 || !strings.Contains(audit[4], `"what":"CreateToken","on":"`+e.ID()+` of shop"`) {
		t.Errorf("the audit is %q", audit)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ring(b.redis.URI())
	token, _ := b.make(func(r *tokens.Record) {
		r.Scopes, r.Queues = []string{"publish", "peek"}, []string{"mail", "img-*"}
	})
	found, err := b.find(r, token)
	b.must(err)
	record := found.Record()
	for scope, want := range map[tokens.Scope]bool{
		tokens.Publish: true, tokens.Peek: true, tokens.Publish | tokens.Peek: true, tokens.Consume: false, tokens.Ack: false, tokens.Admin: false, tokens.All: false, 0: true,
	} {
		if record.Permits(scope) != want {
			t.Errorf("it permits %q: %v", scope, !want)
		}
	}
	for queue, want := range map[string]bool{"mail": true, "img-1": true, "img": false, "mail2": false, "": false} {
		if record.Sees(queue) != want {
			t.Errorf("it sees %q: %v", queue, !want)
		}
	}
	all, _ := b.make()
	found, err = b.find(r, all)
	if b.must(err); !found.Record().Permits(tokens.All) || !found.Record().Sees("any") {
		t.Error("a token without scopes and queues has not all of them")
	}
}

// A revoked token is refused by every server, and what waits under it ends: with tracking, and without.
func TestRevoke(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"tracking": nil, "refused": {"--rename-command", "CLIENT", "NOCLIENT"}, "turned off": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, args...)
			b.untracked = name == "turned off"
			one, two := b.ring(b.redis.URI()), b.ring(b.redis.URI())
			token, e := b.make()
			kept, _ := b.make()
			var waits []context.Context
			for _, r := range []*tokens.Ring{one, two} {
				found, err := b.find(r, token)
				b.must(err)
				ctx, done := found.While(t.Context())
				defer done()
				waits = append(waits, ctx)
			}
			b.must(b.book.Revoke(t.Context(), e))
			for i, r := range []*tokens.Ring{one, two} {
				b.eventually("the token is refused", func() bool {
					_, err := b.find(r, token)
					return errors.Is(err, tokens.ErrUnknown)
				})
				<-waits[i].Done()
				if !errors.Is(context.Cause(waits[i]), tokens.ErrRevoked) {
					t.Errorf("the wait ended by %v", context.Cause(waits[i]))
				}
				_, err := b.find(r, kept)
				b.must(err)
			}
			if err := b.book.Revoke(t.Context(), e); !errors.Is(err, tokens.ErrChanged) {
				t.Errorf("revoked again: %v", err)
			}
			if text := b.said.String(); strings.Contains(text, token) || strings.Contains(text, e.Digest) {
				t.Errorf("the log has the token:\n%s", text)
			}
		})
	}
}

// slow is a connection whose answers come when they may.
type slow struct {
	redis.Conn
	read, may chan struct{}
}

func (c *slow) Do(command string, args ...any) (any, error) {
	reply, err := c.Conn.Do(command, args...)
	close(c.read)
	<-c.may
	return reply, err
}

// Of two looks at the tokens that overlap, the one that began later holds: a token that was revoked stays so.
func TestOverlap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, e := b.make()
	c, next := &slow{b.redis.Dial(t), make(chan struct{}), make(chan struct{})}, redis.Conn(nil)
	var mu sync.Mutex
	r := tokens.NewRing(b.base(b.redis.URI()), func(_ context.Context, f func(resque.Store, redis.Conn) error) error {
		mu.Lock()
		c := next
		mu.Unlock()
		return f(resque.New(""), c)
	}, false)
	use := func(c redis.Conn) { mu.Lock(); defer mu.Unlock(); next = c }
	use(c)
	late := make(chan error)
	go func() { late <- r.Reload(t.Context()) }()
	<-c.read
	use(b.redis.Dial(t))
	b.must(b.book.Revoke(t.Context(), e))
	b.must(r.Reload(t.Context()))
	close(c.may)
	b.must(<-late)
	if all := r.Tokens(); len(all) != 0 {
		t.Errorf("%d tokens are valid", len(all))
	}
}

// gated is a connection that waits before it reads all tokens, and after it.
type gated struct {
	redis.ConnWithTimeout
	before, after func()
}

func (c *gated) Do(command string, args ...any) (any, error) {
	if command != "HGETALL" {
		return c.ConnWithTimeout.Do(command, args...)
	}
	c.before()
	defer c.after()
	return c.ConnWithTimeout.Do(command, args...)
}

// dials is a function that dials.
type dials func(context.Context) (redis.Conn, error)

func (f dials) Dial(ctx context.Context) (redis.Conn, error) { return f(ctx) }

// The loop has begun to read, and another read of the server overtakes it. Tokens that change then are not what the other one saw, though Redis
// notifies of no change before the loop's read.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"the loop's", "the other"} { // whose answer arrives last
		b := setup(t)
		token, _ := b.make()
		loop, other := make(chan chan struct{}), make(chan chan struct{})
		var holds atomic.Bool
		wait := func(at chan chan struct{}) func() {
			return func() {
				if holds.Load() {
					may := make(chan struct{})
					at <- may
					<-may
				}
			}
		}
		base := b.base(b.redis.URI())
		dialer := base.Dialer
		base.Dialer = dials(func(ctx context.Context) (redis.Conn, error) {
			c, err := dialer.Dial(ctx)
			if err != nil {
				return nil, err
			}
			return &gated{c.(redis.ConnWithTimeout), wait(loop), func() {}}, nil
		})
		r := tokens.NewRing(base, func(ctx context.Context, f func(resque.Store, redis.Conn) error) error {
			return b.do(b.redis.URI())(ctx, func(s resque.Store, c redis.Conn) error {
				return f(s, &gated{c.(redis.ConnWithTimeout), func() {}, wait(other)})
			})
		}, true)
		r.Start(t.Context())
		t.Cleanup(func() { r.Stop(context.Background()) })
		if _, err := b.find(r, token); err != nil {
			t.Fatal(err)
		}
		holds.Store(true)
		b.make() // the loop begins to read
		loops := <-loop
		reload := make(chan error)
		go func() { reload <- r.Reload(t.Context()) }()
		others := <-other
		b.redis.Do(t, "DEL", "resque:go:http:tokens")
		holds.Store(false)
		if last == "the loop's" {
			close(others)
			b.must(<-reload)
			close(loops)
		} else {
			close(loops)
			b.eventually("the loop has read", func() bool { return len(r.Tokens()) == 0 })
			close(others)
			b.must(<-reload)
		}
		b.eventually("no token is valid, if "+last+" answer arrives last", func() bool { return len(r.Tokens()) == 0 })
	}
}

// A connection that breaks costs no notification: the tokens are read again.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	proxy := b.redis.StartProxy(t)
	r := b.ring("redis://" + proxy.Addr)
	token, e := b.make()
	_, err := b.find(r, token)
	b.must(err)
	proxy.Refuse(true)
	b.eventually("the ring knows that Redis is away", func() bool {
		_, err := b.look(r, "no such token, 20 characters")
		var away *tokens.AwayError
		return errors.As(err, &away)
	})
	if _, err := b.look(r, token); err != nil {
		t.Errorf("while Redis is away a known token is refused: %v", err)
	}
	b.must(b.book.Revoke(t.Context(), e))
	proxy.Refuse(false)
	b.eventually("the revocation arrives", func() bool {
		_, err := b.find(r, token)
		return errors.Is(err, tokens.ErrUnknown)
	})
}

func TestRotateAndExpire(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ring(b.redis.URI())
	token, e := b.make(func(r *tokens.Record) { r.Scopes, r.Queues = []string{"ack"}, []string{"mail"} })
	fresh, entry, err := b.book.Rotate(t.Context(), e, time.Hour)
	b.must(err)
	for _, one := range []string{token, fresh} {
		found, err := b.find(r, one)
		b.must(err)
		if got := found.Record(); !slices.Equal(got.Scopes, []string{"ack"}) || !slices.Equal(got.Queues, []string{"mail"}) {
			t.Errorf("a rotated token has another record: %+v", got)
		}
	}
	if _, _, err := b.book.Rotate(t.Context(), e, time.Hour); !errors.Is(err, tokens.ErrChanged) {
		t.Errorf("rotated by what was read before: %v", err)
	}
	old, err := b.find(r, token)
	b.must(err)
	if ends := old.Record().Expires; ends == 0 {
		t.Error("the old token never ends")
	}
	found, err := b.find(r, fresh)
	b.must(err)
	ctx, done := found.While(t.Context())
	defer done()
	if _, _, err = b.book.Rotate(t.Context(), entry, 0); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	b.eventually("a token whose time is over is refused", func() bool {
		_, err := b.find(r, fresh)
		return errors.Is(err, tokens.ErrUnknown)
	})
}

func TestGet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, e := b.make()
	for _, id := range []string{e.ID(), e.Digest, "sha256:" + e.Digest} {
		got, err := b.book.Get(t.Context(), id)
		b.must(err)
		if got.Digest != e.Digest {
			t.Errorf("%s is %s", id, got.Digest)
		}
	}
	for _, id := range []string{"", e.Digest[:6], "0000000000000000"} {
		if _, err := b.book.Get(t.Context(), id); !errors.Is(err, tokens.ErrUnknown) {
			t.Errorf("the id %q: %v", id, err)
		}
	}
	for _, name := range []string{token, "sha256:" + e.Digest} {
		got, err := b.book.Of(t.Context(), "", "shop", name)
		b.must(err)
		if got.Digest != e.Digest {
			t.Errorf("%s is %s", name, got.Digest)
		}
		if _, err := b.book.Of(t.Context(), "", "blog", name); !errors.Is(err, tokens.ErrUnknown) {
			t.Errorf("%s of another namespace: %v", name, err)
		}
	}
}

// A record that cannot be read permits nothing, and takes no other token with it.
func TestSpoiledRecords(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, _ := b.make()
	spoiled, e := b.make()
	r := b.ring(b.redis.URI())
	for _, text := range []string{"{", `{"scopes":["fly"]}`, `{"limits":{"interval":0}}`} {
		b.redis.Do(t, "HSET", "resque:go:http:tokens", e.Digest, text)
		b.eventually("the spoiled token is refused", func() bool {
			_, err := b.find(r, spoiled)
			return errors.Is(err, tokens.ErrUnknown)
		})
		_, err := b.find(r, token)
		b.must(err)
	}
	b.redis.Do(t, "DEL", "resque:go:http:tokens")
	b.eventually("without the key no token is valid", func() bool {
		_, err := b.find(r, token)
		return errors.Is(err, tokens.ErrUnknown)
	})
	b.redis.Do(t, "SET", "resque:go:http:tokens", "1")
	if _, err := b.book.List(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "the key resque:go:http:tokens is not a hash") {
		t.Errorf("a key of the wrong type: %v", err)
	}
	if _, _, err := b.book.Create(t.Context(), tokens.Record{Namespace: "shop"}, ""); err == nil || !strings.Contains(err.Error(), "is not a hash") {
		t.Errorf("a token on a key of the wrong type: %v", err)
	}
}

// Tokens can be revoked, and rates go on, while Redis is out of memory.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, e := b.make(func(r *tokens.Record) { r.Limits = &tokens.Limits{Read: 100, Interval: 60} })
	r := b.ring(b.redis.URI())
	found, err := b.find(r, token)
	b.must(err)
	b.redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	ok, _, _, err := found.Spend(t.Context(), false, clock.System, b.book.Do)
	if err != nil || !ok {
		t.Errorf("a read while Redis is full: %v, %v", ok, err)
	}
	b.book.Who = "" // the audit is a list that Redis does not extend now
	b.must(b.book.Revoke(t.Context(), e))
}

// The servers together give no more than the limit in a window, however they ask; what is given back can be spent again.
func TestRates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, _ := b.make(func(r *tokens.Record) { r.Limits = &tokens.Limits{Read: 500, Write: 3, Interval: 3600} })
	var servers []*tokens.Token
	for range 2 {
		found, err := b.find(b.ring(b.redis.URI()), token)
		b.must(err)
		servers = append(servers, found)
	}
	watch := b.redis.Monitor(t)
	var passed, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				ok, rest, give, err := servers[i%2].Spend(t.Context(), false, clock.System, b.book.Do)
				switch {
				case err != nil:
					t.Error(err)
				case ok:
					passed.Add(1)
					_ = give
				default:
					if refused.Add(1); rest <= 0 || rest > time.Hour {
						t.Errorf("the window lasts %s", rest)
					}
				}
			}
		})
	}
	all.Wait()
	if n := passed.Load(); n > 500 || n < 480 || refused.Load() != 800-n {
		t.Errorf("%d of 800 requests passed and %d were refused, the limit is 500", n, refused.Load())
	}
	scripts := 0
	for _, command := range watch.Commands() {
		if strings.EqualFold(command[0], "EVALSHA") || strings.EqualFold(command[0], "EVAL") {
			scripts++
		}
	}
	if scripts > 120 {
		t.Errorf("Redis was asked %d times", scripts)
	}
	for range 20 { // each is given back, so three writes are enough
		ok, _, give, err := servers[0].Spend(t.Context(), true, clock.System, b.book.Do)
		if b.must(err); !ok {
			t.Fatal("a write that was given back counts")
		}
		give()
		give()
	}
	got := 0
	for range 9 {
		for _, s := range servers {
			if ok, _, _, err := s.Spend(t.Context(), true, clock.System, b.book.Do); err == nil && ok {
				got++
			}
		}
	}
	if got != 3 {
		t.Errorf("%d writes passed, the limit is 3", got)
	}
	if keys := b.redis.Keys(t); !slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, "resque:go:http:rate:") && strings.HasSuffix(k, ":r") }) {
		t.Errorf("the keys are %q", keys)
	}
}

// Windows follow one another, and a limit that is changed holds from then on.
func TestWindows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c, s := b.redis.Dial(t), leases.Store{Store: resque.New("")}
	take := func(wanted, limit int64, window time.Duration) (int64, time.Duration) {
		t.Helper()
		n, rest, err := s.TakeUnits(c, "d", leases.RateOfReads, wanted, limit, window)
		b.must(err)
		return n, rest
	}
	if n, rest := take(4, 10, time.Hour); n != 4 || rest != time.Hour {
		t.Errorf("the first piece has %d units for %s", n, rest)
	}
	if n, _ := take(9, 10, time.Hour); n != 6 {
		t.Errorf("the second piece has %d units, want 6", n)
	}
	if n, _ := take(1, 10, time.Hour); n != 0 {
		t.Errorf("behind the limit there are %d", n)
	}
	if n, _ := take(1, 5, time.Hour); n != 0 {
		t.Errorf("behind a lower limit there are %d", n)
	}
	if n, _ := take(5, 12, time.Hour); n != 2 {
		t.Errorf("a higher limit gives %d, want 2", n)
	}
	key := s.RateKey("d", leases.RateOfReads).String()
	b.redis.Do(t, "SET", key, fmt.Sprintf("12 %d", time.Now().Add(-time.Second).UnixMilli()))
	if n, _ := take(5, 12, time.Hour); n != 5 {
		t.Errorf("a new window gives %d", n)
	}
	for _, text := range []string{"", "x", "-1 2", "1", "1 99999999999999999999"} {
		b.redis.Do(t, "SET", key, text)
		if n, _ := take(5, 12, time.Minute); n != 5 {
			t.Errorf("a value %q gives %d", text, n)
		}
		if ttl := b.redis.Int(t, "PTTL", key); ttl <= 0 || ttl > 60_000 {
			t.Errorf("the key lives for %d ms", ttl)
		}
	}
	b.redis.Do(t, "DEL", key)
	b.redis.Do(t, "HSET", key, "a", "b")
	if _, _, err := s.TakeUnits(c, "d", leases.RateOfReads, 1, 1, time.Minute); err == nil || !strings.Contains(err.Error(), "the key resque:go:http:rate:<digest>:r is not a string") {
		t.Errorf("a key of the wrong type: %v", err)
	}
}

func TestEnter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, _ := b.make()
	found, err := b.find(b.ring(b.redis.URI()), token)
	b.must(err)
	leave, ok := found.Enter(false, 1)
	if !ok {
		t.Fatal("the first waiter is refused")
	}
	if _, ok := found.Enter(false, 1); ok {
		t.Error("the second waiter is let in")
	}
	if _, ok := found.Enter(true, 1); !ok {
		t.Error("a waiter takes the place of a listener")
	}
	leave()
	if _, ok := found.Enter(false, 1); !ok {
		t.Error("the place is not free again")
	}
}

// Many requests that come with a token that was made just now are all served.
func TestFreshToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := tokens.NewRing(b.base(b.redis.URI()), b.do(b.redis.URI()), true) // it has not started, so nothing tells it of the token
	token, _ := b.make()
	var all sync.WaitGroup
	for range 300 {
		all.Go(func() {
			if _, err := b.find(r, token); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Unknown tokens do not flood Redis.
func TestGuessing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ring(b.redis.URI())
	watch := b.redis.Monitor(t)
	for i := range 5000 {
		if _, err := b.find(r, fmt.Sprintf("guess-%020d", i)); !errors.Is(err, tokens.ErrUnknown) {
			t.Fatal(err)
		}
	}
	asked := 0
	for _, command := range watch.Commands() {
		if strings.EqualFold(command[0], "HGET") {
			asked++
		}
	}
	if asked > 2500 {
		t.Errorf("Redis was asked for %d of 5,000 guesses", asked)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("default:token", "shop")
	f.Add(":", "")
	f.Fuzz(func(t *testing.T, given, namespace string) {
		pool, token := tokens.Split(given)
		if digest := tokens.Digest(pool, namespace, token); len(digest) != 64 || len(tokens.ID(digest)) != 16 || len(tokens.Short(digest)) != 6 {
			t.Errorf("the digest of %q is %q", given, digest)
		}
	})
}
