package workflows

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var (
	dueScript    = load("duelooks")
	putoffScript = load("putoff")
	lookScript   = load("look")
	expireScript = load("expire")
	loseScript   = load("lose")
)

// Entry is a workflow in the index.
type Entry struct{ ID, Score string }

// DueLooks returns workflows that the sweep is to look at now, and how long it is until the next look that is not due;
// resque.Never if there is none. With from it returns no workflow that was due before.
func (s Store) DueLooks(c redis.Conn, from time.Time, most int) (now time.Time, due []Entry, next time.Duration, err error) {
	var a resque.Call
	a.Key(s.IndexKey().String())
	first := "-inf"
	if !from.IsZero() {
		first = strconv.FormatInt(from.UnixMilli(), 10)
	}
	a.Arg(first, most)
	r, err := redis.Strings(a.Do(c, dueScript))
	if err == nil && (len(r) < 2 || len(r)%2 != 0) {
		err = resque.ErrAnswer
	}
	if err != nil {
		return now, nil, 0, fmt.Errorf("reading which workflows are to be looked at: %w", resque.Explain(err))
	}
	ms, _ := strconv.ParseInt(r[0], 10, 64)
	next = resque.Never
	if at, err := strconv.ParseFloat(r[1], 64); err == nil && at-float64(ms) < float64(resque.Never/time.Millisecond) {
		next = time.Duration(max(at-float64(ms), 0)) * time.Millisecond
	}
	for i := 2; i+1 < len(r); i += 2 {
		due = append(due, Entry{r[i], r[i+1]})
	}
	return time.UnixMilli(ms), due, next, nil
}

// Standing is what the sweep reads of a workflow before it looks at it.
type Standing struct {
	Entry
	State   string // "": its hash is gone
	Halted  bool   // its steps do not run
	Paused  bool
	Open    bool          // members may be added from outside
	Pending bool          // it has an entry among the halted workflows
	Until   time.Time     // its deadline; zero: none
	Keep    time.Duration // how long it is kept once it has ended; 0: the default
	Outside int           // steps that end from outside
	More    bool          // the rest of a large group is to be sent
	Held    string        // "": no join waits for the sweep
	Again   bool          // a Retry is under way
	Round   string
	Ended   time.Time // since when it has been in its state, if that is not running; zero: nobody has said so
	Since   time.Time // since when its letters have not moved, as far as was looked
	Bits    int64     // how many bits of its letters are set
	Was     int64     // the same when it was looked at last; -1: never
	Letters int
	Stalled string // lost steps, as runs
	Lock    string
	Name    string
	Err     error // Redis refused to read it

	over string // the field: a state, and since when in ms
}

// Goes reports whether the workflow has not ended, so that its deadline counts.
func (w *Standing) Goes() bool { return w.State == StateRunning || w.State == StateRetrying }

// Over reports whether it has ended. It may still send steps, if it runs the rest after a failure.
func (w *Standing) Over() bool { return !w.Goes() }

// Sends reports whether joins send what is behind them.
func (w *Standing) Sends() bool {
	return w.State == StateRunning || w.State == StateFailed && !w.Halted
}

// Written reports whether the field over says in which state the workflow is, if it ever ended.
func (w *Standing) Written() bool {
	state, _, _ := strings.Cut(w.over, " ")
	return state == w.State || w.over == "" && w.Goes()
}

// Removal returns when the workflow is to be removed, if it stays as it is.
func (w *Standing) Removal(now time.Time) time.Time {
	at := now
	if !w.Ended.IsZero() {
		at = w.Ended
		if w.Since.After(at) {
			at = w.Since
		}
	}
	return at.Add(w.retention())
}

var standingFields = []any{
	"state", "rest", "paused", "until", "keep", "outside", "more", "held", "again", "round", "over", "looked", "stalled", "lock", "name", "open",
}

