package gateway

import (
	"crypto/rand"

	"github.com/goworker/goworker/internal/httpjob"
)

// seedSize is how many characters of an id come from the seed of a turn.
const seedSize = 16

// seed returns the begin of the ids that jobs without one get in a turn: the time, and enough chance that no two
// turns have the same.
func seed(now int64) string {
	return httpjob.NewID(now, 0)[:seedSize]
}

// newServer returns a name for a server.
func newServer() string { return rand.Text()[:16] }
