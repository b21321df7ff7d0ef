package workflows

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// This file has what clients and operators do to a workflow that was started.

var (
	haltScript     = load("halt")
	pauseScript    = load("pause")
	retryScript    = load("retry")
	markScript     = load("mark")
	completeScript = load("complete")
)

var (
	// ErrOver is returned for a change that comes too late. The error says how the workflow ended.
	ErrOver = prefix.New("the workflow has ended")
	// ErrNothing is returned by a retry of a workflow in which nothing has failed.
	ErrNothing = prefix.New("nothing in the workflow has failed or was stopped, so there is nothing to retry")
	// ErrHeld is returned by a retry of a workflow whose unique name another one has by now.
	ErrHeld = prefix.New("another workflow runs under the same unique name; retry this one when that has ended")
	// ErrNoStep is returned for a number under which the workflow has no step.
	ErrNoStep = prefix.New("the workflow has no such step")
	// ErrWaits is returned for a step that was not sent yet.
	ErrWaits = prefix.New("the step waits for others, and what follows it would begin before those have ended; pause the workflow, and mark the step when it was sent")
	// ErrUnplaced is returned for a sent step of which nothing says where it stands in its workflow.
	ErrUnplaced = prefix.New("the step was sent, and its workflow has lost its place: another program has changed its keys; wait for the step's end, or cancel the workflow")
	// ErrLate is returned for a step that has ended.
	ErrLate = prefix.New("the step has ended")
	// ErrToken is returned for a token that no step has.
	ErrToken = prefix.New("no step has this token: it is cut off or changed, or its workflow was removed after its end")
)

// change runs a script that changes one workflow. hint is a queue for which it may send jobs; those for others go by the
// schedule.
func (s Store) change(c redis.Conn, script *resque.Script, id, hint string, beside []string, args ...any) (answer, error) {
	call := new(resque.Call)
	for _, key := range s.keys(id, hint) {
		call.Key(key.String())
	}
	for _, key := range beside {
		call.Key(key)
	}
	call.Arg(hint)
	call.Arg(args...)
	a, err := do(c, script, call)
	switch {
	case err != nil:
		return nil, s.named(c, id, hint, err)
	case a[0] == "gone":
		return nil, ErrNoWorkflow
	case a[0] == "ended":
		return a, fmt.Errorf("%w: it is %s", ErrOver, a.at(1))
	}
	return a, nil
}

// named explains an error, and names the key that has another type than it should.
func (s Store) named(c redis.Conn, id, queue string, err error) error {
	if !resque.IsWrongType(err) {
		return resque.Explain(err)
	}
	reads := [...]struct{ command, want string }{{"STRLEN", "string"}, {"HLEN", "hash"}, {"ZCARD", "sorted set"}, {"HLEN", "hash"},
		{"ZCARD", "sorted set"}, {"SCARD", "set"}, {"ZCARD", "sorted set"}, {"LLEN", "list"}}
	keys := s.keys(id, queue)
	b := resque.Batch{Conn: c}
	for i, key := range keys {
		b.Send(reads[i].command, key.String())
	}
	replies, failed := b.Receive()
	for i := 0; failed == nil && i < len(keys); i++ {
		if _, refused := resque.Answer(replies[i]); resque.IsWrongType(refused) {
			return &resque.KeyTypeError{Key: keys[i].String(), Want: reads[i].want, Err: err}
		}
	}
	return resque.Explain(err)
}

// Halt cancels a workflow, and returns the state that it had. One that was cancelled before stays as it is. The error
// matches ErrNoWorkflow or ErrOver.
func (s Store) Halt(c redis.Conn, id string) (was string, err error) {
	a, err := s.change(c, haltScript, id, "", nil)
	if was = a.at(1); was == StateCancelled {
		err = nil
	}
	return was, err
}

// Hold pauses a workflow, or resumes it, and reports whether it was paused before. The error matches ErrNoWorkflow or ErrOver.
func (s Store) Hold(c redis.Conn, id string, pause bool) (was bool, err error) {
	what := "resume"
	if pause {
		what = "pause"
	}
	a, err := s.change(c, pauseScript, id, "", nil, what)
	return a.at(1) == "1", err
}

