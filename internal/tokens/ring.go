package tokens

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

const (
	// PollEvery is how often tokens are read where Redis does not notify us. A revoked token is refused within it.
	PollEvery = 500 * time.Millisecond

	pingEvery    = time.Second // how late a broken connection is noticed
	retrackAfter = time.Minute // when a server that refused to track is asked again
	mostMisses   = 50          // unknown tokens that Redis is asked for, a second
)

// ErrRevoked is the cause with which the contexts of a revoked token end.
var ErrRevoked = errors.New("the token was revoked")

// ErrUnknown is returned for a token that Redis does not know.
var ErrUnknown = errors.New("no such token")

// Do runs f on a connection of a Redis.
type Do = func(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error

// Token is one that is valid. Its record may change while requests use it.
type Token struct {
	Digest string

	record atomic.Pointer[Record]
	text   string          // the record as read; only under Ring.mu
	ctx    context.Context // ends when the token does
	end    context.CancelCauseFunc

	waiters, listeners atomic.Int64
	reads, writes      rate
}

func newToken(digest string, text string, r *Record) *Token {
	t := &Token{Digest: digest, text: text, reads: newRate(leases.RateOfReads), writes: newRate(leases.RateOfWrites)}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	t.record.Store(r)
	return t
}

// Record returns the token's present record, which is not changed.
func (t *Token) Record() *Record { return t.record.Load() }

// While returns a context that ends with ctx, and with ErrRevoked as its cause when the token ends.
func (t *Token) While(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// Ring holds the tokens in memory. All methods are safe for concurrent use. While Redis is away the tokens that it has read
// stay valid.
type Ring struct {
	base   part.Base
	do     Do
	track  bool // Redis may be asked to notify us
	loop   *part.Loop
	loaded chan struct{} // closed when the tokens were read for the first time

	pair    *link.Pair // these fields belong to the goroutine
	poll    time.Duration
	pollAt  time.Time
	proved  time.Time // when the connection was last proven by a command
	retrack time.Time
	said    logging.Once

	mu     sync.RWMutex
	tokens map[string]*Token
	read   int64     // of reads, the number of the latest one whose answer was taken
	reads  int64     // how many were begun
	again  bool      // reads overlapped, and Redis may have answered the one last whose answer was not taken last
	second time.Time // since when misses counts
	misses int       // unknown tokens that Redis was asked for in this second
	looks  map[string]*look
	away   error // why the last read failed; nil: it did not
}

// NewRing returns a ring that is empty until it was started. Track says whether to ask Redis for notifications.
func NewRing(b part.Base, do Do, track bool) *Ring {
	r := &Ring{base: b, do: do, track: track, loaded: make(chan struct{}), tokens: map[string]*Token{}, looks: map[string]*look{}}
	r.loop = part.NewLoop(b, "tokens", r.turn)
	r.loop.End = r.drop
	return r
}

// Start reads the tokens for the first time, if Redis answers before ctx ends, and follows their changes from then on.
func (r *Ring) Start(ctx context.Context) {
	r.loop.Start(ctx)
	limit := r.base.Clock.NewTimer(part.ReplyWithin)
	defer limit.Stop()
	select {
	case <-r.loaded:
	case <-ctx.Done():
	case <-limit.C():
	}
}

// Stop stops following. The tokens stay valid.
func (r *Ring) Stop(ctx context.Context) { r.loop.Stop(ctx) }

// turn reads the tokens if they have changed.
func (r *Ring) turn(ctx context.Context) (wait time.Duration, err error) {
	defer func() {
		if err != nil {
			r.drop()
			r.mu.Lock()
			r.away = err
			r.mu.Unlock()
		}
	}()
	now := r.base.Clock.Now()
	if r.pair != nil && !r.retrack.IsZero() && !now.Before(r.retrack) {
		r.drop()
	}
	due := r.pair == nil
	if due {
		if err := r.dial(ctx); err != nil {
			return 0, err
		}
	}
	changed, all, broken := r.pair.Take()
	if broken != nil {
		return 0, broken
	}
	if due || all || len(changed) > 0 || r.poll > 0 && !now.Before(r.pollAt) || r.overlapped() {
		r.pair.Used()
		if err := r.load(r.pair.Conn); err != nil {
			return 0, err
		}
		r.pollAt = now.Add(r.poll)
	} else if r.pair.Prove() {
		if err := r.prove(now); err != nil {
			return 0, err
		}
	}
	wait = r.expire()
	if r.poll > 0 {
		wait = min(wait, clock.Until(r.base.Clock, r.pollAt))
	}
	return wait, nil
}

// prove returns an error if the connection is broken over which the tokens are read: then Redis notifies of nothing. A
// connection that the server has closed shows without a command.
func (r *Ring) prove(now time.Time) error {
	switch {
	case conn.HungUp(r.pair.Conn):
		return errHungUp
	case now.Sub(r.proved) < link.PingEvery:
		return nil
	}
	r.proved = now
	if _, err := r.pair.Conn.Do("PING"); conn.MustRedial(err) {
		return err
	}
	return nil
}

var errHungUp = errors.New("the connection over which tokens are read was closed by Redis")

// dial connects and has Redis notify us of changes.
func (r *Ring) dial(ctx context.Context) (err error) {
	poll, known := conn.PollInterval(r.base.Dialer)
	var tracking *link.Tracking
	if r.track && !known {
		tracking = &link.Tracking{Start: r.base.Store.TrackReads, Receive: leases.Store{Store: r.base.Store}.ReceiveTokens}
	}
	if r.pair, err = link.DialPair(ctx, r.base, tracking, pingEvery, r.loop.Woken()); err != nil {
		return err
	}
	r.poll, r.retrack = 0, time.Time{}
	switch {
	case known:
		r.poll = min(poll, PollEvery)
	case r.pair.Wake == nil:
		r.poll = PollEvery
	}
	if why := r.pair.Untracked; why != nil {
		r.retrack = r.base.Clock.Now().Add(retrackAfter)
		text := fmt.Sprintf("Redis cannot tell when a token of the HTTP API changes, so they are read every %s: %s", r.poll, link.WhyUntracked(why))
		if r.said.News("tracking", text) {
			r.base.Log.Warn(text)
		}
	}
	return nil
}

func (r *Ring) drop() {
	if r.pair != nil {
		r.pair.Shut()
		r.pair = nil
	}
}

// Reload reads the tokens now: after a change of this process, so that it holds at once.
func (r *Ring) Reload(ctx context.Context) error {
	return r.do(ctx, func(_ resque.Store, c redis.Conn) error { return r.load(c) })
}

// overlapped reports, once, whether reads have overlapped, so that the loop has to read once more.
func (r *Ring) overlapped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	again := r.again
	r.again = false
	return again
}

// load reads all tokens. Of two that overlap, the one that began later holds, so that a change that was made before it began does. Redis may have
// answered the other one later, and notifies the loop only of what changes after that answer. So the loop reads once more.
func (r *Ring) load(c redis.Conn) error {
	r.mu.Lock()
	r.reads++
	number, before := r.reads, r.read
	r.mu.Unlock()
	texts, err := leases.Store{Store: r.base.Store}.Tokens(c)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read != before {
		r.again = true
		r.loop.Wake()
	}
	if number < r.read {
		return nil
	}
	r.read, r.away = number, nil
	for digest, t := range r.tokens {
		if _, there := texts[digest]; !there {
			r.cut(digest, t)
		}
	}
	for digest, text := range texts {
		r.put(digest, text)
	}
	select {
	case <-r.loaded:
	default:
		close(r.loaded)
	}
	return nil
}

// put keeps a record that was read. A record that cannot be read permits nothing.
func (r *Ring) put(digest, text string) *Token {
	t := r.tokens[digest]
	if t != nil && t.text == text {
		return t
	}
	record, err := parse(text)
	if err != nil {
		r.base.Log.Warn("a token of the HTTP API cannot be read, so it is refused", "token", Short(digest), "error", err)
		if t != nil {
			r.cut(digest, t)
		}
		return nil
	}
	if t != nil {
		t.text = text
		t.record.Store(record)
		return t
	}
	t = newToken(digest, text, record)
	r.tokens[digest] = t
	return t
}

// cut ends a token, and what waits under it.
func (r *Ring) cut(digest string, t *Token) {
	delete(r.tokens, digest)
	t.end(ErrRevoked)
}

// expire ends the tokens whose time is over, and returns when that of the next one is.
func (r *Ring) expire() time.Duration {
	now, wait := r.base.Clock.Now(), part.Never
	r.mu.Lock()
	defer r.mu.Unlock()
	for digest, t := range r.tokens {
		at := t.Record().Expires
		if at == 0 {
			continue
		}
		if t.Record().Ended(now) {
			r.cut(digest, t)
			continue
		}
		wait = min(wait, max(time.UnixMilli(at).Sub(now), time.Millisecond))
	}
	return wait
}

// AwayError says that Redis was not asked whether a token is known.
type AwayError struct{ Err error }

func (e *AwayError) Error() string {
	return fmt.Sprintf("the token cannot be looked up now: %v", e.Err)
}

func (e *AwayError) Unwrap() error { return e.Err }

// Find returns a token that is valid now. It asks Redis for one that is not in memory, at most 50 times a second.
func (r *Ring) Find(ctx context.Context, digest string) (*Token, error) {
	now := r.base.Clock.Now()
	r.mu.RLock()
	t, away := r.tokens[digest], r.away
	r.mu.RUnlock()
	if t == nil {
		var err error
		if t, err = r.look(ctx, digest, now, away); err != nil {
			return nil, err
		}
	}
	// The digest of a secret was compared by the map already; this one takes as long for every digest.
	if subtle.ConstantTimeCompare([]byte(t.Digest), []byte(digest)) != 1 || t.Record().Ended(now) || t.ctx.Err() != nil {
		return nil, ErrUnknown
	}
	return t, nil
}

// look is a question to Redis for a token that is not in memory. All requests with that token wait for its one answer.
type look struct {
	done  chan struct{} // closed when the fields below are set
	token *Token
	err   error
}

// look asks Redis for a token that is not in memory: another server may have made it just now.
func (r *Ring) look(ctx context.Context, digest string, now time.Time, away error) (*Token, error) {
	r.mu.Lock()
	l := r.looks[digest]
	if l == nil {
		if now.Sub(r.second) >= time.Second {
			r.second, r.misses = now, 0
		}
		if r.misses++; r.misses > mostMisses {
			r.mu.Unlock()
			if away != nil {
				return nil, &AwayError{away}
			}
			return nil, ErrUnknown
		}
		l = &look{done: make(chan struct{})}
		r.looks[digest] = l
		r.mu.Unlock()
		l.token, l.err = r.ask(context.WithoutCancel(ctx), digest) // more requests may wait for it, so it outlives this one
		close(l.done)
		r.mu.Lock()
		delete(r.looks, digest)
	}
	r.mu.Unlock()
	select {
	case <-l.done:
		return l.token, l.err
	case <-ctx.Done():
		return nil, &AwayError{context.Cause(ctx)}
	}
}

// ask asks Redis for a token, and reads all of them if it is there.
func (r *Ring) ask(ctx context.Context, digest string) (*Token, error) {
	ctx, cancel := context.WithTimeout(ctx, part.ReplyWithin)
	defer cancel()
	var text string
	err := r.do(ctx, func(_ resque.Store, c redis.Conn) (err error) {
		text, err = leases.Store{Store: r.base.Store}.Token(c, digest)
		return err
	})
	switch {
	case err != nil:
		return nil, &AwayError{err}
	case text == "":
		return nil, ErrUnknown
	}
	if err := r.Reload(ctx); err != nil {
		return nil, &AwayError{err}
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t := r.tokens[digest]; t != nil {
		return t, nil
	}
	return nil, ErrUnknown
}

// Tokens returns the tokens in memory.
func (r *Ring) Tokens() []*Token {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*Token, 0, len(r.tokens))
	for _, t := range r.tokens {
		all = append(all, t)
	}
	return all
}
