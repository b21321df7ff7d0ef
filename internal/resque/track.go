package resque

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var changeScript = script("change")

const invalidations = "__redis__:invalidate"

// NoticeChannel is the channel on which a program says that the notice of processes has changed. The message is the field.
func (s Store) NoticeChannel() string { return s.own("notice") }

// Names that ReceiveChanges returns beside the names of queues.
const (
	PauseChanged  = "\x00pause"
	QueuesChanged = "\x00queues"
	DelayedChange = "\x00delayed" // a schedule of delayed jobs, or the index of workflows
	Called        = "\x00called"  // the bell of this process: a sentry can take no more jobs
	KeyChanged    = "\x00key:"    // and behind it one of the keys that ReceiveChanges was given
	Noticed       = "\x00notice:" // and behind it the field of the notice that has changed
)

// Track makes the server push a message on the connection wake whenever a key
// changes that an arming exchange on conn has read. Neither connection may be used for
// anything else afterwards. Track proves that messages arrive with a key of its own. It returns an
// error when the server, a proxy or the user's permissions prevent that.
func (s Store) Track(conn, wake redis.Conn) error {
	id, err := s.redirect(conn, wake, "OPTIN")
	if err != nil {
		return err
	}
	// From here on Redis leaves out the changes that this connection makes itself.
	return each(conn, []any{"CLIENT", "TRACKING", "OFF"}, []any{"CLIENT", "TRACKING", "ON", "REDIRECT", id, "OPTIN", "NOLOOP"})
}

// TrackReads is Track for a connection that only reads: each key that it reads is tracked until it changes
// once. ReceiveDocuments receives the messages.
func (s Store) TrackReads(conn, wake redis.Conn) error {
	_, err := s.redirect(conn, wake)
	return err
}

// redirect turns tracking on and proves it. It returns the number of the connection wake.
func (s Store) redirect(conn, wake redis.Conn, mode ...any) (id int64, err error) {
	if id, err = redis.Int64(wake.Do("CLIENT", "ID")); err != nil {
		return 0, err
	}
	if err := wake.Send("SUBSCRIBE", invalidations); err != nil {
		return 0, err
	}
	if err := wake.Flush(); err != nil {
		return 0, err
	}
	if _, err := wake.Receive(); err != nil {
		return 0, err
	}
	probe := s.probe(fmt.Sprint(id))
	commands := [][]any{append([]any{"CLIENT", "TRACKING", "ON", "REDIRECT", id}, mode...)}
	if len(mode) > 0 {
		commands = append(commands, []any{"CLIENT", "CACHING", "YES"})
	}
	if err := each(conn, append(commands, []any{"EXISTS", probe})...); err != nil {
		return 0, err
	}
	var a Call
	a.Key(probe)
	if _, err := a.Do(conn, changeScript); err != nil {
		return 0, err
	}
	if _, err := redis.ReceiveWithTimeout(wake, time.Second); err != nil {
		return 0, fmt.Errorf("no message came when a watched key changed: %w", err)
	}
	return id, each(conn, []any{"DEL", probe})
}

// each sends commands until one fails.
func each(conn redis.Conn, commands ...[]any) error {
	for _, command := range commands {
		if _, err := conn.Do(command[0].(string), command[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// Arm has Redis watch the keys that the next command on the connection reads, if Track has set it up.
func (s Store) Arm(c redis.Conn) error {
	_, err := c.Do("CLIENT", "CACHING", "YES")
	return err
}

// Ping sends a PING on wake; ReceiveChanges receives the answer.
func (s Store) Ping(wake redis.Conn) error {
	if err := wake.Send("PING"); err != nil {
		return err
	}
	return wake.Flush()
}

// ReceiveChanges waits for the next message. It returns the names of the queues in it,
// PauseChanged, QueuesChanged, DelayedChange and names that AboutLanes reads, or all when everything
// may have changed. For each of these keys it returns KeyChanged and the key, and after HearNotice it returns Noticed and the field. An answer to a PING returns nothing. Silence for longer than the timeout is
// an error.
func (s Store) ReceiveChanges(wake redis.Conn, timeout time.Duration, watched ...string) (names []string, all bool, err error) {
	channel, payload, err := receive(wake, timeout)
	if err != nil || payload == silence {
		return nil, false, err
	}
	if channel == s.NoticeChannel() {
		field, err := redis.String(payload, nil)
		return []string{Noticed + field}, false, err
	}
	if payload == nil { // FLUSHALL
		return nil, true, nil
	}
	keys, err := redis.Strings(payload, nil)
	for _, key := range keys {
		if slices.Contains(watched, key) {
			names = append(names, KeyChanged+key)
		}
		switch name, isQueue := s.QueueOf(key); {
		case isQueue:
			names = append(names, name)
		case key == s.pauseAll():
			names = append(names, PauseChanged)
		case key == s.KeyOfQueues():
			names = append(names, QueuesChanged)
		case key == s.KeyOfSchedule() || key == s.KeyOfSeconds() || key == s.KeyOfHints() || key == s.workflows():
			names = append(names, DelayedChange)
		case strings.HasPrefix(key, s.bell("")):
			names = append(names, Called)
		default:
			if about := s.aboutLanes(key); about != "" {
				names = append(names, about)
			}
		}
	}
	return names, false, err
}

// ReceiveDocuments is ReceiveChanges for a connection of TrackReads. It returns the ids of the jobs whose
// documents or progress have changed.
func (s Store) ReceiveDocuments(wake redis.Conn, timeout time.Duration) (ids []string, all bool, err error) {
	keys, all, err := receiveKeys(wake, timeout)
	for _, key := range keys {
		for _, prefix := range []string{s.KeyOfResult(""), s.KeyOfProgress("")} {
			if id, ok := strings.CutPrefix(key, prefix); ok {
				ids = append(ids, id)
			}
		}
	}
	return ids, all, err
}

// HearNotice has the connection wake of Track also hear when the notice of processes has changed. Where the user may not use the
// channel, ReceiveChanges passes over the refusal: the renewals of leases read the notice anyway.
func (s Store) HearNotice(wake redis.Conn) error {
	if err := wake.Send("SUBSCRIBE", s.NoticeChannel()); err != nil {
		return err
	}
	return wake.Flush()
}

// receiveKeys waits for the next message of Redis about keys and returns them.
func receiveKeys(wake redis.Conn, timeout time.Duration) (keys []string, all bool, err error) {
	_, payload, err := receive(wake, timeout)
	switch {
	case err != nil || payload == silence:
		return nil, false, err
	case payload == nil: // FLUSHALL
		return nil, true, nil
	}
	keys, err = redis.Strings(payload, nil)
	return keys, false, err
}

// silence is the payload of what Redis sends beside messages.
const silence = "\x00silence"

// receive waits for what comes next. The payload of an answer to PING or SUBSCRIBE is silence.
func receive(wake redis.Conn, timeout time.Duration) (channel string, payload any, err error) {
	reply, err := redis.Values(redis.ReceiveWithTimeout(wake, timeout))
	if err != nil {
		if refused := redis.Error(""); errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOPERM") {
			return "", silence, nil
		}
		return "", nil, err
	}
	kind := ""
	if len(reply) > 0 {
		kind, _ = redis.String(reply[0], nil)
	}
	switch {
	case kind == "pong" || kind == "subscribe" && len(reply) == 3:
		return "", silence, nil
	case kind == "message" && len(reply) == 3:
		channel, _ = redis.String(reply[1], nil)
		return channel, reply[2], nil
	}
	return "", nil, errors.New("the connection that tells of changes got an answer it does not know")
}
