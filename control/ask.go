package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

// lookEvery is how often a waiting call looks whether the processes that have not answered still have a lease.
const lookEvery = time.Second

// pair is one step of a call's iterator.
type pair struct {
	reply Reply
	err   error
}

// ask implements Inspect and Do.
func (c *Control) ask(ctx context.Context, verb string, change bool, opts []CallOption) iter.Seq2[Reply, error] {
	o := call{timeout: DefaultTimeout}
	for _, opt := range opts {
		opt(&o)
	}
	return func(yield func(Reply, error) bool) {
		cmd, err := c.command(verb, o)
		var key []byte
		if err == nil && c.keyFile != "" {
			key, err = control.ReadKey(c.keyFile)
			err = prefix.Of(err)
		}
		if err != nil {
			yield(Reply{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		doors := c.of.Inspect().Doors()
		pairs := make(chan pair)
		defer func() { // even if yield panics
			cancel()
			for range pairs { // so that no round waits for a caller that has left the loop
			}
		}()
		rounds := make([]round, len(doors))
		for i, door := range doors {
			rounds[i] = round{control: c, door: door, command: cmd, key: key, change: change, call: o, pairs: pairs, several: len(doors) > 1}
			wg.Go(func() { rounds[i].run(ctx) })
		}
		go func() {
			wg.Wait()
			close(pairs)
		}()
		for p := range pairs {
			if !yield(p.reply, p.err) {
				return
			}
		}
		if err := nobody(rounds); err != nil {
			yield(Reply{}, err)
		}
	}
}

// nobody returns why the call asked no process; nil: it asked some, or the caller has got an error.
func nobody(rounds []round) error {
	err := ErrNobody
	for _, r := range rounds {
		switch {
		case r.failed || r.meant > 0:
			return nil
		case r.there > 0:
			err = ErrNoMatch
		}
	}
	return err
}

// round is a call on one Redis.
type round struct {
	control *Control
	door    inspect.Door
	command control.Command
	key     []byte
	change  bool
	call    call
	several bool
	pairs   chan<- pair

	members map[string]control.Member // that the call addresses, by id

	there, meant int  // how many processes hold a lease, and how many of them the call addresses
	failed       bool // the caller has got an error
}

// run asks the processes of one Redis, and yields their answers.
func (r *round) run(ctx context.Context) {
	err := r.door.Do(ctx, func(s resque.Store, c redis.Conn) error { return r.over(ctx, control.New(s), c) })
	if err != nil {
		r.failed = true
		if r.several {
			err = prefix.Errorf("shard %s: %w", r.door.Name(), err)
		}
		r.hand(ctx, Reply{}, prefix.Of(err))
	}
}

// hand yields a pair, unless the caller has left the loop.
func (r *round) hand(ctx context.Context, reply Reply, err error) {
	if r.several {
		reply.Shard = r.door.Name()
	}
	select {
	case r.pairs <- pair{reply, err}:
	case <-ctx.Done():
		if reply.Process == "" { // the error says that the context has ended
			r.pairs <- pair{reply, err}
		}
	}
}

// over asks on a connection.
func (r *round) over(ctx context.Context, s control.Store, c redis.Conn) error {
	now, members, err := s.Members(c)
	if err != nil {
		return err
	}
	r.there = len(members)
	members = slices.DeleteFunc(members, func(m control.Member) bool { return !m.Meant(r.command.To) })
	if r.meant = len(members); r.meant == 0 {
		return nil
	}
	awaited, deaf := make(map[string]control.Member), []*SilentError(nil)
	r.members = make(map[string]control.Member, len(members))
	for _, m := range members {
		r.members[m.ID] = m
		e := &SilentError{Process: m.ID, Version: m.Version, Age: m.Age, TooOld: m.Known && m.Control == "", Off: m.Control == "off"}
		if e.TooOld || e.Off {
			deaf = append(deaf, e)
		} else {
			awaited[m.ID] = m
		}
	}
	if len(awaited) > 0 {
		if err := r.announce(s, c, now); err != nil {
			return err
		}
		if err := r.receive(ctx, s, c, awaited); err != nil {
			return err
		}
	}
	if len(awaited) > 0 {
		silent, err := r.silent(s, c, awaited, false)
		if err != nil {
			return err
		}
		deaf = append(silent, deaf...)
	} else if len(deaf) < len(members) {
		_ = s.Forget(c, r.command.ID) // if this fails, the answers expire in a minute
	}
	for _, e := range deaf {
		r.silence(ctx, e)
	}
	return nil
}

// silence hands out that a process did not answer.
func (r *round) silence(ctx context.Context, e *SilentError) {
	m := r.members[e.Process]
	r.hand(ctx, Reply{Process: e.Process, Host: m.Host, Name: m.Name, Version: e.Version}, e)
}

// announce writes the command.
func (r *round) announce(s control.Store, c redis.Conn, now time.Time) (err error) {
	cmd := r.command
	lives := min(r.call.timeout, control.FullLives) // a process refuses a command of the level full that is valid for longer
	cmd.At, cmd.Until = now.UnixMilli(), now.Add(lives).UnixMilli()
	if lives < r.call.timeout {
		cmd.Wait = r.call.timeout.Milliseconds()
	}
	var a control.Announcement
	if a.Message, err = cmd.Encode(); err != nil {
		return err
	}
	if len(r.key) > 0 {
		a.Signature = s.Sign(r.key, a.Message)
	}
	if r.change {
		e := inspect.AuditEntry{
			At: now.UTC().Truncate(time.Millisecond), Who: cmd.By, User: resque.User(c), Face: cmp.Or(r.call.face, r.control.face), Why: r.call.why,
			What: "Control " + cmd.Verb, On: logging.Shorten(on(cmd), mostText), Changed: int64(r.meant),
		}
		if a.Audit, err = json.Marshal(e); err != nil {
			return err
		}
	}
	_, err = s.Announce(c, a)
	return err
}

// mostText is how many bytes the audit has of a command's addresses and arguments.
const mostText = 500

// receive yields answers until each process has answered or left, or the time is over. It removes from awaited each process that it
// has yielded.
func (r *round) receive(ctx context.Context, s control.Store, c redis.Conn, awaited map[string]control.Member) error {
	began := clock.System.Now()
	looked, ends := began, began.Add(r.call.timeout)
	after, answers := "0", assembler{parts: make(map[string]*assembly)}
	for len(awaited) > 0 {
		left := clock.Until(clock.System, ends)
		if left <= 0 {
			return nil
		}
		pieces, err := s.ReadAnswers(c, r.command.ID, after, min(left, lookEvery))
		if err != nil {
			return err
		}
		for _, p := range pieces {
			after = p.ID
			if _, asked := awaited[p.Process]; !asked {
				continue // the process sent it again, because it lost Redis's reply; or another program that writes to Redis forged it
			}
			whole, bad := answers.add(p)
			if whole == nil && bad == nil {
				continue
			}
			delete(awaited, p.Process)
			r.answered(ctx, p.Process, whole, bad, clock.Since(clock.System, began))
		}
		if now := clock.System.Now(); now.Sub(looked) >= lookEvery && len(awaited) > 0 {
			looked = now
			gone, err := r.silent(s, c, awaited, true)
			if err != nil {
				return err
			}
			for _, e := range gone {
				delete(awaited, e.Process)
				r.silence(ctx, e)
			}
		}
	}
	return nil
}

// answered yields the answer of a process.
func (r *round) answered(ctx context.Context, process string, whole []byte, bad error, after time.Duration) {
	var said control.Reply
	if bad == nil {
		bad = json.Unmarshal(whole, &said)
	}
	reply := Reply{Process: process, Host: said.Host, Name: said.Name, Version: said.Version, Body: said.Body, After: after}
	switch {
	case bad != nil:
		r.hand(ctx, reply, &RefusedError{process, fmt.Sprintf("its answer cannot be read: %v", bad)})
	case said.Error != "":
		r.hand(ctx, reply, &RefusedError{process, said.Error})
	default:
		r.hand(ctx, reply, nil)
	}
}

// silent returns an error for each process that is still awaited, with the present age of its lease. With gone it returns only
// processes that no longer have a lease.
func (r *round) silent(s control.Store, c redis.Conn, awaited map[string]control.Member, gone bool) (silent []*SilentError, err error) {
	_, members, err := s.Members(c)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(awaited)) {
		e := &SilentError{Process: id, Version: awaited[id].Version, Gone: true}
		for _, m := range members {
			if m.ID == id {
				e.Gone, e.Age = false, m.Age
			}
		}
		if e.Gone || !gone {
			silent = append(silent, e)
		}
	}
	return silent, nil
}
