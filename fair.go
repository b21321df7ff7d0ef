package goworker

import (
	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/resque"
)

// Fair makes the jobs of a class take turns by a key: one of each key that has jobs
// waiting, whoever pushed how many, and those of one key in order. So one tenant's million
// jobs do not keep another's ten waiting. The turns are those of the whole queue: all
// processes of the fleet take them together.
func Fair(key KeyFunc) Option {
	return option(func(o *options) {
		o.once("by which key jobs take turns", "Fair")
		l := Limit{limit: limits.Limit{Kind: resque.LimitNone}}
		l.keyed("Fair", key)
		l.register(o)
	})
}
