package goworker

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// errorKind is what an error of a Redis command means for whoever sent it.
type errorKind int

const (
	// kindOther: the command itself was refused; the same one will be refused again.
	kindOther errorKind = iota
	// kindConn: the connection is gone, and whether the command ran is unknown.
	kindConn
	// kindWait: the server refuses now and may not refuse later; nothing was done.
	kindWait
	// kindNoScript: the server forgot a script; send its text.
	kindNoScript
	// kindNoPerm: the ACL of our user lacks a rule.
	kindNoPerm
	// kindWrongType: a key holds another type than Resque's.
	kindWrongType
	// kindAuth: the password is wrong or missing.
	kindAuth
)

var replyKinds = map[string]errorKind{
	"LOADING":     kindWait, // reading its data set at start
	"READONLY":    kindWait, // demoted to a replica
	"MASTERDOWN":  kindWait, // a replica that lost its master
	"NOREPLICAS":  kindWait, // min-replicas-to-write
	"OOM":         kindWait, // maxmemory
	"MISCONF":     kindWait, // cannot save to disk
	"BUSY":        kindWait, // somebody's script runs for long
	"CLUSTERDOWN": kindWait,
	"MOVED":       kindWait, // our slot has another master now
	"ASK":         kindWait, // our slot is moving, and this key has moved
	"TRYAGAIN":    kindWait, // our slot is moving, and some keys have moved
	"MAXCLIENTS":  kindWait,
	"NOSCRIPT":    kindNoScript,
	"NOPERM":      kindNoPerm,
	"WRONGTYPE":   kindWrongType,
	"NOAUTH":      kindAuth,
	"WRONGPASS":   kindAuth,
}

// classify tells what err means. It sees through wrapping; nil is kindOther.
func classify(err error) errorKind {
	var reply redis.Error
	if errors.As(err, &reply) {
		return replyKinds[replyCode(reply)]
	}
	if isConnError(err) {
		return kindConn
	}
	return kindOther
}

// replyCode returns the code an error reply begins with, or the one hidden in it:
// Redis before 7 wraps what a script's command met in an ERR of its own, and no
// version gives a code where the ACL refuses a command inside a script.
func replyCode(reply redis.Error) string {
	text := string(reply)
	code, rest, _ := strings.Cut(text, " ")
	if code != "ERR" {
		return code
	}
	switch {
	case strings.HasPrefix(rest, "The user executing the script can't"):
		return "NOPERM"
	case strings.HasPrefix(rest, "max number of clients"):
		return "MAXCLIENTS" // it has no code of its own
	case strings.HasPrefix(rest, "invalid password"):
		return "WRONGPASS" // Redis before 6
	case strings.HasPrefix(rest, "Error running script"), strings.HasPrefix(rest, "Error compiling script"): // the latter is miniredis'
		for word := range strings.FieldsSeq(rest) {
			if word = strings.TrimPrefix(word, "-"); replyKinds[word] != kindOther {
				return word
			}
		}
	}
	return code
}

// isConnError reports whether err comes from a connection and not from a server's
// reply. The connection is of no more use, and what was sent may have been done.
// The end of a context counts: redigo closes a connection it interrupted.
func isConnError(err error) bool {
	if err == nil {
		return false
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return false
	}
	var dial *dialError
	var network net.Error
	switch {
	case errors.As(err, &dial), errors.As(err, &network):
		return true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return true
	}
	// redigo's own have no type: "redigo: closed", and a reply that is no Redis
	// protocol, after which it closes the connection.
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := e.Error(); text == "redigo: closed" || strings.HasPrefix(text, "redigo: ") && strings.Contains(text, "possible server error") {
			return true
		}
	}
	return false
}

// mustRedial reports whether to drop the connection err came from: it is broken,
// or it leads to a server that is no longer the master or no longer knows us. A
// new one may find the right server behind the same name.
func mustRedial(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return isConnError(err)
	}
	switch replyCode(reply) {
	case "READONLY", "MASTERDOWN", "NOAUTH", "MOVED":
		return true
	}
	return false
}

// elsewhere reports whether err says that another server is, or is about to be, the
// one for our keys: nothing was done, and the same command will be taken there.
func elsewhere(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	switch replyCode(reply) {
	case "READONLY", "MASTERDOWN", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN":
		return true
	}
	return false
}
