package leases

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var tokensScript = resque.LoadScript(scriptFiles, "tokens")

// ErrTokenChanged is returned by ChangeTokens if another program changed one of the tokens meanwhile.
var ErrTokenChanged = errors.New("another program changed the token meanwhile; look at it and try again")

// TokensKey is the hash of the tokens' records, by digest.
func (s Store) TokensKey() resque.Key { return s.HashKey("http:tokens") }

// Tokens returns the records of all tokens by digest.
func (s Store) Tokens(c redis.Conn) (map[string]string, error) {
	records, err := redis.StringMap(c.Do("HGETALL", s.TokensKey().String()))
	if err != nil {
		return nil, fmt.Errorf("reading the tokens of the HTTP API: %w", s.nameTokens(err))
	}
	return records, nil
}

// TokenChange is the change of one record. "" is no record.
type TokenChange struct{ Digest, Old, New string }

// ChangeTokens changes records, if all of them still are as they were read: all or none.
func (s Store) ChangeTokens(c redis.Conn, changes ...TokenChange) error {
	var a resque.Call
	a.Key(s.TokensKey().String())
	for _, t := range changes {
		a.Arg(t.Digest, t.Old, t.New)
	}
	done, err := redis.Bool(a.Do(c, tokensScript))
	switch {
	case err != nil:
		return fmt.Errorf("changing the tokens of the HTTP API: %w", s.nameTokens(err))
	case !done:
		return ErrTokenChanged
	}
	return nil
}

func (s Store) nameTokens(err error) error {
	if resque.IsWrongType(err) {
		return &resque.KeyTypeError{Key: s.TokensKey().String(), Want: "hash", Err: err}
	}
	return resque.Explain(err)
}

// ReceiveTokens receives the messages of a connection that TrackReads set up: whether tokens have changed.
func (s Store) ReceiveTokens(wake redis.Conn, timeout time.Duration) (changed []string, all bool, err error) {
	return s.ReceiveChanges(wake, timeout, s.TokensKey().String())
}

// Token returns the record of one token, "" if there is none.
func (s Store) Token(c redis.Conn, digest string) (string, error) {
	record, err := redis.String(c.Do("HGET", s.TokensKey().String(), digest))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return "", fmt.Errorf("reading a token of the HTTP API: %w", s.nameTokens(err))
	}
	return record, nil
}
