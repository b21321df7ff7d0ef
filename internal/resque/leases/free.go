package leases

import (
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Free is a guard of the push of a job whose id its producer chose: no client holds a job of this place.
func (s Store) Free(place string) resque.Effect {
	return resque.Guard("ZSCORE", s.ZSetKey("leases"), "", place)
}

// WhatOf returns what is known of a job that no client holds: Back, Late, Dead, or Unknown.
func (s Store) WhatOf(c redis.Conn, place string) (What, error) {
	text, err := orNone(redis.String(c.Do("HGET", s.ReturnedKey().String(), place)))
	if err != nil {
		return "", s.explain(c, err, "", "reading what became of a job")
	}
	what, _, _ := strings.Cut(text, " ")
	if what == "" {
		what = string(Unknown)
	}
	return What(what), nil
}
