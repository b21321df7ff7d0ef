package producer

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

type answering struct{}

func (answering) Dial(context.Context) (redis.Conn, error) { return redistest.Answering(), nil }

// A lost reply is asked for again, however long it took to find that it is lost: a read takes longer than a connect may. While no
// reply comes the client's Retries bound it.
func TestRepeatAfterALongWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Client{Pool: conn.NewPool(answering{}, 1), Store: resque.New(""), Retries: 5 * time.Second}
		defer c.Pool.Close(errors.New("closed"))
		calls := 0
		lost, err := c.repeat(t.Context(), func(redis.Conn) error {
			if calls++; calls > 1 {
				return nil
			}
			time.Sleep(10 * time.Second)
			return io.EOF
		})
		if !lost || err != nil || calls != 2 {
			t.Errorf("after %d calls: lost %t, %v", calls, lost, err)
		}
		began := time.Now()
		lost, err = c.repeat(t.Context(), func(redis.Conn) error { time.Sleep(time.Second); return io.EOF })
		if took := time.Since(began); !lost || !Unconfirmed(err) || took < 5*time.Second || took > 10*time.Second {
			t.Errorf("without a reply: lost %t, %v after %s", lost, err, took)
		}
	})
}
