package resque

import (
	"slices"
	"strconv"
	"strings"
)

// Effect is one row of a job's end or push: a command of Redis, a verb of the script or of a
// feature, or a guard. Redis writes all effects of a job in one step. The methods of Store make
// effects; features make theirs with Command, Guard and Verb.
type Effect struct {
	verb string
	keys []Key
	args []any
	file *Verb // of a feature's verb
}

// Key is a key and the type of its value, which Redis proves before the first write. The methods of
// Store make keys.
type Key struct {
	name string
	kind byte // the letter that the scripts know the type by
}

// String returns the name, with the namespace.
func (k Key) String() string { return k.name }

func hashKey(name string) Key { return Key{name, 'h'} }
func listKey(name string) Key { return Key{name, 'l'} }
func setKey(name string) Key  { return Key{name, 's'} }
func zsetKey(name string) Key { return Key{name, 'z'} }
func textKey(name string) Key { return Key{name, 't'} }
func anyKey(name string) Key  { return Key{name, '.'} } // for SET and DEL, which take any type

// KeyList is an argument of a verb: keys that it reads or writes only in some calls. It becomes one text, their
// numbers in KEYS with a blank behind each. Redis proves nothing about them before the first write: the verb does, where
// it uses them. As keys of the row each would cost as much in every call.
type KeyList []Key

// WrittenKeys is a KeyList of a call that is likely to write some of them: a process that watches one reads it again
// after its commit.
type WrittenKeys KeyList

// A feature's own keys. They are below go: in the namespace. A name begins with the feature's:
// "wf:<id>".

// HashKey returns the key of a hash of a feature.
func (s Store) HashKey(name string) Key { return hashKey(s.own(name)) }

// ListKey returns the key of a list of a feature.
func (s Store) ListKey(name string) Key { return listKey(s.own(name)) }

// SetKey returns the key of a set of a feature.
func (s Store) SetKey(name string) Key { return setKey(s.own(name)) }

// ZSetKey returns the key of a sorted set of a feature.
func (s Store) ZSetKey(name string) Key { return zsetKey(s.own(name)) }

// TextKey returns the key of a string of a feature.
func (s Store) TextKey(name string) Key { return textKey(s.own(name)) }

// StreamKey returns the key of a stream of a feature.
func (s Store) StreamKey(name string) Key { return Key{s.own(name), 'x'} }

// AnyKey returns a key of a feature for commands such as SET, DEL and EXPIRE, which take any type.
func (s Store) AnyKey(name string) Key { return anyKey(s.own(name)) }

func (s Store) own(name string) string { return s.ns + "go:" + name }

// Keys of the store that a feature's verb may need.

// QueueKey returns the key of the list of a queue's jobs.
func (s Store) QueueKey(queue string) Key { return listKey(s.KeyOfQueue(queue)) }

// NamesKey returns the key of the set that has the name of a queue.
func (s Store) NamesKey(queue string) Key { return setKey(s.KeyOfNames(queue)) }

// ScheduleKey returns the key of our schedule of delayed jobs.
func (s Store) ScheduleKey() Key { return zsetKey(s.KeyOfSchedule()) }

func effect(verb string, key Key, args ...any) Effect {
	return Effect{verb: verb, keys: []Key{key}, args: args}
}

// row is an effect with room for its key and its arguments.
type row struct {
	effects [1]Effect
	keys    [1]Key
	args    [2]any
}

// oneRow is effect as a list of one, which takes one piece of memory. It has one or two arguments.
func oneRow(verb string, key Key, args ...any) []Effect {
	r := &row{keys: [1]Key{key}}
	n := copy(r.args[:], args)
	r.effects[0] = Effect{verb: verb, keys: r.keys[:], args: r.args[:n:n]}
	return r.effects[:]
}

// Command is a command of Redis whose first argument is the key. Redis can prove the type of a key, but
// not that a field is a number: a command that adds to one should be soft.
func Command(name string, key Key, args ...any) Effect {
	return effect(strings.ToUpper(name), key, args...)
}

// Guard leaves the job as it is unless a command on a key has this answer; "" is no answer. The
// command only reads. An end whose guard does not hold is reported as a Refusal. An effect of
// another job in the same call may change the answer.
func Guard(command string, key Key, answer string, args ...any) Effect {
	return effect("?"+strings.ToUpper(command), key, append([]any{answer}, args...)...)
}

// Soft returns the effect as a soft one: its refusal is reported and does not hold up the job.
func (e Effect) Soft() Effect {
	if e.verb[0] != '~' {
		e.verb = "~" + e.verb
	}
	return e
}

// Writes reports whether the effect may write a key.
func (e Effect) Writes(key string) bool {
	if strings.HasPrefix(e.verb, "?") {
		return false
	}
	named := func(k Key) bool { return k.name == key }
	if slices.ContainsFunc(e.keys, named) {
		return true
	}
	if e.file != nil {
		for _, a := range e.args {
			if keys, ok := a.(WrittenKeys); ok && slices.ContainsFunc(keys, named) {
				return true
			}
		}
	}
	return false
}

