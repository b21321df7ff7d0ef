package goworker

import "time"

// Old names. They go on to work.

// Concurrency is MaxRunning.
//
// Deprecated: Use MaxRunning. WorkerSettings.Concurrency is something else: the workers of a
// process.
func Concurrency(n int, opts ...LimitOption) Limit { return MaxRunning(n, opts...) }

// InProcess is PerProcess.
//
// Deprecated: Use PerProcess.
func InProcess() LimitOption { return PerProcess() }

// Arg is ByArg.
//
// Deprecated: Use ByArg.
func Arg(index int, path ...string) KeyFunc { return ByArg(index, path...) }

// Fair is FairBy.
//
// Deprecated: Use FairBy.
func Fair(key KeyFunc) Option { return FairBy(key) }

// With is WithMiddleware.
//
// Deprecated: Use WithMiddleware.
func With(mw ...Middleware) Option { return WithMiddleware(mw...) }

// Fail is FailNow.
//
// Deprecated: Use FailNow.
func Fail(err error) error { return FailNow(err) }

// At is ProcessAt.
//
// Deprecated: Use ProcessAt.
func At(t time.Time) EnqueueOption { return ProcessAt(t) }

// In is ProcessIn.
//
// Deprecated: Use ProcessIn.
func In(d time.Duration) EnqueueOption { return ProcessIn(d) }

// Stuck is StuckJobs.
//
// Deprecated: Use StuckJobs.
func (d *Daemon) Stuck() []StuckJob { return d.StuckJobs() }

// Stuck is StuckJobs.
//
// Deprecated: Use StuckJobs.
func (s *Shards) Stuck() []StuckJob { return s.StuckJobs() }

// Stuck is StuckJobs.
//
// Deprecated: Use StuckJobs.
func Stuck() []StuckJob { return std().StuckJobs() }
