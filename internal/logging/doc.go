// Package logging makes the daemon's logger, and keeps it short: an outage is one line, and so is
// a trouble that lasts.
package logging
