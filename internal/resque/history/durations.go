package history

import (
	"time"

	"github.com/goworker/goworker/internal/spread"
)

// Durations is a distribution of durations, as rows and packs have it.
type Durations = spread.Durations

// Buckets is how many buckets it has.
const Buckets = spread.Buckets

// Bucket returns the number of the bucket of a duration.
func Bucket(d time.Duration) int { return spread.Bucket(d) }

// Bound returns the lower bound of a bucket, and of the bucket behind the last the upper bound of that.
func Bound(bucket int) time.Duration { return spread.Bound(bucket) }
