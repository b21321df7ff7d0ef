package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// RotateAfter is how long the old token of a rotation stays valid.
const RotateAfter = time.Hour

// Errors of a Book.
var (
	ErrExists        = errors.New("the token has already existed")
	ErrAmbiguous     = errors.New("several tokens begin with this id; give more of it")
	ErrChanged       = leases.ErrTokenChanged
	ErrNoNamespace   = errors.New("a token belongs to a namespace; name it")
	ErrNoDescription = errors.New("invalid description")
)

// Book makes, changes and revokes tokens. It holds nothing in memory.
type Book struct {
	Do    Do
	Clock clock.Clock
	Who   string // for the audit; "" is not recorded

	// Record, if it is set, records changes in place of Who: inspect.Door has it. It returns the change's error, and its own.
	Record func(ctx context.Context, what, on string, changed int64, done error) error
}

// Entry is a token as it is kept.
type Entry struct {
	Digest string
	Record
	old string
}

// ID is the entry's name.
func (e *Entry) ID() string { return ID(e.Digest) }

// List returns the tokens of a pool and a namespace, or of all where "" is given, in the order in which they were made. A record
// that cannot be read has its text as its description.
func (b *Book) List(ctx context.Context, pool, namespace string) (all []Entry, err error) {
	var texts map[string]string
	err = b.Do(ctx, func(s resque.Store, c redis.Conn) (err error) {
		texts, err = leases.Store{Store: s}.Tokens(c)
		return err
	})
	for digest, text := range texts {
		r, bad := parse(text)
		if bad != nil {
			r = &Record{Description: bad.Error()}
		}
		if r.Pool == "" {
			r.Pool = DefaultPool
		}
		if (pool == "" || pool == r.Pool) && (namespace == "" || namespace == r.Namespace) {
			all = append(all, Entry{Digest: digest, Record: *r, old: text})
		}
	}
	slices.SortFunc(all, func(x, y Entry) int {
		if x.Created != y.Created {
			return int(max(min(x.Created-y.Created, 1), -1))
		}
		return strings.Compare(x.Digest, y.Digest)
	})
	return all, err
}

// Get returns the token of an id, which may be the whole digest or its beginning.
func (b *Book) Get(ctx context.Context, id string) (*Entry, error) {
	all, err := b.List(ctx, "", "")
	if err != nil {
		return nil, err
	}
	id = strings.TrimPrefix(id, "sha256:")
	var found *Entry
	for i, e := range all {
		switch {
		case len(id) < idDigits || !strings.HasPrefix(e.Digest, id):
		case found != nil:
			return nil, ErrAmbiguous
		default:
			found = &all[i]
		}
	}
	if found == nil {
		return nil, ErrUnknown
	}
	return found, nil
}

// Of returns the entry of a token, or of its digest as the lists show it.
func (b *Book) Of(ctx context.Context, pool, namespace, token string) (*Entry, error) {
	digest, named := strings.CutPrefix(token, "sha256:")
	if !named {
		digest = Digest(pool, namespace, token)
	}
	if named {
		e, err := b.Get(ctx, digest)
		if err == nil && e.Namespace != namespace {
			err = ErrUnknown
		}
		return e, err
	}
	text := ""
	err := b.Do(ctx, func(s resque.Store, c redis.Conn) (err error) {
		text, err = leases.Store{Store: s}.Token(c, digest)
		return err
	})
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, ErrUnknown
	}
	r, err := parse(text)
	if err != nil {
		r = &Record{Namespace: namespace, Pool: pool}
	}
	return &Entry{Digest: digest, Record: *r, old: text}, nil
}

// Create makes a token of a record, and returns it. "" as the token is a random one. It cannot be read later.
func (b *Book) Create(ctx context.Context, r Record, token string) (made string, e *Entry, err error) {
	if token == "" {
		token = random()
	} else if err := checkToken(token); err != nil {
		return "", nil, err
	}
	return b.add(ctx, r, token)
}