// RetryTogether is how many steps a piece of a retry sends.
const RetryTogether = 500

// Piece is a piece of a retry.
type Piece struct {
	Sent  int
	Over  bool   // it was the last one
	State string // of the workflow
}

// Retry sends a piece of the steps that failed or were not run. The first call has begin set. Later ones, and those of
// the sweep, go on with what was begun; then there may be nothing to do. The error matches ErrNoWorkflow, ErrNothing or ErrHeld.
func (s Store) Retry(c redis.Conn, id string, begin bool) (Piece, error) {
	what := "go on"
	if begin {
		what = "begin"
	}
	hint, err := s.retryHint(c, id)
	if err != nil {
		return Piece{}, err
	}
	name, holder := "", ""
	for range mostHolders {
		var beside []string
		if name != "" {
			beside = []string{s.LockKey(name).String(), s.WorkflowKey(holder).String()}
		}
		a, err := s.change(c, retryScript, id, hint, beside, what, RetryTogether, name, holder)
		if err != nil {
			return Piece{}, err
		}
		switch {
		case a[0] == "idle" && begin:
			return Piece{}, fmt.Errorf("%w: it is %s", ErrNothing, a.at(1))
		case a[0] == "idle":
			return Piece{Over: true, State: a.at(1)}, nil
		case a[0] == "held":
			return Piece{}, fmt.Errorf("%w: %s", ErrHeld, a.at(1))
		case a[0] == "holder" && len(a) == 3:
			if name, holder = a[1], a[2]; name != "" && holder == "" {
				holder, err = redis.String(c.Do("GET", s.LockKey(name).String()))
				if err != nil && !errors.Is(err, redis.ErrNil) {
					return Piece{}, resque.Explain(err)
				}
			}
			continue
		case len(a) == 3:
			p := Piece{Over: a[0] == "over", State: a[2]}
			p.Sent, err = strconv.Atoi(a[1])
			return p, err
		}
		break
	}
	return Piece{}, resque.ErrAnswer
}

// mostHolders is how often a retry looks which workflow holds a lock while others take and give it.
const mostHolders = 20

// retryHint returns the queue of the step that is sent first.
func (s Store) retryHint(c redis.Conn, id string) (queue string, err error) {
	again, err := redis.String(c.Do("HGET", s.WorkflowKey(id).String(), "again"))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return "", s.named(c, id, "", err)
	}
	first, _, _ := strings.Cut(again, " ")
	from, _ := strconv.Atoi(first)
	page, err := redis.String(c.Do("GETRANGE", s.LettersKey(id).String(), from, from+lettersPage-1))
	if err != nil {
		return "", s.named(c, id, "", err)
	}
	at := strings.IndexAny(page, string([]byte{Failed, NotRun}))
	if at < 0 {
		return "", nil
	}
	why, err := redis.String(c.Do("HGET", s.WorkflowKey(id).String(), "f"+strconv.Itoa(from+at)))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return "", s.named(c, id, "", err)
	}
	f, _ := parseFailed(why)
	return f.again.Queue, nil
}

// Mark ends a step as done, whatever becomes of its job, and returns the letter that it had. The place is needed only of a step that
// was sent. result is JSON, with a '+' before the list of several values; nil: none. The error matches ErrNoWorkflow,
// ErrOver, ErrNoStep, ErrWaits, ErrUnplaced or ErrLate.
func (s Store) Mark(c redis.Conn, id string, step int, place string, result []byte) (was byte, err error) {
	return s.mark(c, id, step, Done, place, result, "")
}

// PlaceOfSent returns the place of a step that was sent, for Mark. It is "" if the step has another letter, or if nothing
// says the place. The error matches ErrNoStep if there is no such step.
func (s Store) PlaceOfSent(c redis.Conn, id string, number int) (place string, err error) {
	step, err := s.OneStep(c, id, number)
	if err != nil || step.Letter != Sent {
		return "", err
	}
	if place, ok := PlaceOf(step.Payload); ok {
		return place, nil
	}
	places, err := s.places(c, id, []int{number})
	return places[number], err
}

