package webhook

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// The consumer group, and its one consumer.
const (
	group    = "deliverers"
	consumer = "deliverer"
)

// Entry is an entry of a stream.
type Entry struct {
	ID      string
	Event   string
	Args    string // of the job; "": they were not asked for, or there are too many
	Foreign bool   // no process wrote it: it has other fields, or too many bytes. The rest is empty
}

// ErrNoStream says that the stream or its group is gone. Attend makes them again.
var ErrNoStream = errors.New("the stream of the webhook, or its consumer group, is gone")

// explain wraps what Redis answered.
func (s Store) explain(doing, name string, err error) error {
	var refused redis.Error
	if errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOGROUP") {
		err = ErrNoStream
	} else if err = resque.Explain(err); errors.As(err, &refused) && strings.Contains(string(refused), "NOGROUP") {
		err = ErrNoStream // as a script has it
	}
	return fmt.Errorf("%s webhook %s, key %s: %w", doing, name, s.HookKey(name), err)
}

// Attend makes the keys that the deliverers of a webhook need, and extends their TTL.
func (s Store) Attend(c redis.Conn, name string) error {
	b := resque.Batch{Conn: c}
	b.Send("XGROUP", "CREATE", s.HookKey(name).String(), group, "0", "MKSTREAM")
	b.Send("PEXPIRE", s.HookKey(name).String(), Kept.Milliseconds())
	b.Send("PEXPIRE", s.HookStateKey(name).String(), Kept.Milliseconds())
	replies, err := b.Receive()
	for _, reply := range replies {
		if refused, bad := reply.(redis.Error); bad && err == nil && !strings.HasPrefix(string(refused), "BUSYGROUP") && !strings.HasPrefix(string(refused), "OOM") {
			err = refused // out of memory, a group that is there is of use, and Take finds one that is not
		}
	}
	if err != nil {
		return s.explain("preparing", name, err)
	}
	return nil
}

// Pace is how fast the deliverers of a webhook deliver together.
type Pace struct {
	Every time.Duration // from one delivery to the next
	Burst int           // how many may begin at once after a pause

	Receiver string        // who receives, in hexadecimal digits: see Rest
	MostRest time.Duration // how long a receiver may ask for a rest
}

// Taken is what Take has taken.
type Taken struct {
	Wait    time.Duration // until a delivery may begin; 0: it has begun
	None    bool          // no entry waits
	Entries []Entry
	Cut     int64 // how many entries were cut, or refused, before they were taken
	Said    int64 // how many of these were reported: see Finish
}

// Take begins a delivery, if the pace allows that, and takes entries for it: one, or up to most if no other delivery may begin for a
// while. With most 0 it takes none.
func (s Store) Take(c redis.Conn, name string, p Pace, most int) (t Taken, err error) {
	const doing = "taking from"
	var a resque.Call
	a.Key(s.HookKey(name).String())
	a.Key(s.HookStateKey(name).String())
	a.Arg(group, consumer, most, p.Every.Milliseconds(), p.Burst, p.Receiver, p.MostRest.Milliseconds(), MostEvent, MostArgs)
	reply, err := redis.Values(a.Do(c, takeScript))
	if err != nil {
		return t, s.explain(doing, name, err)
	}
	wait, err := redis.Int64(reply[0], nil)
	if err != nil || wait == 0 && len(reply) != 4 {
		return t, s.explain(doing, name, resque.ErrAnswer)
	}
	if wait != 0 {
		t.None = wait < 0
		t.Wait = time.Duration(max(0, wait)) * time.Millisecond
		return t, nil
	}
	if t.Cut, err = redis.Int64(reply[1], nil); err == nil {
		t.Said, err = redis.Int64(reply[2], nil)
	}
	if err == nil {
		t.Entries, err = entries(reply[3])
	}
	if err != nil {
		return t, s.explain(doing, name, resque.ErrAnswer)
	}
	return t, nil
}

// entries reads entries as the scripts return them.
func entries(reply any) (all []Entry, err error) {
	rows, err := redis.Values(reply, nil)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		texts, err := redis.Strings(row, nil)
		switch {
		case err != nil:
			return nil, err
		case len(texts) == 1:
			all = append(all, Entry{ID: texts[0], Foreign: true})
		case len(texts) == 3:
			all = append(all, Entry{ID: texts[0], Event: texts[1], Args: texts[2]})
		default:
			return nil, resque.ErrAnswer
		}
	}
	return all, nil
}

// Rest has all deliverers send nothing to a receiver for a while. Take heeds it for the receiver that its Pace names.
func (s Store) Rest(c redis.Conn, name, receiver string, within time.Duration) error {
	var a resque.Call
	a.Key(s.HookStateKey(name).String())
	a.Arg(within.Milliseconds(), receiver)
	if _, err := a.Do(c, restScript); err != nil {
		return s.explain("noting that its receiver wants a rest, of", name, err)
	}
	return nil
}

// Claim takes over entries that their deliverer has not kept for this time: it is dead. Entries that Redis has trimmed meanwhile count as
// cut.
func (s Store) Claim(c redis.Conn, name string, after time.Duration, most int) ([]Entry, error) {
	const doing = "taking over from"
	key := s.HookKey(name).String()
	reply, err := redis.Values(c.Do("XAUTOCLAIM", key, group, consumer, after.Milliseconds(), "0-0", "COUNT", most, "JUSTID"))
	if err != nil {
		return nil, s.explain(doing, name, err)
	}
	var ids []string
	if len(reply) > 1 {
		ids, err = redis.Strings(reply[1], nil)
	}
	if err != nil || len(reply) < 2 {
		return nil, s.explain(doing, name, resque.ErrAnswer)
	}
	cut := 0
	if len(reply) > 2 { // Redis 7 has dropped them itself
		dropped, _ := redis.Values(reply[2], nil)
		cut = len(dropped)
	}
	if len(ids) == 0 && cut == 0 {
		return nil, nil
	}
	var a resque.Call
	a.Key(key)
	a.Key(s.HookStateKey(name).String())
	a.Arg(group, cut, MostEvent, MostArgs)
	for _, id := range ids {
		a.Arg(id)
	}
	claimed, err := a.Do(c, readScript)
	if err != nil {
		return nil, s.explain(doing, name, err)
	}
	all, err := entries(claimed)
	if err != nil {
		return nil, s.explain(doing, name, resque.ErrAnswer)
	}
	return all, nil
}