// Size is about how many bytes the effect brings to Redis.
func (e Effect) Size() int {
	n := len(e.verb)
	for _, k := range e.keys {
		n += len(k.name)
	}
	for _, a := range e.args {
		switch a := a.(type) {
		case []byte:
			n += len(a)
		case string:
			n += len(a)
		case ownSlot:
			n += len(a) + 8
		default:
			n += 8
		}
	}
	return n
}

// orders is how many places there are among a job's rows, the last one for soft rows.
const orders = 5

// order is the effect's place among a job's rows: guards, pushes of the job's own bytes, the lock that it keeps, the others,
// soft ones. A row that adds to a number goes early, because it is its own proof. So does the lock: each job has its own key,
// where those behind it are often the same for all.
func (e Effect) order() int {
	switch {
	case e.verb[0] == '?':
		return 0
	case e.verb == "head" || e.verb == "tail" || e.verb == "HINCRBY":
		return 1
	case e.verb == "hold":
		return 2
	case e.verb[0] == '~':
		return orders - 1
	}
	return 3
}

// pushes returns the effect with bytes in place of the record's, if it pushes those.
func (e Effect) pushes(bytes []byte) Effect {
	switch e.verb {
	case "head":
		e.verb, e.args = "LPUSH", []any{bytes}
	case "tail":
		e.verb, e.args = "RPUSH", []any{bytes}
	}
	return e
}

// rowCall collects the arguments of a script that writes rows.
type rowCall struct {
	Call
	kinds []byte         // the types of the keys
	place map[string]int // the numbers of the keys, by name

	ticket int64 // of the job whose rows are added
}

// fixed adds a key whose number the script knows.
func (c *rowCall) fixed(k Key) {
	at := c.Key(k.name)
	c.kinds = append(c.kinds, k.kind)
	if c.place[k.name] == 0 {
		c.place[k.name] = at
	}
}

// extra adds a key that no other row has, and returns its number.
func (c *rowCall) extra(k Key) int {
	c.kinds = append(c.kinds, k.kind)
	return c.Key(k.name)
}

// typed returns the number of a key, which it adds if it is new.
func (c *rowCall) typed(k Key) int {
	at := c.place[k.name]
	switch {
	case at == 0:
		c.fixed(k)
		at = len(c.kinds)
	case c.kinds[at-1] == '.':
		c.kinds[at-1] = k.kind
	}
	return at
}

// rows appends how many values the rows of a job have, and the rows in their order. Unless bytes
// is nil it is pushed in place of the record's.
func (c *rowCall) rows(effects []Effect, bytes []byte) {
	first := c.begin()
	c.ordered(effects, bytes, 0, orders)
	c.end(first)
}

// begin leaves room for how many values the rows of a job have, which end fills in.
func (c *rowCall) begin() (first int) {
	c.Arg(0)
	return len(c.argv)
}

func (c *rowCall) end(first int) { c.argv[first-1] = len(c.argv) - first }

// ordered adds the rows that come in the orders from one to before another.
func (c *rowCall) ordered(effects []Effect, bytes []byte, from, to int) {
	for order := from; order < to; order++ {
		for i := range effects {
			if effects[i].order() == order {
				c.row(effects[i], bytes)
			}
		}
	}
}

func (c *rowCall) row(e Effect, bytes []byte) {
	if bytes != nil {
		e = e.pushes(bytes)
	}
	if e.file != nil {
		c.Arg(e.verb, 1+len(e.keys)+len(e.args), len(e.keys))
	} else {
		c.Arg(e.verb, len(e.keys)+len(e.args))
	}
	for _, k := range e.keys {
		c.Arg(c.typed(k))
	}
	for _, a := range e.args {
		switch keys := a.(type) {
		case KeyList:
			a = keys.text(c.typed)
		case WrittenKeys:
			a = KeyList(keys).text(c.typed)
		case ownSlot:
			a = keys.of(c.ticket)
		}
		c.Arg(a)
	}
}

// text returns the numbers of the keys in KEYS, with a blank behind each.
func (keys KeyList) text(number func(Key) int) string {
	text := make([]byte, 0, 4*len(keys))
	for _, k := range keys {
		text = append(strconv.AppendInt(text, int64(number(k)), 10), ' ')
	}
	return string(text)
}

// scriptArgs are the arguments of EVALSHA or EVAL, led by the script.
func (c *rowCall) scriptArgs(script string) []any {
	c.keys[0], c.keys[1] = script, len(c.keys)-c.before
	return append(c.keys, c.argv...)
}

// newRowCall returns an empty call with room for so many keys and arguments.
func newRowCall(keys, args int) rowCall {
	return rowCall{Call: Call{keys: make([]any, 2, 2+keys+args), argv: make([]any, 0, args), before: 2}, place: make(map[string]int, keys)}
}
