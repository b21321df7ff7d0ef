package goworker

import "github.com/goworker/goworker/internal/resque"

// Fair makes the jobs of a class take turns by a key: one of each key that has jobs
// waiting, whoever pushed how many, and those of one key in order. So one tenant's million
// jobs do not keep another's ten waiting. The turns are those of the whole queue: all
// processes of the fleet take them together. It panics if there is no function.
func Fair(key KeyFunc) Option {
	mustKey(key, "Fair")
	return option(func(o *options) {
		o.limits = append(o.limits, Limit{kind: resque.LimitNone, key: key})
	})
}
