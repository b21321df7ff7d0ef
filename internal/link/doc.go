// Package link is a pair of connections to Redis: one for exchanges, and one on which Redis
// notifies us of changed keys.
package link
