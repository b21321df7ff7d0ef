// Package logging makes the daemon's logger and keeps the log short: an outage is one line, and so
// is a lasting problem.
package logging
