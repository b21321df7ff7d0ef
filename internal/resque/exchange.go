package resque

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Limits of one exchange. A larger one would block Redis, and so every other client,
// for too long. The next exchange follows at once.
const (
	MaxExchangeJobs  = 512
	MaxExchangeBytes = 4 << 20
)

// Reserved is a job in a process's in-flight record.
type Reserved struct {
	Ticket  int64  // rises with every reservation of the process; LeasedTicket of a leased job
	Queue   string // the queue it came from and goes back to
	Payload []byte // the bytes as they were in the queue
	Lane    *Lane  // the lane it goes back to instead, if it was sorted
}

// Ask names one queue to reserve from, in the order of the list.
type Ask struct {
	Queue string
	Quota int // at most this many in the first pass; a second pass fills up
}

// Exchange is what a poller sends to Redis in one turn.
type Exchange struct {
	Process string
	Epoch   int64
	Last    int64  // the highest ticket given out so far
	Want    int    // reserve at most this many
	Handed  string // see HandedOut; "" leaves it as it is
	Arm     bool   // track queues found empty, so that Redis notifies us when they fill
	List    bool   // also return the names in the set of queues

	// Apart is from how many bytes on a payload is in a field of its own in the record; 0: none is. See apart.go.
	Apart int

	// Spent are tickets of jobs that have ended, Done among them, whose payloads may be in fields of their own.
	Spent []int64

	Done []int64 // and have no effects
	Asks []Ask

	brief *Script // to which Send has sent it; nil: it has not gone by a short script
	alone bool    // Send has sent it to take.lua or takeown.lua alone

	// Ended is committed before jobs are reserved. If one has a guard, or pushes its own job's bytes, all go by a script
	// of their own; if Redis did not know that script, it runs last, and the answer is Late. Jobs that go back to
	// the same list are ordered by ticket, highest first.
	Ended  []Ended
	parted parted // how Send has sent Ended

	// Sizes are queues whose lengths are to be returned. They are read before the rest.
	Sizes []string

	// Take runs after the rest. Want is 0 then.
	Take *Take

	// Sorting is done before Take; nil: there is none.
	Sorting *Sorting

	// Policy asks for the fleet's policy about queues, and registers the numbers of this
	// process's limits.
	Policy      bool
	TrackPolicy bool              // track it, so that Redis notifies us when it changes
	Limits      map[string]string // numbers by Limit.Spec
	Registered  bool              // they were registered before: add only what is missing

	// Sentry says who hears of pushes from now on; nil: that stays as it is.
	Sentry *Sentry
}

// Empty reports whether the exchange would hand in nothing and take nothing.
func (x *Exchange) Empty() bool {
	return x.Want == 0 && x.Handed == "" && !x.List && !x.Policy && x.Take == nil && x.Sorting == nil && x.Sentry == nil &&
		len(x.Done)+len(x.Ended)+len(x.Spent) == 0
}

// Reserves returns how many jobs the exchange may reserve.
func (x *Exchange) Reserves() int {
	if x.Take != nil {
		return x.Take.Want
	}
	return x.Want
}

// Errors of an exchange, a renewal or a resync whose process record is not as expected.
var (
	// ErrReaped: another process found this one dead and took its jobs.
	ErrReaped = errors.New("this process was found dead and its jobs were given to others")
	// ErrGone: the record is gone and no reaper took it: Redis lost data.
	ErrGone = errors.New("the record of this process is gone: Redis lost data")
	// ErrStale: the record has a newer epoch. Call Resync first.
	ErrStale = errors.New("the record of this process has a newer epoch")
)

// ErrAnswer is an answer that our scripts never give.
var ErrAnswer = errors.New("unexpected answer: do two versions of goworker share these keys, or is it not Redis that answers?")

// firstStatus returns the error that the first word of an answer names.
func firstStatus(answer []string) error {
	if len(answer) == 0 {
		return ErrAnswer
	}
	return statusError(answer[0])
}

func statusError(status string) error {
	switch status {
	case "ok":
		return nil
	case "reaped":
		return ErrReaped
	case "gone":
		return ErrGone
	case "stale":
		return ErrStale
	}
	return fmt.Errorf("a script answered %q: do two versions of goworker share these keys?", status)
}

