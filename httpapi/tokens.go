package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/tokens"
)

// Errors of Tokens.
var (
	// ErrTokenExists is returned by Create for a token that is there already.
	ErrTokenExists = errors.New("httpapi: the token exists already")

	// ErrNoToken is returned for an id that no token has.
	ErrNoToken = errors.New("httpapi: there is no such token")
)

// Token says who may use the API, and how. Redis keeps its digest only.
type Token struct {
	ID          string // the beginning of the digest: the token's name in calls, lists and logs
	Token       string // only from the call that made it
	Namespace   string
	Pool        string   // "" is "default"
	Scopes      []string // of publish, consume, ack, peek and admin-queue; none: all of them
	Queues      []string // names and patterns of queues of the namespace; none: all
	Description string
	Created     time.Time
	Expires     time.Time // zero: never
	Limits      *Limits   // nil: none
}

// Limits are how many requests a token has in a window, on all servers together.
type Limits struct {
	Read     int64         // requests that take jobs; 0: no limit
	Write    int64         // requests that publish; 0: no limit
	Interval time.Duration // the window: whole seconds, at most a day
}

// Tokens makes, lists and revokes the tokens of a Redis without a server, as the command goworker token does. Servers
// follow each change within a second.
type Tokens struct {
	client *goworker.Client
	who    string
}

// NewTokens returns the tokens of a client's Redis: that of the pool "default". Who is recorded with each change in the audit; ""
// records none.
func NewTokens(c *goworker.Client, who string) *Tokens { return &Tokens{c, who} }

func (t *Tokens) book() (*tokens.Book, error) {
	var n neighbor.Neighbor
	if err := goworker.Beside(&n, t.client); err != nil {
		return nil, prefix.Of(err)
	}
	return &tokens.Book{Do: n.Do, Clock: clock.System, Who: t.who}, nil
}

// Create makes a token, and returns it with its ID and its Token: it cannot be read later. A Token that is given must have 20
// characters or more; without one it is random.
func (t *Tokens) Create(ctx context.Context, token Token) (Token, error) {
	record, err := recordOf(&token)
	if err != nil {
		return Token{}, prefix.Of(err)
	}
	b, err := t.book()
	if err != nil {
		return Token{}, err
	}
	made, e, err := b.Create(ctx, *record, token.Token)
	if err != nil {
		return Token{}, public(err)
	}
	return tokenOf(e, made), nil
}

// List returns the tokens of a namespace; "" is all.
func (t *Tokens) List(ctx context.Context, namespace string) ([]Token, error) {
	b, err := t.book()
	if err != nil {
		return nil, err
	}
	entries, err := b.List(ctx, "", namespace)
	all := make([]Token, len(entries))
	for i := range entries {
		all[i] = tokenOf(&entries[i], "")
	}
	return all, public(err)
}

// Rotate makes a new token with all that the old one may. The old one ends after an hour, or after the time that is given.
func (t *Tokens) Rotate(ctx context.Context, id string, after ...time.Duration) (fresh Token, err error) {
	err = t.with(ctx, id, func(b *tokens.Book, e *tokens.Entry) error {
		within := tokens.RotateAfter
		for _, d := range after {
			within = max(d, 0)
		}
		made, entry, err := b.Rotate(ctx, e, within)
		if err == nil {
			fresh = tokenOf(entry, made)
		}
		return err
	})
	return fresh, err
}

// Revoke ends a token: servers refuse it within a second, and end what waits under it.
func (t *Tokens) Revoke(ctx context.Context, id string) error {
	return t.with(ctx, id, func(b *tokens.Book, e *tokens.Entry) error { return b.Revoke(ctx, e) })
}

// SetLimits sets the limits of a token; nil takes them away.
func (t *Tokens) SetLimits(ctx context.Context, id string, l *Limits) error {
	limits, err := l.record()
	if err != nil {
		return prefix.Of(err)
	}
	return t.with(ctx, id, func(b *tokens.Book, e *tokens.Entry) error { return b.Limit(ctx, e, limits) })
}

func (t *Tokens) with(ctx context.Context, id string, f func(*tokens.Book, *tokens.Entry) error) error {
	b, err := t.book()
	if err != nil {
		return err
	}
	e, err := b.Get(ctx, id)
	if err == nil {
		err = f(b, e)
	}
	return public(err)
}

func public(err error) error {
	switch {
	case errors.Is(err, tokens.ErrExists):
		return ErrTokenExists
	case errors.Is(err, tokens.ErrUnknown):
		return ErrNoToken
	}
	return prefix.Of(err)
}

func (l *Limits) record() (*tokens.Limits, error) {
	if l == nil {
		return nil, nil
	}
	if l.Interval%time.Second != 0 {
		return nil, errors.New("the interval of a limit is whole seconds")
	}
	limits := &tokens.Limits{Read: l.Read, Write: l.Write, Interval: int64(l.Interval / time.Second)}
	return limits, limits.Check()
}

func recordOf(t *Token) (*tokens.Record, error) {
	limits, err := t.Limits.record()
	if err != nil {
		return nil, err
	}
	if !namespaceName.MatchString(t.Namespace) {
		return nil, errors.New("the namespace of a token has letters, digits, - and _, 1 to 255 of them")
	}
	r := &tokens.Record{Namespace: t.Namespace, Pool: t.Pool, Scopes: t.Scopes, Queues: t.Queues, Description: t.Description, Limits: limits}
	if !t.Expires.IsZero() {
		r.Expires = t.Expires.UnixMilli()
	}
	return r, nil
}

func tokenOf(e *tokens.Entry, made string) Token {
	t := Token{
		ID: e.ID(), Token: made, Namespace: e.Namespace, Pool: e.Pool, Scopes: e.Scopes, Queues: e.Queues, Description: e.Description,
		Created: time.UnixMilli(e.Created),
	}
	if t.Pool == "" {
		t.Pool = defaultPool
	}
	if len(t.Scopes) == 0 {
		t.Scopes = tokens.All.Names()
	}
	if e.Expires > 0 {
		t.Expires = time.UnixMilli(e.Expires)
	}
	if l := e.Limits; l != nil {
		t.Limits = &Limits{Read: l.Read, Write: l.Write, Interval: time.Duration(l.Interval) * time.Second}
	}
	return t
}