// ReadStandings reads workflows in one round trip.
func (s Store) ReadStandings(c redis.Conn, entries []Entry) ([]Standing, error) {
	b := resque.Batch{Conn: c}
	for _, e := range entries {
		b.Send("HMGET", append([]any{s.WorkflowKey(e.ID).String()}, standingFields...)...)
		b.Send("BITCOUNT", s.LettersKey(e.ID).String())
		b.Send("STRLEN", s.LettersKey(e.ID).String())
		b.Send("ZSCORE", s.HaltedKey().String(), e.ID)
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, fmt.Errorf("reading workflows: %w", err)
	}
	all := make([]Standing, len(entries))
	for i, e := range entries {
		all[i] = standing(e, replies[4*i:4*i+4])
	}
	return all, nil
}

func standing(e Entry, r []any) Standing {
	w := Standing{Entry: e, Was: -1}
	var bits, length int64
	fields, err := redis.ByteSlices(resque.Answer(r[0]))
	if err == nil && len(fields) != len(standingFields) {
		err = resque.ErrAnswer
	}
	if err == nil {
		w.State = string(fields[0])
		bits, err = redis.Int64(resque.Answer(r[1]))
	}
	if err == nil {
		length, err = redis.Int64(resque.Answer(r[2]))
	}
	if err != nil {
		w.Err = fmt.Errorf("workflow %s: %w", e.ID, resque.Explain(err))
		return w
	}
	field := make(map[any]string, len(fields))
	for i, f := range fields {
		field[standingFields[i]] = string(f)
	}
	w.Bits, w.Letters = bits, int(length)
	w.Paused = field["paused"] == "1"
	w.Halted = w.State == StateCancelled || w.State == StateExpired || w.State == StateFailed && field["rest"] != "1"
	score, refused := resque.Answer(r[3])
	w.Pending = refused == nil && score != nil
	w.Until, w.Keep = timeOf(field["until"]), time.Duration(wholeOf(field["keep"]))*time.Millisecond
	w.Outside = int(wholeOf(field["outside"]))
	w.More, w.Held, w.Again = field["more"] != "", field["held"], field["again"] != ""
	if w.Round = field["round"]; w.Round == "" {
		w.Round = "0"
	}
	w.Open, w.over = field["open"] != "", field["over"]
	if state, since, _ := strings.Cut(w.over, " "); state == w.State {
		w.Ended = timeOf(since)
	}
	if since, was, ok := strings.Cut(field["looked"], " "); ok {
		w.Since, w.Was = timeOf(since), wholeOf(was)
	}
	w.Stalled, w.Lock, w.Name = field["stalled"], field["lock"], field["name"]
	return w
}

