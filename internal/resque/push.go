package resque

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

var pushScript = newRowScript("push")

// How many values one row of a run has.
const runRow = 1000

// Push adds jobs to the tail of a queue, in their order, and the queue to the
// set of queues: all of it or, with an error, none of it. Only when the
// connection broke is it unknown whether the jobs are there. A *ReplicasError
// means that they are; see Replicated.
func (s Store) Push(c redis.Conn, queue string, payloads ...[]byte) error {
	var b Bulk
	for _, p := range payloads {
		if err := b.PutRaw(p, Place{Queue: queue}); err != nil {
			return err
		}
	}
	return s.PushBulk(c, &b)
}

// PushBulk pushes all jobs in one step. Each queue gets its jobs in the order in which they were added, and
// all queues get theirs at the same instant. If Redis would refuse an effect of one job, nothing is written
// for any of them. A job whose guards do not hold is not pushed, and nothing of it is written; Result
// says why.
//
// With an error nothing was pushed, unless Done reports that some jobs were; only when the connection broke
// is it unknown. With a *ReplicasError the jobs were pushed; see Replicated. After an error the same call
// may be made again: it goes on with what is not yet pushed.
func (s Store) PushBulk(c redis.Conn, b *Bulk) error {
	if len(b.jobs) == 0 {
		return nil
	}
	if err := b.fits(); err != nil {
		return err
	}
	return b.wrap(s.pushBulk(c, b))
}