// Removed ends a step whose waiting job was removed as failed. A job that is no step, or whose step does not wait for it, is
// passed over.
func (s Store) Removed(c redis.Conn, queue string, raw []byte) error {
	place, ok := PlaceOf(raw)
	if !ok {
		return nil
	}
	p, err := payload.Parse(raw)
	if err != nil {
		return nil
	}
	id, step, ok := SplitID(p.ID)
	if !ok {
		return nil
	}
	again, err := payload.ForRetry(raw, true)
	if err != nil {
		again = raw
	}
	letter := byte(Sent)
	if string(p.Field(External)) == "true" {
		letter = Outside
	}
	why := StepFailure{Step: step, ID: p.ID, Class: p.Class, Queue: queue, Exception: "Removed", Error: "the job was removed", State: "removed"}
	_, err = s.mark(c, id, step, Failed, place, why.JSON(), string(letter)+" n - 0 0 0 0 "+resque.JobPrefix(queue)+string(again))
	for _, late := range []error{ErrNoWorkflow, ErrOver, ErrNoStep, ErrWaits, ErrLate} {
		if errors.Is(err, late) {
			return nil
		}
	}
	return err
}

// External is the field of a payload whose step ends by its token.
const External = "external"

// Any reports whether there may be workflows that have not ended.
func (s Store) Any(c redis.Conn) (bool, error) {
	n, err := redis.Int(c.Do("ZCARD", s.IndexKey().String()))
	if resque.IsWrongType(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("looking for workflows: %w", resque.Explain(err))
	}
	return n > 0, nil
}

func (s Store) mark(c redis.Conn, id string, step int, to byte, place string, value []byte, again string) (was byte, err error) {
	hint := ""
	if p, ok := ParsePlace(place); ok {
		hint = p.Queue
	} else {
		place = ""
	}
	a, err := s.change(c, markScript, id, hint, nil, step, string(to), value, place, again)
	if err != nil {
		return 0, err
	}
	switch a[0] {
	case "ok", "late":
		if letter := a.at(1); letter != "" {
			was = letter[0]
		}
		if a[0] == "late" {
			err = fmt.Errorf("%w: it %s", ErrLate, Ended(was))
		}
		return was, err
	case "waits":
		return 0, ErrWaits
	case "none":
		return 0, ErrNoStep
	case "unplaced":
		return 0, ErrUnplaced
	}
	return 0, resque.ErrAnswer
}

// Ended says in words how a step with this letter has ended.
func Ended(letter byte) string {
	switch letter {
	case Done:
		return "is done"
	case Failed:
		return "has failed"
	case NotRun:
		return "was not run"
	}
	return "has not ended"
}

// Completed says what a token did.
type Completed struct {
	Changed bool
	Was     byte // the step's letter before
}

// Complete ends a step from outside: as done with a result, or as failed. value is JSON. A second call changes nothing,
// and is no error. The error matches ErrToken.
func (s Store) Complete(c redis.Conn, token string, to byte, value []byte) (Completed, error) {
	id, step, secret, ok := SplitToken(token)
	if !ok {
		return Completed{}, ErrToken
	}
	known, err := redis.String(c.Do("HGET", s.WorkflowKey(id).String(), "k"+strconv.Itoa(step)))
	if errors.Is(err, redis.ErrNil) {
		return Completed{}, ErrToken
	} else if err != nil {
		return Completed{}, s.named(c, id, "", err)
	}
	hint := ""
	if words := strings.SplitN(known, " ", 3); len(words) == 3 {
		if p, ok := ParsePlace(words[2]); ok {
			hint = p.Queue
		}
	}
	a, err := s.change(c, completeScript, id, hint, nil, step, secret, string(to), value)
	if errors.Is(err, ErrNoWorkflow) || err == nil && a[0] == "wrong" {
		err = ErrToken
	}
	if err != nil {
		return Completed{}, err
	}
	done := Completed{Changed: a[0] == "ok"}
	if letter := a.at(1); letter != "" {
		done.Was = letter[0]
	}
	return done, nil
}
