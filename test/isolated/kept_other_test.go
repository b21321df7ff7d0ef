//go:build unix && !linux

package isolated

import "github.com/goworker/goworker"

// registerKept registers nothing: a child runs one job only here.
func registerKept(*goworker.Daemon, func(string, ...any), goworker.IsolatedOption) {}
