package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// MostColumns is how many columns a DelayedHistogram has at most.
const MostColumns = 500

// DelayedHistogram counts the delayed jobs of both schedules that are due between two times, in columns of the same length. A column has
// its beginning and not its end.
//
// A count is exact, or at least where there are more than 2,000 seconds with jobs in resque-scheduler's schedule: each second that
// was not looked at has a job at least. It sends at most five commands in two round trips. Over shards counts are sums.
//
// The Redis user needs the command zcount.
func (i *Inspector) DelayedHistogram(ctx context.Context, from, to time.Time, columns int) ([]Count, error) {
	if err := i.usable(); err != nil {
		return nil, err
	}
	if columns < 1 || columns > MostColumns {
		return nil, fmt.Errorf("goworker: a histogram of %d columns; ask for 1 to %d", columns, MostColumns)
	}
	width := to.Sub(from) / time.Duration(columns)
	if width < time.Millisecond {
		return nil, errors.New("goworker: a column of the histogram is shorter than a millisecond; ask for fewer columns or more time")
	}
	if i.several() {
		return over(i, func(a, b []Count) []Count {
			for n := range min(len(a), len(b)) {
				a[n] = a[n].plus(b[n])
			}
			if a == nil {
				return b
			}
			return a
		}, func(one *Inspector) ([]Count, error) { return one.DelayedHistogram(ctx, from, to, columns) })
	}
	edges := make([]time.Time, columns+1)
	for n := range columns {
		edges[n] = from.Add(time.Duration(n) * width)
	}
	edges[columns] = to
	h, err := query(ctx, i, func(s resque.Store, c redis.Conn) (resque.Histogram, error) { return s.Histogram(c, edges) })
	if err != nil {
		return nil, err
	}
	counts := make([]Count, columns)
	for n := range counts {
		counts[n] = exactly(h.Own[n] + h.Plain[n] + max(0, h.Rest[n])).all(h.Rest[n] <= 0)
	}
	return counts, nil
}
