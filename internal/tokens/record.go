// Package tokens knows who may use the HTTP API, and how much. Redis keeps the digest of each token with a record. A Ring
// holds them in memory and follows every change; a Book makes, changes and revokes them.
package tokens

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/queues"
)

// Scope is what a token permits: a set of bits.
type Scope uint8

const (
	Publish Scope = 1 << iota
	Consume
	Ack
	Peek
	Admin // of queues: pause, destroy, dead letters

	All = Publish | Consume | Ack | Peek | Admin
)

// scopeNames are the scopes' names, in the order of their bits.
var scopeNames = []string{"publish", "consume", "ack", "peek", "admin-queue"}

// String returns the names of the scopes with commas between them.
func (s Scope) String() string { return strings.Join(s.Names(), ",") }

// Names returns the names of the scopes.
func (s Scope) Names() (names []string) {
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// ParseScopes returns the scopes of these names; of none it is All.
func ParseScopes(names []string) (s Scope, err error) {
	for _, name := range names {
		at := slices.Index(scopeNames, name)
		if at < 0 {
			return 0, fmt.Errorf("%q is no scope; the scopes are %s", name, strings.Join(scopeNames, ", "))
		}
		s |= 1 << at
	}
	if s == 0 {
		s = All
	}
	return s, nil
}

// Limits are how many requests a token has in a window. Reads take jobs, writes publish them. 0 is no limit.
type Limits struct {
	Read     int64 `json:"read"`
	Write    int64 `json:"write"`
	Interval int64 `json:"interval"` // seconds
}

// Check returns an error if no window can be made of the limits.
func (l Limits) Check() error {
	switch {
	case l.Interval <= 0:
		return errors.New("interval should be > 0")
	case l.Interval > int64(MostInterval/time.Second):
		return fmt.Errorf("an interval of %d s is longer than a day; give at most %d", l.Interval, int64(MostInterval/time.Second))
	case l.Read < 0 || l.Write < 0:
		return errors.New("read and write are numbers of requests; 0 is no limit")
	}
	return nil
}

// MostInterval is the longest window of a limit.
const MostInterval = 24 * time.Hour

// Record is what Redis keeps of a token, under its digest. The token itself is nowhere.
type Record struct {
	Namespace   string   `json:"namespace"`
	Pool        string   `json:"pool,omitempty"`   // "": the default one
	Scopes      []string `json:"scopes,omitempty"` // none: all
	Queues      []string `json:"queues,omitempty"` // names and patterns; none: all of the namespace
	Description string   `json:"description"`
	Created     int64    `json:"created"`           // ms
	Expires     int64    `json:"expires,omitempty"` // ms; 0: never
	Limits      *Limits  `json:"limits,omitempty"`

	scope Scope
}

// text returns the record as Redis keeps it.
func (r *Record) text() string {
	text, _ := json.Marshal(r) // it has nothing that cannot be encoded
	return string(text)
}

// parse returns the record that Redis keeps.
func parse(text string) (*Record, error) {
	r := new(Record)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("its record is not JSON: %w", err)
	}
	var err error
	if r.scope, err = ParseScopes(r.Scopes); err != nil {
		return nil, err
	}
	if r.Limits != nil {
		if err := r.Limits.Check(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Scope returns what the token permits.
func (r *Record) Scope() Scope { return r.scope }

// Permits reports whether the token has all of these scopes.
func (r *Record) Permits(need Scope) bool { return r.scope&need == need }

// Sees reports whether the token reaches a queue of its namespace, by the name that requests give.
func (r *Record) Sees(queue string) bool {
	return len(r.Queues) == 0 || slices.ContainsFunc(r.Queues, func(p string) bool { return p == queue || queues.MatchGlob(p, queue) })
}

// Ended reports whether the token's time is over.
func (r *Record) Ended(now time.Time) bool { return r.Expires > 0 && now.UnixMilli() >= r.Expires }

// DefaultPool is the name of the pool that a token without one belongs to.
const DefaultPool = "default"

// Digest is under which name Redis keeps a token. Pool and namespace are part of it, so that one token that a
// user has chosen may serve several of them.
func Digest(pool, namespace, token string) string {
	if pool == "" {
		pool = DefaultPool
	}
	text := append(make([]byte, 0, 256), pool...) // of the usual lengths it stays on the stack
	text = append(append(text, 0), namespace...)
	sum := sha256.Sum256(append(append(text, 0), token...))
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	return string(digits[:])
}

// Split splits what a request gives into the pool and the token.
func Split(given string) (pool, token string) {
	if pool, token, ok := strings.Cut(given, ":"); ok {
		return cmp.Or(pool, DefaultPool), token
	}
	return DefaultPool, given
}

// ID is the name of a token for people: the beginning of its digest.
func ID(digest string) string { return digest[:min(idDigits, len(digest))] }

const idDigits = 16

// Short is the name of a token in logs.
func Short(digest string) string { return digest[:min(6, len(digest))] }

// The bounds of a token that a user has chosen.
const (
	LeastToken = 20
	MostToken  = 255
)

// Errors of tokens that a user has chosen.
var (
	ErrShort = errors.New("the user token was too short")
	ErrToken = fmt.Errorf("a token has %d to %d visible ASCII characters and no colon", LeastToken, MostToken)
)

func checkToken(token string) error {
	switch {
	case len(token) < LeastToken:
		return ErrShort
	case len(token) > MostToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }):
		return ErrToken
	}
	return nil
}

// random returns a token of 160 random bits.
func random() string {
	var bits [20]byte
	_, _ = rand.Read(bits[:]) // it never fails
	return base32.HexEncoding.EncodeToString(bits[:])
}
