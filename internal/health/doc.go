// Package health knows how a daemon is: it counts what became of its jobs, and notices a goroutine that
// does not answer any more.
package health
