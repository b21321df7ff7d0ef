// Package control is the part of a daemon that obeys operators. When Redis announces a command, it reads the command on a connection of
// its own, obeys, answers, and closes the connection ten seconds later. While no operator sends commands it has no connection and no
// goroutine that wakes, and costs one read in each renewal of the lease.
package control

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

const (
	// keepFor is how long the connection stays open after its last use.
	keepFor = 10 * time.Second

	// mostLives is how long any command may be valid, and so how long its id is remembered.
	mostLives = time.Hour

	// mostDone is how many ids of signed commands a process remembers, and how many of unsigned ones. With more it refuses commands,
	// because it could obey one twice.
	mostDone = 10_000

	// mostAtOnce is how many commands a process does at a time. Signed commands may bring that to twice as many.
	mostAtOnce = 16

	// lastWithin is how long the last answers may take.
	lastWithin = 300 * time.Millisecond

	// before is how far before its own start a process begins to read the stream: the clock of a server that takes over may be behind.
	before = 10 * time.Second
)

// Config is what a Control needs of its process.
type Config struct {
	Level    Level
	Key      func() ([]byte, error) // reads the key of signatures; nil: there is none
	Unsigned bool                   // commands of the level full need no signature
	Common   *Common

	Now     func() time.Time      // Redis's time
	Since   func() time.Time      // when this process joined the fleet, by Redis's clock; zero: it has not
	Process func() resque.Process // its present identity in the fleet
}

// Control is a rider of the renewals and a part. All methods are safe for concurrent use.
type Control struct {
	base   part.Base
	config Config
	store  control.Store
	loop   *part.Loop

	mu      sync.Mutex
	verbs   map[string]Verb
	hearers map[string]func(value string)
	groups  map[string]func(rest, value string) // by the prefix of their fields
	notice  map[string]string                   // as a renewal last read it
	read    bool                                // the next turn reads commands
	busy    int                                 // how many commands goroutines do now
	answers []answer                            // that the loop has to send

	// used by the loop's goroutine only
	line  conn.Line
	used  time.Time         // when the line was last used; zero: it is closed
	heard map[string]string // the values with which the hearers were last called
	last  string            // id of the last command that it read; "": none
	said  logging.Once

	// Also used by the loop's goroutine only: which commands the process has obeyed. Signed commands have room of their own, which a
	// program that only writes to Redis cannot fill.
	signed, unsigned done

	unread logging.Once // used by the goroutine that renews the lease
}

// New returns a Control that is not started.
func New(b part.Base, c Config) *Control {
	k := &Control{
		base: b, config: c, store: control.New(b.Store),
		verbs: make(map[string]Verb), hearers: make(map[string]func(string)), groups: make(map[string]func(string, string)),
		heard: make(map[string]string), signed: newDone(), unsigned: newDone(), line: b.Line(part.ReplyWithin),
	}
	k.loop = part.NewLoop(b, "control", k.turn)
	k.loop.End = k.close
	return k
}

// Add adds verbs. A verb replaces an earlier one of the same name. Add panics if a verb has no name or no function: that is a mistake of
// the program.
func (k *Control) Add(verbs ...Verb) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range verbs {
		MustBeVerb(v)
		v.Level = max(v.Level, On)
		k.verbs[v.Name] = v
	}
}

// Hear makes the part call a function when a field of the notice changes, with "" when the field is gone. The part's goroutine calls it,
// with the first value soon after the start. The function must not block. Call Hear before Start.
func (k *Control) Hear(field string, f func(value string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hearers[field] = f
}

// HearAll is Hear for all fields of the notice that begin with prefix. The function also gets the rest of the field's name.
func (k *Control) HearAll(prefix string, f func(rest, value string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.groups[prefix] = f
}

// Start starts to obey.
func (k *Control) Start(ctx context.Context) error {
	k.Add(Verb{Name: "verbs", Help: "List what the process can be asked or made to do", Do: k.list})
	if k.config.Level > Off {
		k.loop.Start(ctx)
	}
	return nil
}

// list lists the verbs, by their names.
func (k *Control) list(context.Context, *Call) (any, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]control.Verb, 0, len(k.verbs))
	for _, name := range slices.Sorted(maps.Keys(k.verbs)) {
		v := k.verbs[name]
		all = append(all, control.Verb{Name: v.Name, Help: v.Help, Level: v.Level.String(), Addressed: v.Addressed})
	}
	return all, nil
}

// Stop sends the answers that are ready, and stops. It does not wait for commands that goroutines still do.
func (k *Control) Stop(ctx context.Context) error {
	k.loop.Grace = time.Second
	k.loop.Stop(ctx)
	return nil
}

// Noticed wakes the loop to read the notice, because Redis has announced a change. It does not block.
func (k *Control) Noticed(string) {
	k.mu.Lock()
	k.read = true
	k.mu.Unlock()
	k.loop.Wake()
}

// Load adds the read of the notice to a renewal.
func (k *Control) Load(c *resque.Cargo) {
	if c.Last || k.config.Level == Off {
		return
	}
	k.store.CarryNotice(c, func(notice map[string]string, err error) {
		if err != nil {
			if k.unread.News("notice", err.Error()) {
				k.base.Log.Warn("the notice of operators cannot be read; this process misses commands whose announcement it does not receive", "error", err)
			}
			return
		}
		k.noted(notice)
	})
}

