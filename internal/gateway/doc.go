// Package gateway takes and gives jobs for clients that are no workers, such as those of the HTTP API. It has
// no HTTP in it.
//
// The desk carries what all clients want: one turn sends the acknowledgements and the asks that have come since the turn
// before. One turn is in flight at a time, so under load a turn carries many requests, and without load one. An ask that finds
// nothing waits in the desk's memory, in order of arrival. Redis notifies the desk when a queue changes that it found empty. The
// publisher does the same for jobs that are published.
//
// A Gateway holds no state that matters: a job is in its queue or it is leased, and any Gateway of the same
// Redis may end it. All methods are safe for concurrent use.
package gateway
