// Package health reports the state of a daemon: it counts the ends of its jobs, and notices a goroutine
// that no longer answers.
package health
