package httpapi

import (
	"fmt"
	"time"
)

// The fields of an answer that say how many requests a token has: draft-ietf-httpapi-ratelimit-headers. Each policy is named
// for what the requests do.
const (
	policyField = "RateLimit-Policy"
	restField   = "RateLimit"
)

// policy is the name of the limit that a request counts for.
func (k rateKind) policy() string {
	if k == rateWrite {
		return "publish"
	}
	return "consume"
}

// limit returns how many requests of a kind the token has in a window; 0: it has no such limit.
func (x access) limit(kind rateKind) (limit int64, window time.Duration) {
	l := x.token.Record().Limits
	switch {
	case l == nil:
		return 0, 0
	case kind == rateWrite:
		limit = l.Write
	default:
		limit = l.Read
	}
	return limit, time.Duration(l.Interval) * time.Second
}

// tellPolicy has the answer name the limit. How many requests are left it does not say, since each server knows its own
// piece of the window only.
func (x access) tellPolicy(kind rateKind, limit int64, window time.Duration) {
	if x.about != nil && limit > 0 {
		x.about.header.Set(policyField, fmt.Sprintf(`"%s";q=%d;w=%d`, kind.policy(), limit, int64(window/time.Second)))
	}
}

// tellRest has the answer say that no request is left, and for how many seconds.
func (x access) tellRest(kind rateKind, rest time.Duration) {
	if x.about != nil {
		x.about.header.Set(restField, fmt.Sprintf(`"%s";r=0;t=%d`, kind.policy(), max((rest+time.Second-1)/time.Second, 1)))
	}
}
