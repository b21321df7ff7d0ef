package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
)

// The variants beside which a program listens to events: to how jobs end badly, or to all.
const (
	listenEnds = "events"
	listenAll  = "events-all"
)

// listener is a program that listens while a contender works.
type listener struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	done   int64 // jobs of which it saw the end
	err    error
}

// listen begins to listen, if the contender's variant asks for it. It begins when the contender has, because a process that is there hears
// of it at once, and one that begins with its next renewal. The listener is in the runner, not in the contender's process.
func (t trial) listen(ctx context.Context, s *server) (*listener, error) {
	l := &listener{cancel: func() {}}
	if t.c.variant != listenEnds && t.c.variant != listenAll {
		return l, nil
	}
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://" + s.addr + "/", Namespace: "resque:", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("listen to events: %w", err)
	}
	ctx, l.cancel = context.WithCancel(ctx)
	l.ended.Go(func() {
		defer client.Close()
		for e, err := range events.Watch(ctx, client, events.Filter{All: t.c.variant == listenAll}) {
			if l.err == nil && err != nil {
				l.err = err
			}
			if e.Kind == events.Done {
				l.done += e.Count
			}
		}
	})
	return l, nil
}

// stop ends it. A listener to all that saw no job end in a second says that the trial measured nothing.
func (l *listener) stop(t trial, took time.Duration) error {
	l.cancel()
	l.ended.Wait()
	switch {
	case l.err != nil:
		return fmt.Errorf("listen to events: %w", l.err)
	case t.c.variant == listenAll && l.done == 0 && took > time.Second:
		return fmt.Errorf("%d jobs took %s, and the listener saw none of them end", t.jobs, took)
	}
	return nil
}
