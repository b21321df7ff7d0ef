package inspect

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// KeptSize returns how many payloads of a queue are kept: those of failed jobs that no failure record can hold, because they are too long, or large
// and no jobs. Nothing removes them but an operator.
func (i *Inspector) KeptSize(ctx context.Context, queue string) (int64, error) {
	if queue == "" {
		return 0, errors.New("goworker: the queue has no name; give it one")
	}
	if i.several() {
		return over(i, sum[int64], func(one *Inspector) (int64, error) { return one.KeptSize(ctx, queue) })
	}
	return query(ctx, i, func(s resque.Store, c redis.Conn) (int64, error) { return s.KeptSize(c, queue) })
}