// Keep resets the idle time of entries that a deliverer still has. idle is the new idle time: with a long one any deliverer may claim them
// at once.
func (s Store) Keep(c redis.Conn, name string, ids []string, idle time.Duration) error {
	args := []any{s.HookKey(name).String(), group, consumer, 0}
	for _, id := range ids {
		args = append(args, id)
	}
	if _, err := c.Do("XCLAIM", append(args, "IDLE", idle.Milliseconds(), "JUSTID")...); err != nil {
		return s.explain("keeping what was taken from", name, err)
	}
	return nil
}

// Finish removes entries whose delivery is over, and notes how many cut ones are reported in all; 0: no change. For a delivery that has
// failed for good it first writes a line into the log of the fleet; nil: there is none. If Redis refuses the line or the number, for
// example out of memory, unsaid says why, and Finish removes the entries all the same.
func (s Store) Finish(c redis.Conn, name string, ids []string, said int64, line []any) (unsaid, err error) {
	const doing = "ending a delivery of"
	b := resque.Batch{Conn: c}
	hard := 0 // the place of the first reply that counts
	if len(line) > 0 {
		b.Send("XADD", line...)
		hard = 1
	}
	args := []any{s.HookKey(name).String(), group}
	for _, id := range ids {
		args = append(args, id)
	}
	b.Send("XACK", args...)
	b.Send("XDEL", append(args[:1:1], args[2:]...)...)
	if said > 0 {
		b.Send("HSET", s.HookStateKey(name).String(), "said", said)
	}
	replies, err := b.Receive()
	for n, reply := range replies {
		refused, bad := reply.(redis.Error)
		switch {
		case bad && err == nil && n >= hard && n < hard+2:
			err = refused
		case bad && unsaid == nil:
			unsaid = s.explain(doing, name, refused)
		}
	}
	if err != nil {
		return unsaid, s.explain(doing, name, err)
	}
	return unsaid, nil
}

// Lead takes or renews the lease of the deliverer that runs the checks, and reports whether this one has it.
func (s Store) Lead(c redis.Conn, name, deliverer string, lasts time.Duration) (bool, error) {
	var a resque.Call
	a.Key(s.HookStateKey(name).String())
	a.Arg(deliverer, lasts.Milliseconds())
	leads, err := redis.Bool(a.Do(c, leadScript))
	if err != nil {
		return false, s.explain("choosing the deliverer that looks, of", name, err)
	}
	return leads, nil
}

// wrong is the prefix of the fields of the state that hold findings.
const wrong = "wrong:"

// mostFields is how many fields the state of a webhook may have. Deliverers write less than half of them.
const mostFields = 300

// Wrong returns the findings that have begun and not ended: what Say was given, by id.
func (s Store) Wrong(c redis.Conn, name string) (map[string]string, error) {
	const doing = "reading the state of"
	var a resque.Call
	a.Key(s.HookStateKey(name).String())
	a.Arg(wrong, mostFields, MostEvent)
	texts, err := redis.Strings(a.Do(c, wrongScript))
	switch {
	case err != nil:
		return nil, s.explain(doing, name, err)
	case len(texts)%2 == 0:
		return nil, s.explain(doing, name, resque.ErrAnswer)
	case texts[0] != "0":
		return nil, s.explain(doing, name, fmt.Errorf("key %s has %s fields, where deliverers write less than %d: another program wrote them; remove it with goworker webhook forget",
			s.HookStateKey(name), texts[0], mostFields))
	}
	said := make(map[string]string)
	for i := 1; i < len(texts); i += 2 {
		said[strings.TrimPrefix(texts[i], wrong)] = texts[i+1]
	}
	return said, nil
}

// Say writes a notice into the stream: that a finding has begun, or with the value "" that it has ended. It reports whether the state
// has changed.
func (s Store) Say(c redis.Conn, name, id, value string, notice []byte) (bool, error) {
	var a resque.Call
	a.Key(s.HookKey(name).String())
	a.Key(s.HookStateKey(name).String())
	a.Arg(wrong+id, value, MostWaiting, notice)
	news, err := redis.Bool(a.Do(c, noticeScript))
	if err != nil {
		return false, s.explain("writing a notice for", name, err)
	}
	return news, nil
}

// Forget removes the keys of a webhook. Processes then write nothing for it.
func (s Store) Forget(c redis.Conn, name string) (was bool, err error) {
	n, err := redis.Int(c.Do("DEL", s.HookKey(name).String(), s.HookStateKey(name).String()))
	if err != nil {
		return false, s.explain("forgetting", name, err)
	}
	return n > 0, nil
}

// Waiting returns how many entries are not delivered yet, with those that a deliverer has.
func (s Store) Waiting(c redis.Conn, name string) (int64, error) {
	n, err := redis.Int64(c.Do("XLEN", s.HookKey(name).String()))
	if err != nil {
		return 0, s.explain("counting what waits for", name, err)
	}
	return n, nil
}
