package main

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

// fleet runs c.Producers daemons in this program. Each has connections, a lease and workers of its own, as a process has.
func fleet(c probe.Config, handlers map[string]probe.Handler) error {
	var group sync.WaitGroup
	errs := make([]error, c.Producers)
	for i := range errs {
		s := settings(c)
		s.Hostname = "host" + strconv.Itoa(i)
		s.Connections = 1
		d := goworker.New(s)
		for class, handler := range handlers {
			d.Register(class, handler)
		}
		group.Go(func() { errs[i] = d.Run(context.Background()) })
	}
	group.Wait()
	return errors.Join(errs...)
}
