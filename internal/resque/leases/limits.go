package leases

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var rateScript = resque.LoadScript(scriptFiles, "rate")

// Names of what a token's rate counts, as its key ends with them.
const (
	RateOfReads  = "r"
	RateOfWrites = "w"
)

// RateKey is the string with how many units of the present window servers got for a token.
func (s Store) RateKey(digest, of string) resque.Key {
	return s.TextKey("http:rate:" + digest + ":" + of)
}

// TakeUnits takes units of a token's present window, at most so many as are wanted, and returns when the window ends.
func (s Store) TakeUnits(c redis.Conn, digest, of string, wanted, limit int64, window time.Duration) (units int64, rest time.Duration, err error) {
	key := s.RateKey(digest, of).String()
	var a resque.Call
	a.Key(key)
	a.Arg(wanted, limit, window.Milliseconds())
	r, err := redis.Int64s(a.Do(c, rateScript))
	if err == nil && len(r) != 2 {
		err = resque.ErrAnswer
	}
	if err != nil {
		if resque.IsWrongType(err) {
			err = &resque.KeyTypeError{Key: s.rateName(of), Want: "string", Err: err}
		}
		return 0, 0, fmt.Errorf("taking units of a token's rate: %w", resque.Explain(err))
	}
	return r[0], time.Duration(r[1]) * time.Millisecond, nil
}

// rateName is a RateKey for people: an error shows no digest.
func (s Store) rateName(of string) string { return s.RateKey("<digest>", of).String() }