// Import is Create for a token that lmstfy has made or kept, however short it is.
func (b *Book) Import(ctx context.Context, r Record, token string) error {
	if err := checkToken(token); err != nil && (!errors.Is(err, ErrShort) || token == "") {
		return err
	}
	_, _, err := b.add(ctx, r, token)
	return err
}

func (b *Book) add(ctx context.Context, r Record, token string) (made string, e *Entry, err error) {
	switch {
	case r.Namespace == "":
		return "", nil, ErrNoNamespace
	case r.Limits != nil:
		if err := r.Limits.Check(); err != nil {
			return "", nil, err
		}
	}
	if r.scope, err = ParseScopes(r.Scopes); err != nil {
		return "", nil, err
	}
	if r.Pool == DefaultPool {
		r.Pool = ""
	}
	if r.Created == 0 {
		r.Created = b.Clock.Now().UnixMilli()
	}
	e = &Entry{Digest: Digest(r.Pool, r.Namespace, token), Record: r, old: r.text()}
	err = b.change(ctx, "CreateToken", e, leases.TokenChange{Digest: e.Digest, New: e.old})
	if errors.Is(err, leases.ErrTokenChanged) {
		err = ErrExists
	}
	if err != nil {
		return "", nil, err
	}
	if r.Pool != "" {
		token = r.Pool + ":" + token
	}
	return token, e, nil
}

// Rotate makes a new token with the record of an old one, which ends after a while.
func (b *Book) Rotate(ctx context.Context, e *Entry, after time.Duration) (made string, fresh *Entry, err error) {
	now := b.Clock.Now()
	token, old, r := random(), e.Record, e.Record
	end := now.Add(after).UnixMilli()
	if old.Expires == 0 || old.Expires > end {
		old.Expires = end
	}
	if old.Pool == DefaultPool {
		old.Pool, r.Pool = "", ""
	}
	r.Created = now.UnixMilli()
	fresh = &Entry{Digest: Digest(r.Pool, r.Namespace, token), Record: r, old: r.text()}
	err = b.change(ctx, "RotateToken", e,
		leases.TokenChange{Digest: e.Digest, Old: e.old, New: old.text()}, leases.TokenChange{Digest: fresh.Digest, New: fresh.old})
	if err != nil {
		return "", nil, err
	}
	if r.Pool != "" {
		token = r.Pool + ":" + token
	}
	return token, fresh, nil
}

// Revoke ends a token.
func (b *Book) Revoke(ctx context.Context, e *Entry) error {
	return b.change(ctx, "RevokeToken", e, leases.TokenChange{Digest: e.Digest, Old: e.old})
}

// Limit sets the limits of a token; nil takes them away.
func (b *Book) Limit(ctx context.Context, e *Entry, l *Limits) error {
	if l != nil {
		if err := l.Check(); err != nil {
			return err
		}
	}
	r := e.Record
	if r.Limits = l; r.Pool == DefaultPool {
		r.Pool = ""
	}
	return b.change(ctx, "LimitToken", e, leases.TokenChange{Digest: e.Digest, Old: e.old, New: r.text()})
}

// change writes a change and its row of the audit. What was done and could not be recorded is done.
func (b *Book) change(ctx context.Context, what string, e *Entry, changes ...leases.TokenChange) error {
	on := e.ID() + " of " + e.Namespace
	err := b.Do(ctx, func(s resque.Store, c redis.Conn) error {
		if err := (leases.Store{Store: s}).ChangeTokens(c, changes...); err != nil {
			return err
		}
		if b.Who == "" || b.Record != nil {
			return nil
		}
		text, err := json.Marshal(inspect.AuditEntry{
			At: b.Clock.Now().UTC().Truncate(time.Millisecond), Who: b.Who, What: what, On: on, Changed: 1,
		})
		if err == nil {
			err = s.Audit(c, text)
		}
		if err != nil {
			return fmt.Errorf("%s was done but not recorded: %w", what, err)
		}
		return nil
	})
	if err == nil && b.Record != nil {
		err = b.Record(ctx, what, on, 1, nil)
	}
	return err
}
