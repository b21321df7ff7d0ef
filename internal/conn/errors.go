package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Kind is what an error of a Redis command means for the part that sent it.
type Kind int

const (
	// KindOther: the command itself was refused, and would be refused again.
	KindOther Kind = iota
	// KindConn: the connection is gone, and whether the command ran is unknown.
	KindConn
	// KindWait: the server refuses now but may accept later; nothing was done.
	KindWait
	// kindNoScript: the server does not know the script; send its text.
	kindNoScript
	// KindNoPerm: the ACL of our user lacks a rule.
	KindNoPerm
	// KindWrongType: a key holds another type than Resque's.
	KindWrongType
	// kindAuth: the password is wrong or missing.
	kindAuth

	// Kinds is how many kinds there are.
	Kinds int = iota
)

// String names a kind as metrics do. Script texts that the server does not know are no errors to anyone else: they are other.
func (k Kind) String() string {
	switch k {
	case KindConn:
		return "connection"
	case KindWait:
		return "unavailable"
	case KindNoPerm:
		return "permission"
	case KindWrongType:
		return "wrong_type"
	case kindAuth:
		return "auth"
	}
	return "other"
}

var replyKinds = map[string]Kind{
	"LOADING":     KindWait, // reading its data set at the start
	"READONLY":    KindWait, // demoted to a replica
	"MASTERDOWN":  KindWait, // a replica that lost its master
	"NOREPLICAS":  KindWait, // min-replicas-to-write
	"OOM":         KindWait, // maxmemory
	"MISCONF":     KindWait, // cannot save to disk
	"BUSY":        KindWait, // a script of another client runs for long
	"CLUSTERDOWN": KindWait,
	"MOVED":       KindWait, // our slot has another master now
	"ASK":         KindWait, // our slot is moving, and this key has moved
	"TRYAGAIN":    KindWait, // our slot is moving, and some keys have moved
	"MAXCLIENTS":  KindWait,
	"NOSCRIPT":    kindNoScript,
	"NOPERM":      KindNoPerm,
	"WRONGTYPE":   KindWrongType,
	"NOAUTH":      kindAuth,
	"WRONGPASS":   kindAuth,
}

// Classify returns what err means. It sees through wrapping; nil is KindOther.
func Classify(err error) Kind {
	var reply redis.Error
	if errors.As(err, &reply) {
		return replyKinds[replyCode(reply)]
	}
	if isConnError(err) {
		return KindConn
	}
	return KindOther
}

// replyCode returns the code an error reply begins with, or the one hidden in it.
// Redis before 7 wraps the error of a script's command in an ERR of its own. No
// version gives a code when the ACL refuses a command inside a script.
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
			if word = strings.TrimPrefix(word, "-"); replyKinds[word] != KindOther {
				return word
			}
		}
	}
	return code
}

// isConnError reports whether err comes from a connection and not from a server's
// reply. The connection is of no more use, and the command may have run.
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
	// redigo's own errors have no type: "redigo: closed", and a reply that is not Redis
	// protocol, after which redigo closes the connection.
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := e.Error(); text == "redigo: closed" || strings.HasPrefix(text, "redigo: ") && strings.Contains(text, "possible server error") {
			return true
		}
	}
	return false
}

// MustRedial reports whether to drop the connection err came from: it is broken,
// or it leads to a server that is no longer the master or no longer knows us. A
// new connection may find the right server behind the same name.
func MustRedial(err error) bool {
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

// Elsewhere reports whether err says that another server is, or will soon be, the
// master of our keys: nothing was done, and that server will take the same command.
func Elsewhere(err error) bool {
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

// MayPass reports whether an error of Dial may end by itself. That a certificate is
// not trusted does not.
func MayPass(err error) bool {
	var untrusted *tls.CertificateVerificationError
	kind := Classify(err)
	return (kind == KindConn || kind == KindWait) && !errors.As(err, &untrusted)
}

// Away reports whether err says that no server which takes writes could be reached, or that the context ended
// first. A server that refuses our login or our certificate was reached, and so was one that is out of memory.
func Away(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return MayPass(err)
	}
	switch replyCode(reply) {
	case "LOADING", "MAXCLIENTS":
		return true
	}
	return Elsewhere(err)
}

// Refused reports whether err is an answer of Redis that it would give again: for a permission, or the type of a key. The connection is
// whole.
func Refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && Classify(err) != KindWait
}

// MayServe reports whether the same command may be carried out later although it was refused with err, or
// could not be sent: the reason is not the command.
func MayServe(err error) bool {
	switch Classify(err) {
	case KindConn, KindWait, kindAuth:
		return true
	}
	return false
}
