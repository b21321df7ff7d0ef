// Package link has pairs of connections to Redis: one for commands, and one on which Redis
// notifies us of changed keys. The poller's is a Link.
package link