// timeOf reads ms. Text of another program is no time.
func timeOf(text string) time.Time {
	if ms := wholeOf(text); ms > 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

func wholeOf(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return min(max(n, 0), 1000*resque.LastSecond)
}

// Look is what the sweep does to a workflow.
type Look struct {
	Next   time.Time // when to look again, unless there is more to do; zero: leave it as it is
	Moved  string    // the field looked: since when, in ms, and bits; "": unchanged
	More   bool      // send the rest of large groups
	Held   string    // all joins that waited when the counter held was this are among Joins, or were; "": not yet
	Quiet  string    // when the counter round was this, no step was sent or outside; "": not so
	Joins  []string  // to be settled
	pieces int
}

// mostPieces bounds the calls of one look, each of which sends up to 128 steps. The rest is due at once.
const mostPieces = 100

// Look looks at a workflow.
func (s Store) Look(c redis.Conn, e Entry, l Look) error {
	queue, more := "", l.More
	for {
		l.More = more && queue != ""
		state, next, err := s.look(c, e, &l, queue)
		if err != nil || !more || next == "" || l.pieces >= mostPieces || state == StateDone {
			return err
		}
		queue, l.Joins, l.pieces = next, nil, l.pieces+1
	}
}

func (s Store) look(c redis.Conn, e Entry, l *Look, queue string) (state, next string, err error) {
	at, more := "", ""
	if !l.Next.IsZero() {
		at = strconv.FormatInt(l.Next.UnixMilli(), 10)
	}
	if l.More {
		more = "1"
	}
	args := []any{e.Score, at, l.Moved, more, l.Held, l.Quiet}
	for _, j := range l.Joins {
		args = append(args, j)
	}
	r, err := s.run(c, lookScript, e.ID, queue, args...)
	if err == nil && len(r) != 3 {
		err = resque.ErrAnswer
	}
	if err != nil {
		return "", "", fmt.Errorf("looking at workflow %s: %w", e.ID, err)
	}
	return r[1], r[2], nil
}

// PutOff is a look that found nothing to do.
type PutOff struct {
	Standing
	Next  time.Time
	Moved string // the field looked; "": unchanged
}

// PutOff says of workflows when to look again. One that has moved meanwhile stays due. So does none that Redis refuses to
// read: it would be looked at all the time.
func (s Store) PutOff(c redis.Conn, looks []PutOff) error {
	if len(looks) == 0 {
		return nil
	}
	var a resque.Call
	a.Key(s.IndexKey().String())
	for _, l := range looks {
		a.Key(s.WorkflowKey(l.ID).String())
		a.Arg(l.ID, l.Score, l.Next.UnixMilli(), l.State, l.Moved)
	}
	if _, err := a.Do(c, putoffScript); err != nil {
		return fmt.Errorf("putting off looks at workflows: %w", resque.Explain(err))
	}
	return nil
}

// run runs a script of the sweep.
func (s Store) run(c redis.Conn, script *resque.Script, id, queue string, args ...any) (answer, error) {
	var a resque.Call
	for _, key := range append(s.keys(id, queue), s.StalledKey()) {
		a.Key(key.String())
	}
	a.Arg(queue)
	a.Arg(args...)
	r, err := do(c, script, &a)
	if err == nil && r[0] == "gone" {
		err = ErrNoWorkflow
	}
	return r, err
}

// Expire ends a workflow whose deadline has passed. failure is what its error handler gets.
func (s Store) Expire(c redis.Conn, id string, failure []byte) error {
	queue, err := s.handlerQueue(c, id)
	if err == nil {
		_, err = s.run(c, expireScript, id, queue, failure)
	}
	if err != nil {
		return fmt.Errorf("ending workflow %s at its deadline: %w", id, err)
	}
	return nil
}

// handlerQueue returns the queue of the workflow's own error handler; "": it has none.
func (s Store) handlerQueue(c redis.Conn, id string) (string, error) {
	scope, err := redis.String(c.Do("HGET", s.WorkflowKey(id).String(), "p0"))
	if words := strings.Fields(scope); err == nil && len(words) > 1 {
		var templates map[int]Template
		n, _ := strconv.Atoi(words[1])
		templates, err = s.Templates(c, id, []int{n})
		return templates[n].Queue, err
	}
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	return "", err
}

// Joins reads a page of the joins of a workflow whose members have all ended and that have not sent what they send. The
// cursor is "0" at both ends.
func (s Store) Joins(c redis.Conn, id, cursor string) (joins []string, next string, err error) {
	fields, next, err := s.scanHash(c, id, cursor, "j[0-9]*")
	for i := 0; i+1 < len(fields); i += 2 {
		words := bytes.Fields(fields[i+1])
		if len(words) == 10 && string(words[0]) == "0" && string(words[3]) != "z" {
			joins = append(joins, string(fields[i][1:]))
		}
	}
	return joins, next, err
}

// scanHash reads a page of the fields of a workflow that fit a pattern.
func (s Store) scanHash(c redis.Conn, id, cursor, pattern string) (fields [][]byte, next string, err error) {
	r, err := redis.Values(c.Do("HSCAN", s.WorkflowKey(id).String(), cursor, "MATCH", pattern, "COUNT", 1000))
	if err == nil && len(r) != 2 {
		err = resque.ErrAnswer
	}
	if err == nil {
		if next, err = redis.String(r[0], nil); err == nil {
			fields, err = redis.ByteSlices(r[1], nil)
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading workflow %s: %w", id, resque.Explain(err))
	}
	return fields, next, nil
}
