package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

// obey begins to do a command, if the command is for this process, valid, and not done yet. It skips a command that arrives too late or
// is older than the process: the caller no longer waits for this process, or never did.
func (k *Control) obey(ctx context.Context, e control.Entry) {
	c, err := control.ParseCommand(e.Message)
	now := k.config.Now().UnixMilli()
	until, ends := min(c.Until, now+mostLives.Milliseconds()), min(c.Ends(), now+mostLives.Milliseconds())
	p := k.config.Process()
	names := control.Names{ID: p.ID, Host: p.Host, Name: p.Name}
	switch {
	case err != nil && !errors.Is(err, control.ErrVersion):
		k.refuse(c, err)
		return
	case !names.Meant(c.To) || until <= now || k.stale(c):
		return
	}
	call := &Call{Command: c, full: k.mayFully(c, e, now)}
	done := k.unsigned
	if call.full == nil {
		done = k.signed
	}
	first, full := done.first(c.ID, until, now)
	if !first && !full {
		return
	}
	verb, known := k.verb(c.Verb)
	switch {
	case err != nil: // of a newer form
	case full || !k.begin(call.full == nil):
		err = errBusy
	default:
		if err = k.refusal(verb, known, call); err != nil {
			k.end()
		}
	}
	if err != nil {
		k.refuse(c, err)
		k.answer(answer{id: c.ID, until: ends, reply: reply(p, nil, err)})
		return
	}
	lives := time.Duration(ends-now) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, lives)
	go func() {
		defer cancel()
		defer k.end()
		body, err := k.config.Common.do(ctx, verb, call, lives)
		k.answer(answer{id: c.ID, until: ends, reply: reply(p, body, err), after: call.after})
	}()
}

// stale reports whether a command is older than the process. Both times are by Redis's clock: the caller asked it before it read the
// leases, and the process before it had one. So the command of a caller that awaits this process is never older.
func (k *Control) stale(c control.Command) bool {
	since := k.config.Since()
	return since.IsZero() || c.At < since.UnixMilli()
}

// mayFully returns why a command may not do a verb of the level full; nil: it may.
func (k *Control) mayFully(c control.Command, e control.Entry, now int64) error {
	switch {
	case k.config.Level < Full:
		return levelError{c.Verb, k.config.Level}
	case k.config.Key == nil && k.config.Unsigned:
	case e.Signature == "" || k.config.Key == nil:
		return errUnsigned
	case !k.verified(e):
		return errForged
	}
	if c.Lives() > control.FullLives || c.At-now > control.FullLives.Milliseconds() {
		return errLong
	}
	return nil
}

// verified reports whether a command has a signature by the present key.
func (k *Control) verified(e control.Entry) bool {
	key, err := k.config.Key()
	if err != nil {
		k.base.Log.Error("the key of commands cannot be read, so a signed command is refused", "error", err)
		return false
	}
	return k.store.Signed(key, e.Message, e.Signature)
}

func (k *Control) verb(name string) (Verb, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, known := k.verbs[name]
	return v, known
}

// refusal returns why the process refuses a verb; nil: it obeys.
func (k *Control) refusal(v Verb, known bool, c *Call) error {
	switch {
	case !known:
		return unknown{c.Verb}
	case v.Level == Full && c.full != nil:
		return c.full
	case v.Addressed && len(c.To) == 0:
		return errAddress
	}
	return nil
}

// refuse logs a command that is refused, the same reason once in a row. The name of a verb is part of no reason: a program that
// writes to Redis could fill the log with commands of two names in turn.
func (k *Control) refuse(c control.Command, err error) {
	reason := err.Error()
	switch {
	case errors.As(err, new(unknown)):
		reason = "unknown verb"
	case errors.As(err, new(levelError)):
		reason = "level"
	}
	if k.said.News("refused", reason) {
		k.base.Log.Warn("a command was refused", "verb", c.Verb, "by", c.By, "error", err)
	}
}

