package delayedbridge

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque/delayedwire"
)

// sweeper mends queues that no bridge works. start makes its fields; then only the goroutine of the loop uses them.
type sweeper struct {
	client *goworker.Client
	queues []string
	neighbor.Neighbor
	loop *part.Loop
	line conn.Line
}

func (s *sweeper) start(ctx context.Context) error {
	if len(s.queues) == 0 || slices.Contains(s.queues, "") {
		return errors.New("the sweeper of delayed needs the names of its queues; give them to Sweeper")
	}
	if err := goworker.Beside(&s.Neighbor, s.client); err != nil {
		return err
	}
	s.line = s.Line(0)
	s.loop = part.NewLoop(s.Base, "delayedbridge", s.turn)
	s.loop.End = s.line.Close
	err := s.line.Do(ctx, func(c redis.Conn) error {
		if err := delayedwire.Queue(s.queues[0]).Serves(c); err != nil {
			return err
		}
		return s.sweep(c)
	})
	if err != nil {
		s.line.Close()
		return err
	}
	s.loop.Start(ctx)
	return nil
}

func (s *sweeper) turn(ctx context.Context) (time.Duration, error) {
	return mendEvery - rand.N(mendEvery/10), s.line.Do(ctx, s.sweep)
}

// sweep mends every queue, though it fails at one.
func (s *sweeper) sweep(c redis.Conn) (err error) {
	for _, q := range s.queues {
		err = errors.Join(err, mend(c, s.Log, delayedwire.Queue(q)))
	}
	return err
}

// mend brings back the tasks of dead workers and makes the notifications that are missing.
func mend(c redis.Conn, log *slog.Logger, q delayedwire.Queue) error {
	did, err := q.Mend(c)
	if did.Tasks > 0 || did.Notifications > 0 {
		log.Info("mended a queue of delayed", "queue", string(q), "tasks of dead workers", did.Tasks, "missing notifications", did.Notifications)
	}
	return err
}