// Answered does nothing: the function that Load has added takes the answer.
func (k *Control) Answered(bool, resque.Due) {}

// noted compares the notice that a renewal has read with the one before.
func (k *Control) noted(notice map[string]string) {
	k.mu.Lock()
	if maps.Equal(k.notice, notice) {
		k.mu.Unlock()
		return
	}
	if id := notice[control.CommandNotice]; id != k.notice[control.CommandNotice] && id != "" && (k.notice != nil || !k.older(id)) {
		k.read = true
	}
	k.notice = notice
	if k.notice == nil {
		k.notice = map[string]string{}
	}
	k.mu.Unlock()
	k.loop.Wake()
}

// older reports whether a command was announced before this process began.
func (k *Control) older(id string) bool {
	text, _, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	return err == nil && ms < k.since()
}

// since is the time from which on commands concern this process, in ms by Redis's clock.
func (k *Control) since() int64 { return k.config.Since().Add(-before).UnixMilli() }

// turn reads new commands, begins to obey them, and sends answers.
func (k *Control) turn(ctx context.Context) (time.Duration, error) {
	k.mu.Lock()
	read, answers, now := k.read, k.answers, k.base.Clock.Now()
	k.read, k.answers = false, nil
	k.mu.Unlock()
	if len(answers) > 0 || read {
		k.used = now
	}
	err := k.send(ctx, answers)
	if read && (err == nil || refused(err)) {
		bad := k.readOn(ctx)
		if read = bad != nil; read {
			err = bad
		}
	}
	if err != nil && !refused(err) {
		k.again(read)
		return 0, err
	}
	if err != nil && k.said.News("redis", err.Error()) {
		k.base.Log.Warn("Redis refuses what this process needs to obey operators", "error", err)
	}
	k.tellHearers()
	if k.used.IsZero() {
		return part.Never, nil
	}
	if left := keepFor - k.base.Clock.Now().Sub(k.used); left > 0 {
		return left, nil
	}
	k.line.Close()
	k.used = time.Time{}
	return part.Never, nil
}

// refused reports whether Redis would refuse a request again at once. The next wake-up tries again.
func refused(err error) bool { return conn.Refused(err) || errors.Is(err, resque.ErrAnswer) }

// close sends the answers that are left, and closes the connection.
func (k *Control) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWithin)
	defer cancel()
	k.mu.Lock()
	answers := k.answers
	k.answers = nil
	k.mu.Unlock()
	_ = k.send(ctx, answers) // after a failure the caller sees that the process left
	k.line.Close()
}

// again makes the next turn read commands.
func (k *Control) again(read bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read = k.read || read
}

// readOn reads the commands after the last one, and begins to obey them.
func (k *Control) readOn(ctx context.Context) error {
	for again := true; ; {
		after := k.last
		if after == "" {
			after = strconv.FormatInt(max(0, k.since()), 10)
		}
		var notice map[string]string
		var entries []control.Entry
		err := k.line.Do(ctx, func(c redis.Conn) (err error) {
			notice, entries, err = k.store.ReadCommands(c, after)
			return err
		})
		if err != nil {
			return err
		}
		k.mu.Lock()
		if k.notice = notice; notice == nil {
			k.notice = map[string]string{}
		}
		k.mu.Unlock()
		for _, e := range entries {
			k.last = e.ID
			k.obey(ctx, e)
		}
		if newest := notice[control.CommandNotice]; again && len(entries) == 0 && k.last != "" && newest != "" && resque.CompareIDs(newest, k.last) < 0 {
			k.last = "" // the stream began again, on a server whose clock is behind
			again = false
			continue
		}
		if len(entries) < control.MostRead {
			return nil
		}
	}
}

// tellHearers calls the hearers whose field has changed.
func (k *Control) tellHearers() {
	k.mu.Lock()
	notice, hearers := k.notice, maps.Clone(k.hearers)
	for prefix, f := range k.groups {
		for _, fields := range []map[string]string{notice, k.heard} { // present fields, and fields that are gone
			for field := range fields {
				if rest, ok := strings.CutPrefix(field, prefix); ok {
					hearers[field] = func(value string) { f(rest, value) }
				}
			}
		}
	}
	k.mu.Unlock()
	for field, f := range hearers {
		if value := notice[field]; value != k.heard[field] {
			if k.heard[field] = value; value == "" {
				delete(k.heard, field)
			}
			f(value)
		}
	}
}

// done has the ids of the commands that the process has obeyed, while they are valid. Only the loop's goroutine uses it.
type done struct {
	until map[string]int64 // by Redis's clock, in ms
}

func newDone() done { return done{make(map[string]int64)} }

// first notes a command and reports whether it is new. full says that done has no room for it.
func (d done) first(id string, until, now int64) (first, full bool) {
	if _, was := d.until[id]; was {
		return false, false
	}
	if len(d.until) >= mostDone {
		maps.DeleteFunc(d.until, func(_ string, until int64) bool { return until <= now })
		if len(d.until) >= mostDone {
			return false, true
		}
	}
	d.until[id] = until
	return true, false
}