// begin reports whether one more command may be done at this time.
func (k *Control) begin(signed bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.busy >= 2*mostAtOnce || !signed && k.busy >= mostAtOnce {
		return false
	}
	k.busy++
	return true
}

func (k *Control) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy--
}

// do calls the function of a verb, in a goroutine of its own, since it may end that. Then, and where it panics, there is an error.
func do(ctx context.Context, v Verb, c *Call) (body json.RawMessage, err error) {
	err = fmt.Errorf("the verb %s ended its goroutine and did not return", v.Name)
	done := make(chan struct{})
	go func() {
		defer close(done)
		body, err = call(ctx, v, c)
	}()
	<-done
	return body, err
}

func call(ctx context.Context, v Verb, c *Call) (body json.RawMessage, err error) {
	defer func() {
		if value := recover(); value != nil {
			body, err = nil, fmt.Errorf("the verb %s panicked: %v\n%s", v.Name, value, debug.Stack())
		}
	}()
	result, err := v.Do(ctx, c)
	if err != nil || result == nil {
		return nil, err
	}
	if body, err = json.Marshal(result); err != nil {
		return nil, fmt.Errorf("the answer of the verb %s is no JSON: %w", v.Name, err)
	}
	return body, nil
}

// answer is a reply that the loop has to send.
type answer struct {
	id    string // of the command
	until int64  // no caller waits for it later; in ms, by Redis's clock
	reply control.Reply
	after []func()
}

// mostError is how many bytes of an error an answer contains.
const mostError = 16 << 10

func reply(p resque.Process, body json.RawMessage, err error) control.Reply {
	r := control.Reply{Process: p.ID, Host: p.Host, Name: p.Name, Version: p.Version, Body: body}
	if err != nil {
		r.Error = err.Error()
		r.Error = r.Error[:min(len(r.Error), mostError)]
	}
	return r
}

// answer makes the loop send a reply.
func (k *Control) answer(a answer) {
	k.mu.Lock()
	k.answers = append(k.answers, a)
	k.mu.Unlock()
	k.loop.Wake()
}

// errRoom is the answer if Redis has no room for the reply.
var errRoom = fmt.Errorf("the answers to this command have more than %d MiB together; ask fewer processes at a time", control.MostAnswered>>20)

// send sends answers. It tries again until no caller waits for an answer. It drops an answer that Redis refuses, and sends the next
// ones.
func (k *Control) send(ctx context.Context, answers []answer) (denied error) {
	for n, a := range answers {
		text, bad := json.Marshal(a.reply)
		if bad != nil {
			text = nil // a Reply is always JSON
		}
		err := k.line.Do(ctx, func(c redis.Conn) error { return k.sendOne(c, a, text) })
		if err != nil && !refused(err) {
			left := answers[n:]
			if k.config.Now().UnixMilli() >= a.until {
				runAll(a.after)
				left = left[1:]
			}
			k.mu.Lock()
			k.answers = append(left, k.answers...)
			k.mu.Unlock()
			return err
		}
		if err != nil {
			denied = err
		}
		runAll(a.after)
	}
	return denied
}

// sendOne sends a reply in pieces. The caller reads it once, even if it was sent twice because Redis's answer was lost.
func (k *Control) sendOne(c redis.Conn, a answer, text []byte) error {
	for number := 0; ; number++ {
		size := min(len(text), control.PieceBytes)
		p := control.Piece{Process: a.reply.Process, Number: number, Last: size == len(text), Bytes: text[:size]}
		room, err := k.store.Answer(c, p, a.id, false)
		if err != nil || room && p.Last {
			return err
		}
		if !room {
			short := a.reply
			short.Body, short.Error = nil, errRoom.Error()
			text, _ := json.Marshal(short)
			_, err := k.store.Answer(c, control.Piece{Process: a.reply.Process, Last: true, Bytes: text}, a.id, true)
			return err
		}
		text = text[size:]
	}
}

func runAll(functions []func()) {
	for _, f := range functions {
		f()
	}
}