// pushBulk is PushBulk, with errors that do not say of which jobs.
func (s Store) pushBulk(c redis.Conn, b *Bulk) error {
	if !b.rows {
		return s.pushPlain(c, b)
	}
	var few error
	for {
		left, err := s.pushRows(c, b)
		if err != nil && !errors.Is(err, ErrFewReplicas) {
			return err
		} else if err != nil {
			few = err
		}
		for _, l := range left {
			if err := l.ask(c); err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(b.units, func(u unit) bool { return !u.over }) {
			return few
		}
	}
}

// About returns an error of a push of the jobs that another goroutine makes, which may go on meanwhile.
func (b *Bulk) About(err error) error { return b.wrap(err) }

func (b *Bulk) wrap(err error) error {
	if err == nil || errors.Is(err, ErrFewReplicas) {
		return err
	}
	if b.rows { // its script has verbs too
		return fmt.Errorf("%s: %w", b.doing(), Explain(err))
	}
	return fmt.Errorf("%s: %w", b.doing(), explainIn(pushScript.plain.Text(), err))
}

// pushPlain pushes jobs that are just for the tails of their queues.
func (s Store) pushPlain(c redis.Conn, b *Bulk) error {
	if done, err := s.pushMany(c, b); done {
		return err
	}
	args := s.plainArgs(b)
	if len(args) > maxPushArgs {
		return tooMany(b, len(args), "what is written beside them")
	}
	reply, err := s.evalPush(c, b, "EVALSHA", args)
	if err != nil && isNoScript(err) {
		args[0] = pushScript.plain.load().textArg
		reply, err = s.evalPush(c, b, "EVAL", args)
	}
	if err != nil && !errors.Is(err, ErrFewReplicas) {
		return err
	}
	if reply != nil && b.hashes != nil { // one was refused, and nothing was written
		wrong, bad := redis.Strings(reply, nil)
		if b.doubt = bad != nil || len(wrong) != 2; b.doubt {
			return ErrAnswer
		}
		return refusal("", wrong[0], wrong[1]).whole()
	}
	b.pushed = len(b.units)
	for i := range b.units {
		b.units[i].over = true
	}
	if b.Types != nil && len(b.queues) == 1 && len(b.jobs) >= fewestPlain {
		b.Types.prove(s.KeyOfQueue(b.queues[0].name))
	}
	return err
}

// evalPush runs the script and waits for the replicas. With a *ReplicasError there is a reply too.
func (s Store) evalPush(c redis.Conn, b *Bulk, command string, args []any) (reply any, err error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	if s.replicas > 0 {
		reply, err = s.pushReplicated(c, command, args, &ReplicasError{To: b.to(), Jobs: len(b.jobs), Wanted: s.replicas})
	} else {
		reply, err = c.Do(command, args...)
	}
	b.doubt = err != nil && !errors.Is(err, ErrFewReplicas) && !isRefusal(err)
	return reply, err
}

// plainArgs returns the arguments of EVALSHA: the script's keys, then for each queue
// its name, the number of its jobs and the jobs. Each queue has one unit. All have their names in the same set.
func (s Store) plainArgs(b *Bulk) []any {
	args := b.argsRoom(4 + 3*len(b.queues) + len(b.jobs))[:3]
	args[0], args[1], args[2] = pushScript.plain.load().hashArg, 1+len(b.queues), s.KeyOfNames(b.queues[0].name)
	for _, q := range b.queues {
		args = append(args, s.KeyOfQueue(q.name))
	}
	if lifted := b.lifted(); lifted == 0 && b.hashes == nil {
		args = append(args, "")
	} else {
		args = slices.Grow(b.besideArgs(args, lifted), 2*len(b.queues)+len(b.jobs))
	}
	for i := range b.queues {
		q := &b.queues[i]
		jobs := b.units[q.run-1].jobs
		args = append(args, q.name, jobs)
		q.next = len(args)
		args = args[:len(args)+jobs]
	}
	start := 0
	for _, j := range b.jobs {
		q := &b.queues[j.queue]
		args[q.next] = b.buf[start:j.end:j.end]
		q.next++
		start = j.end
	}
	b.args = args // which may have grown
	return args
}

// besideArgs appends what plain jobs have beside them: its keys behind the queues, then new hashes, then '~', how many
// values follow, and these, or ”.
func (b *Bulk) besideArgs(args []any, lifted int) []any {
	if lifted > 0 {
		args = append(args, b.cancelled.name)
	}
	if b.hashes != nil {
		keys, values := b.hashes.args()
		args = append(append(args, keys...), values...)
		args[1] = len(args) - len(values) - 2
	} else {
		args[1] = len(args) - 2
	}
	if lifted == 0 {
		return append(args, "")
	}
	args = append(slices.Grow(args, 3+lifted), "~", 1+lifted, "ZREM")
	for i := range b.units {
		args = b.liftArgs(args, b.units[i].lifts)
	}
	return args
}

// pushRows makes one call for all units that are not over. It returns those whose guards did not hold.
func (s Store) pushRows(c redis.Conn, b *Bulk) (left []leftUnit, err error) {
	var args []any
	var units []*unit
	script, with := lockScript(), "their locks"
	if jobs := b.groupLocks(); jobs > 0 {
		args, units = s.lockArgs(b, jobs)
	} else {
		call := s.rowsOf(b)
		args, units, script, with = call.scriptArgs(""), call.units, call.script, "their guards and effects"
	}
	if len(args) > maxPushArgs {
		return nil, tooMany(b, len(args), with)
	}
	args[0] = script.load().hashArg
	reply, err := s.evalPush(c, b, "EVALSHA", args)
	if err != nil && isNoScript(err) {
		args[0] = script.load().textArg
		reply, err = s.evalPush(c, b, "EVAL", args)
	}
	if err != nil && !errors.Is(err, ErrFewReplicas) {
		return nil, err
	}
	left, wrong := s.answered(b, units, reply)
	if wrong != nil {
		b.doubt = !isRefusal(wrong)
		return nil, wrong
	}
	if !b.Done() {
		err = nil // about replicas, which have nothing to wait for
	}
	return left, err
}

func tooMany(b *Bulk, values int, with string) error {
	return fmt.Errorf("%s with %s are %d values, too many for one push: at most %d; push them in several",
		Plural(len(b.jobs), "job"), with, values, maxPushArgs)
}

// answered notes the script's answer about some units.
func (s Store) answered(b *Bulk, units []*unit, reply any) (left []leftUnit, err error) {
	if n, all := reply.(int64); all && n == int64(len(units)) {
		for _, u := range units {
			u.over = true
		}
		b.pushed += len(units)
		return nil, nil
	}
	answer, err := s.committed(reply)
	if err != nil {
		return nil, err
	}
	pushed, asked := answer.missing, false
	open := make(map[int64]bool)
	for _, r := range answer.refused {
		switch {
		case r.Ticket == 0:
			b.soft = append(b.soft, r.KeyError)
		case r.Ticket < 0 || r.Ticket > int64(len(units)):
			return nil, ErrAnswer
		case pushed == 0:
			return nil, r.whole()
		default:
			u := units[r.Ticket-1]
			u.over, u.by, u.err, open[r.Ticket] = true, "", r.KeyError, true
		}
	}
	for l := range slices.Chunk(answer.left, 4) {
		n, err := strconv.Atoi(l[0])
		if err != nil || n < 1 || n > len(units) || len(l) < 4 {
			return nil, ErrAnswer
		}
		open[int64(n)] = true
		left = append(left, leftUnit{units[n-1], l[2], l[3]})
		asked = asked || l[1] == "?"
	}
	if pushed == 0 && asked {
		return left, nil
	}
	if pushed != len(units)-len(open) {
		return nil, ErrAnswer
	}
	for i, u := range units {
		if !open[int64(i+1)] {
			u.over = true
		}
	}
	b.pushed += pushed
	return left, nil
}

// whole is the refusal as an error of the whole call.
func (r Refusal) whole() error {
	return fmt.Errorf("key %s: %w", r.Key, redis.Error(r.Reason))
}

// pushCall is a call with rows.
type pushCall struct {
	rowCall
	script *Script
	units  []*unit // those that the call brings
	tails  []span  // by queue: where the rows stand that put a job to its tail; empty: no job went there
}

// span is a part of the values of a call.
type span struct{ from, to int }

// rowsOf collects the arguments of a call for all units that are not over.
func (s Store) rowsOf(b *Bulk) *pushCall {
	call := &pushCall{rowCall: newRowCall(6+2*len(b.units), 16+2*len(b.jobs)+8*len(b.units)), tails: make([]span, len(b.queues))}
	first := s.firstWrite(b)
	call.Arg("")
	if first.verb == "" {
		call.Arg(0)
	} else {
		call.Arg(2 + len(first.args))
		call.Arg(first.verb, call.typed(first.keys[0]))
		call.Arg(first.args...)
	}
	var verbs []*Verb
	for i := range b.units {
		u := &b.units[i]
		if u.over {
			continue
		}
		switch {
		case u.guarded != nil:
			u.next = len(call.argv)
			call.Arg("") // the bytes
			effects := u.effects()
			verbs = addVerbs(verbs, effects)
			first := call.begin()
			call.ordered(effects, nil, 0, orders-1)
			verbs = s.place(call, b, u, verbs)
			call.ordered(effects, nil, orders-1, orders)
			call.end(first)
		default:
			call.Arg("")
			s.room(&call.rowCall, b, i)
			if u.kind == inRubys {
				verbs = addVerbs(verbs, []Effect{{file: delayVerb}})
			}
		}
		call.units = append(call.units, u)
	}
	s.fill(&call.rowCall, b)
	call.argv[0] = string(call.kinds)
	call.script = pushScript.with(verbs)
	return call
}

// effects are those of all parts of the job.
func (u *unit) effects() []Effect {
	if len(u.guarded) == 1 {
		return u.guarded[0].effects()
	}
	var all []Effect
	for i := range u.guarded {
		all = append(all, u.guarded[i].effects()...)
	}
	return all
}

// firstWrite is a write which Redis refuses if it would refuse the first one of a job, and which may be
// repeated. There is none if the jobs make do without memory, or if each job's own first write is such a one:
// then each job is refused by itself.
func (s Store) firstWrite(b *Bulk) (e Effect) {
	for i := range b.units {
		u := &b.units[i]
		switch {
		case u.over || u.guarded != nil && (u.isJust(replaceVerb) || len(u.guarded) == 1 && u.guarded[0].takesLock()):
		case u.kind == inRubys && u.guarded == nil:
			e = effect("ZADD", s.secondsKey(), "XX", 0, "")
		default:
			return effect("ZADD", s.ScheduleKey(), "XX", 0, "")
		}
	}
	return e
}

// isJust reports whether all effects of the job are one of this verb.
func (u *unit) isJust(v *Verb) bool {
	return len(u.guarded) == 1 && len(u.guarded[0].Effects) == 1 && u.guarded[0].Effects[0].file == v
}

// place adds the rows that put a guarded job into its place, and appends their verbs. They follow what may be refused.
func (s Store) place(c *pushCall, b *Bulk, u *unit, verbs []*Verb) []*Verb {
	name := b.queues[u.queue].name
	switch {
	case slices.ContainsFunc(u.guarded, func(g Guarded) bool { return g.Placed }):
	case u.kind == inSchedule:
		c.row(effect("later", s.ScheduleKey(), u.at), nil)
	case u.ahead > 0:
		ahead := aheadVerb.Effect([]Key{s.QueueKey(name)}, len(JobPrefix(name)), u.ahead)
		c.row(effect("SADD", s.NamesKey(name), name), nil)
		c.row(ahead, nil)
		verbs = addVerbs(verbs, []Effect{ahead})
	case c.tails[u.queue].to > 0: // the same for all jobs of the queue
		tail := c.tails[u.queue]
		c.argv = append(c.argv, c.argv[tail.from:tail.to]...)
	default:
		from := len(c.argv)
		c.row(effect("SADD", s.NamesKey(name), name), nil)
		c.row(effect("tail", s.QueueKey(name), len(JobPrefix(name))), nil)
		c.tails[u.queue] = span{from, len(c.argv)}
	}
	return verbs
}

// room appends the rows of the n-th unit, a run, without its jobs, for which it leaves room.
func (s Store) room(c *rowCall, b *Bulk, n int) {
	u := &b.units[n]
	c.Arg(0)
	first := len(c.argv)
	if b.hashes != nil {
		b.hashes.rows(c, n+1)
	}
	each := 1
	var head, tail []any
	switch u.kind {
	case inQueue:
		queue := b.queues[u.queue].name
		c.row(effect("SADD", s.NamesKey(queue), queue), nil)
		head = []any{"RPUSH", 0, c.typed(s.QueueKey(queue))}
	case inSchedule:
		each = 2
		head = []any{"ZADD", 0, c.typed(s.ScheduleKey())}
	case inRubys:
		head, tail = s.delayRow(c, Stamp{u.at})
	}
	u.next, u.room, u.skip = len(c.argv)+len(head), runRow, len(tail)+len(head)
	for left := u.jobs; left > 0; left -= runRow {
		n := each * min(left, runRow)
		head[1] = len(head) - 2 + n + len(tail)
		if u.kind == inRubys {
			head[2] = len(head) - 3 + n
		}
		c.Arg(head...)
		c.argv = slices.Grow(c.argv, n)[:len(c.argv)+n]
		c.Arg(tail...)
	}
	for lifts := range slices.Chunk(u.lifts, runRow/2) {
		c.row(effect("~ZREM", b.cancelled, b.liftArgs(nil, lifts)...), nil)
	}
	c.argv[first-1] = len(c.argv) - first
}

// fill puts the jobs where there is room for them.
func (s Store) fill(c *rowCall, b *Bulk) {
	start := 0
	for _, j := range b.jobs {
		u, bytes := &b.units[j.unit], b.buf[start:j.end:j.end]
		start = j.end
		switch {
		case u.over:
			continue
		case u.guarded != nil:
			c.argv[u.next] = bytes
			continue
		}
		if u.room == 0 { // the next row
			u.room = runRow
			u.next += u.skip
		}
		u.room--
		switch u.kind {
		case inQueue:
			c.argv[u.next] = bytes
			u.next++
		case inSchedule:
			c.argv[u.next], c.argv[u.next+1] = j.at, bytes
			u.next += 2
		case inRubys:
			c.argv[u.next] = c.extra(setKey(s.KeyOfJobSeconds(string(bytes))))
			u.next++
		}
	}
}
