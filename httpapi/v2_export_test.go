package httpapi

import (
	"slices"
	"time"

	"github.com/goworker/goworker/internal/tokens"
)

// Looks is how many looks at counts run.
func (a *API) Looks() int {
	a.v2.events.mu.Lock()
	defer a.v2.events.mu.Unlock()
	return len(a.v2.events.looks)
}

// Waiting is how many consumers wait.
func (a *API) Waiting() int { return a.pools[defaultPool].gateway.Stats().Waiters }

// Connected reports whether the servers of all pools have their connections, of which Redis tracks one. A request before that is refused
// where connecting takes more than two seconds, as on a busy machine.
func (a *API) Connected() bool {
	for _, p := range a.pools {
		if !p.gateway.Stats().Tracking {
			return false
		}
	}
	return true
}

// Knows reports whether the server has a token in memory. For another one it asks Redis, and refuses the request where that takes more than
// two seconds, as on a busy machine.
func (a *API) Knows(namespace, token string) bool {
	pool, secret := tokens.Split(token)
	digest := tokens.Digest(pool, namespace, secret)
	return slices.ContainsFunc(a.guard.ring.Tokens(), func(t *tokens.Token) bool { return t.Digest == digest })
}

// HasForRedis sets how long a call of v2 has for what it asks of Redis.
func (a *API) HasForRedis(d time.Duration) { a.v2.brief.within = d }

// Routes are the calls of v2: method and path.
func Routes() (all [][2]string) {
	for _, r := range v2Routes {
		all = append(all, [2]string{r.method, r.path})
	}
	return all
}

// ProblemTypes are the names of the types of problems with their statuses.
func ProblemTypes() map[string]int {
	all := make(map[string]int)
	for _, t := range problemTypes {
		all[t.name] = t.status
	}
	return all
}
