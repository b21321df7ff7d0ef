// Package goworkertest tests programs that enqueue and run jobs, without a Redis server. A test has three tools:
//
//   - A Client records what code under test enqueues. Nothing runs, and nothing leaves the test. See Enqueued,
//     RequireEnqueued and RequireNotEnqueued.
//   - Work runs one job once, through decoding, middleware, handler and the decision about a retry. See Result.
//   - A Runner runs a daemon's jobs to their end, with delays, schedules and retries, by a clock that the test moves.
//
// Whatever a test starts ends with it. No goroutine is left.
//
// The page docs/testing.md shows how tests are written. The Redis of Client and Runner is a double; the documentation of package
// embedded says what it cannot do.
package goworkertest