// Send writes the exchange to the connection and flushes it. Receive must be
// the next call on the connection; in between the caller may do other work.
func (s Store) Send(c redis.Conn, x *Exchange) error {
	for _, queue := range x.Sizes {
		if err := c.Send("LLEN", s.KeyOfQueue(queue)); err != nil {
			return err
		}
	}
	if err := s.sendBell(c, x); err != nil {
		return err
	}
	s.shorten(x)
	if x.alone || x.brief != nil {
		x.parted = parted{}
	} else {
		x.parted.part(x.Ended)
	}
	if apart := x.parted.apart; len(apart) > 0 {
		if err := c.Send("EVALSHA", s.endedArgs(x, commitFor(apart).Hash())...); err != nil {
			return err
		}
	}
	if !x.alone {
		if err := s.sendExchange(c, x, "EVALSHA", x.script().Hash()); err != nil {
			return err
		}
	}
	if x.Policy {
		if err := s.sendPolicy(c, x); err != nil {
			return err
		}
	}
	if err := s.sendSorting(c, x.Sorting); err != nil {
		return err
	}
	if x.Take != nil && x.Take.Arm {
		if err := s.armTake(c, x); err != nil {
			return err
		}
	}
	if x.Take != nil {
		if err := c.Send("EVALSHA", s.takeArgs(x, x.Take.script().Hash())...); err != nil {
			return err
		}
	}
	for _, p := range s.sentryParts(c, x) {
		if err := p.send("EVALSHA", p.hash); err != nil {
			return err
		}
	}
	return c.Flush()
}

func (s Store) sendExchange(c redis.Conn, x *Exchange, eval, script string) error {
	if x.Arm {
		if err := s.sendArm(c); err != nil {
			return err
		}
	}
	if x.brief != nil {
		return c.Send(eval, s.briefArgs(x, script)...)
	}
	return c.Send(eval, s.exchangeArgs(x, script)...)
}

// again sends the exchange once more, alone, and receives its answer.
func (s Store) again(c redis.Conn, x *Exchange, eval, script string) (Exchanged, error) {
	if err := s.sendExchange(c, x, eval, script); err != nil {
		return Exchanged{}, err
	}
	if err := c.Flush(); err != nil {
		return Exchanged{}, err
	}
	return s.receiveCommit(c, x)
}

// Receive reads the answer to the exchange just sent.
func (s Store) Receive(c redis.Conn, x *Exchange) (Exchanged, error) {
	sizes, err := s.receiveSizes(c, x)
	if err != nil {
		return Exchanged{}, err
	}
	out, err := s.receiveCommit(c, x)
	out.Sizes = sizes
	return out, err
}

func (s Store) receiveSizes(c redis.Conn, x *Exchange) (sizes []int, err error) {
	for range x.Sizes {
		n, err := redis.Int(c.Receive())
		if _, refused := err.(redis.Error); err != nil && !refused {
			return nil, err
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

func (s Store) receiveCommit(c redis.Conn, x *Exchange) (Exchanged, error) {
	if len(x.parted.apart) > 0 || x.Policy || x.Take != nil || x.Sorting != nil || x.Sentry != nil {
		return s.receiveAll(c, x)
	}
	if x.Arm {
		if _, err := c.Receive(); err != nil {
			return Exchanged{}, err
		}
	}
	reply, err := c.Receive()
	if isNoScript(err) {
		return s.again(c, x, "EVAL", x.script().Text())
	}
	if err != nil {
		return Exchanged{}, err
	}
	if x.brief != nil && reply == nil {
		s.exchangeKeys(x.Process).briefs.refused()
		x.brief = nil
		x.parted.part(x.Ended)
		return s.again(c, x, "EVALSHA", x.script().Hash())
	}
	return s.exchanged(x, reply)
}

// part is a script of an exchange.
type part struct {
	armed bool
	hash  string // of the script, where send does not know it
	send  func(eval, script string) error
	text  string // for a server that does not know it
	reply any
}

// receiveAll is Receive for an exchange of several scripts. It reads all answers before it judges
// any, because the connection stays in use after some errors. If Redis did not know a script, it
// runs then, behind the others.
func (s Store) receiveAll(c redis.Conn, x *Exchange) (out Exchanged, err error) {
	commit := part{send: func(eval, _ string) error { return c.Send(eval, s.endedArgs(x, commitFor(x.parted.apart).Text())...) }}
	exchange := part{armed: x.Arm, text: x.script().Text(), send: func(eval, script string) error { return s.sendExchange(c, x, eval, script) }}
	take := part{send: func(eval, script string) error { return c.Send(eval, s.takeArgs(x, script)...) }}
	if x.Take != nil {
		take.text = x.Take.script().Text()
	}
	sentry := s.sentryParts(c, x)
	var unknown []*part
	receive := func(p *part) {
		if err == nil && p.armed {
			_, err = c.Receive()
		}
		if err != nil {
			return
		}
		if p.reply, err = c.Receive(); isNoScript(err) {
			unknown, err = append(unknown, p), nil
		}
	}
	receiveSentry := func(p *part) {
		receive(p)
		if refused, ok := err.(redis.Error); ok {
			p.reply, err = refused, nil // nobody loses a job by that
		}
	}
	var policy *Policy
	var broken []KeyError
	err = receiveBell(c, x)
	if len(x.parted.apart) > 0 {
		receive(&commit)
	}
	if !x.alone {
		receive(&exchange)
	}
	if x.Policy && err == nil {
		policy, broken, err = s.receivePolicy(c, x)
	}
	sorted := 0
	if err == nil {
		sorted, err = receiveSorting(c, x.Sorting)
	}
	if x.Take != nil && x.Take.Arm && err == nil {
		if _, err = c.Receive(); err == nil {
			_, err = c.Receive()
		}
	}
	again := false
	longer := func() { // takes the long way where the short one was refused
		if again = err == nil && x.takesAgain(take.reply); again {
			exchange.text, take.text = x.script().Text(), x.Take.script().Text()
			unknown = append(unknown, &exchange, &take)
		}
	}
	if x.Take != nil {
		receive(&take)
		longer()
	}
	for _, p := range sentry {
		receiveSentry(p)
	}
	for i := 0; i < len(unknown); i++ {
		p := unknown[i]
		if err == nil {
			err = p.send("EVAL", p.text)
		}
		if err == nil {
			err = c.Flush()
		}
		if slices.Contains(sentry, p) {
			receiveSentry(p)
		} else {
			receive(p)
		}
		if p == &take && !again {
			longer()
		}
	}
	if err == nil && !x.alone {
		out, err = s.exchanged(x, exchange.reply)
	}
	if err == nil && len(x.parted.apart) > 0 {
		err = s.ended(commit.reply, &out)
	}
	out.Late = slices.Contains(unknown, &commit) || len(x.parted.groups) > 0 && !again && slices.Contains(unknown, &exchange)
	if err == nil && x.Take != nil {
		if err = x.taken(take.reply, &out); err == nil {
			out.Broken = append(out.Broken, out.Taken.Broken...)
		}
	}
	if !x.sits() {
		out.Seat = x.seat(sentry)
	}
	out.Sorted = sorted
	out.Policy, out.Broken = policy, append(out.Broken, broken...)
	return out, err
}

func isNoScript(err error) bool {
	var e redis.Error
	return errors.As(err, &e) && strings.HasPrefix(string(e), "NOSCRIPT ")
}

// exchangeArgs returns the arguments of EVALSHA or EVAL, led by the script. This is the
// hot path, so it computes the size beforehand.
func (s Store) exchangeArgs(x *Exchange, script string) []any {
	const args = 11
	k, a := x.parted.size()
	a += args + len(x.Done) + 3*len(x.Asks) + len(x.Spent)
	c := endsCall{Call: Call{
		keys: make([]any, 2, 2+len(exchangeKeys{}.keys)+k+len(x.Asks)+a),
	}}
	c.before = 2
	if k > 0 {
		c.moving = make([]any, 0, k)
	}
	of := s.exchangeKeys(x.Process)
	used := of.used.Swap(nil)
	if used == nil {
		used = new(exchangeArgv)
	}
	c.argv = slices.Grow(used.argv, a)
	c.keys = append(c.keys, of.keys[:]...)

	limit, apart := x.limit()
	c.Arg(of.process, x.Epoch, x.Last, x.Want, limit, x.Handed, x.Arm, x.List)
	c.Arg(len(x.Done))
	for _, ticket := range x.Done {
		c.Arg(ticket)
	}
	first := 0
	if len(x.parted.groups) > 0 {
		first = s.ends(&c, &x.parted)
	}
	c.Arg(len(x.Asks))
	for _, a := range x.Asks {
		c.Arg(c.Key(s.KeyOfQueue(a.Queue)), JobPrefix(a.Queue), a.Quota)
	}
	if apart {
		c.Arg(len(x.Spent))
		for _, ticket := range x.Spent {
			c.Arg(ticket)
		}
	}
	if first > 0 {
		c.varying(first)
	}
	if x.sits() {
		c.Key(s.sentries(x.Sentry.Crew))
		c.Arg(MostSentries, placeHolds.Milliseconds())
	}
	c.keys[0], c.keys[1] = script, len(c.keys)-c.before
	all := append(c.keys, c.argv...)
	clear(c.argv) // it keeps no values
	used.argv = c.argv[:0]
	of.used.Store(used)
	return all
}

// JobPrefix returns what stands before a payload in an in-flight record or a schedule: "3:low{…}".
// So the record alone says to which queue the job goes back.
func JobPrefix(queue string) string {
	return strconv.Itoa(len(queue)) + ":" + queue
}

// CutPrefix splits a member of a record into its queue and its payload.
func CutPrefix(value []byte) (name string, rest []byte, ok bool) {
	digits, _, found := strings.Cut(string(value[:min(len(value), 12)]), ":")
	n, err := strconv.Atoi(digits)
	start := len(digits) + 1
	if !found || err != nil || n < 0 || n > len(value)-start || strconv.Itoa(n) != digits {
		return "", nil, false
	}
	return string(value[start : start+n]), value[start+n:], true
}
