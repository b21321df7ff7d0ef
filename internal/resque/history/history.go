// Package history knows what Redis keeps of the past: how many jobs of each class ended how, how long they ran and waited, what
// happened to each queue, and what the fleet was. It has the keys, the scripts, and the form of what is in them.
//
// Every process counts, and pushes what it has counted as a pack to one list, the tally. One process, the keeper, adds the packs to
// rows: one for each minute, ten minutes, hour and day. A number proves that nobody has folded between its reading and its writing.
package history

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

//go:embed scripts
var scriptFiles embed.FS

var (
	tallyScript = resque.LoadScript(scriptFiles, "tally")
	foldScript  = resque.LoadScript(scriptFiles, "fold")
)

// Scripts returns the scripts of this package by name, as they are sent to Redis.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

const (
	// MostTally is how many packs wait in the tally at most. A process pushes none while there are so many.
	MostTally = 5000

	// TallyKept is how long packs wait where no process folds them.
	TallyKept = 24 * time.Hour

	// ResentFor is how long a process sends a pack again whose arrival is uncertain.
	ResentFor = 10 * time.Minute

	// marksKept is how long it is known which pack of a process came last. It is longer than the process sends one again.
	marksKept = time.Hour

	// mostFolded and mostBytes bound how much one fold reads.
	mostFolded = 256
	mostBytes  = 1 << 20
)

// Store is resque's Store with the words of history.
type Store struct{ resque.Store }

// New returns the Store of the history in a namespace.
func New(s resque.Store) Store { return Store{s} }

// TallyKey is the list of the packs that are not folded yet, the oldest first.
func (s Store) TallyKey() resque.Key { return s.ListKey("tally") }

// FoldedKey is the hash of what was folded: the field "n" has the number of the last fold, and "p:" with a recorder's id has the
// number of its last pack and when that was, in seconds.
func (s Store) FoldedKey() resque.Key { return s.HashKey("folded") }

// MinuteKey is the row of a minute, by how many minutes after 1970 it is.
func (s Store) MinuteKey(n int64) resque.Key { return s.TextKey("m:" + strconv.FormatInt(n, 10)) }

// TenMinutesKey is the row of ten minutes.
func (s Store) TenMinutesKey(n int64) resque.Key { return s.TextKey("x:" + strconv.FormatInt(n, 10)) }

// HourKey is the row of an hour.
func (s Store) HourKey(n int64) resque.Key { return s.TextKey("h:" + strconv.FormatInt(n, 10)) }

// DayKey is the row of a day of UTC.
func (s Store) DayKey(n int64) resque.Key { return s.TextKey("d:" + strconv.FormatInt(n, 10)) }

// Span is how much time a row has.
type Span struct {
	Long time.Duration
	Kept time.Duration // how long its rows are kept after their end

	key func(Store, int64) resque.Key
}

// Spans are the spans of which rows are kept, the shortest first.
var Spans = []Span{
	{time.Minute, 2 * time.Hour, Store.MinuteKey},
	{10 * time.Minute, 48 * time.Hour, Store.TenMinutesKey},
	{time.Hour, 14 * 24 * time.Hour, Store.HourKey},
	{24 * time.Hour, 90 * 24 * time.Hour, Store.DayKey},
}

// Number returns the number of the span that has a moment.
func (s Span) Number(at time.Time) int64 { return at.Unix() / int64(s.Long/time.Second) }

// At returns when a span begins.
func (s Span) At(number int64) time.Time { return time.Unix(number*int64(s.Long/time.Second), 0).UTC() }

// Place is where a row is: the index of its span in Spans, and its number.
type Place struct {
	Span   int
	Number int64
}

// Key returns the key of the row.
func (p Place) Key(s Store) resque.Key { return Spans[p.Span].key(s, p.Number) }

// Begins returns when the span begins.
func (p Place) Begins() time.Time { return Spans[p.Span].At(p.Number) }

// Ends returns when the span ends.
func (p Place) Ends() time.Time { return Spans[p.Span].At(p.Number + 1) }

// gone is when the row is no longer kept.
func (p Place) gone() time.Time { return p.Ends().Add(Spans[p.Span].Kept) }

// Push has a renewal push packs to the tally. heard gets the error with which Redis refused it, and full whether the tally takes
// more. Where the packs arrived before, because the answer was lost, the next ones say it.
func (s Store) Push(c *resque.Cargo, packs [][]byte, heard func(error), full func(bool)) {
	args := make([]any, len(packs))
	for i, p := range packs {
		args[i] = p
	}
	c.WriteAsking(func(reply any, err error) {
		heard(err)
		if n, err := redis.Int(reply, err); err == nil {
			full(n >= MostTally)
		}
	}, "RPUSH", s.TallyKey(), args...)
	c.Write(nil, "EXPIRE", s.TallyKey(), int(TallyKept/time.Second))
}

// ReadLength has a renewal read how many packs wait in the tally.
func (s Store) ReadLength(c *resque.Cargo, heard func(n int)) {
	c.Read(func(reply any, err error) {
		if n, err := redis.Int(reply, err); err == nil {
			heard(n)
		}
	}, "LLEN", s.TallyKey())
}

// ReadFolded has a renewal read when the last fold was, about.
func (s Store) ReadFolded(c *resque.Cargo, heard func(time.Time)) {
	c.Read(func(reply any, err error) {
		ms, _ := redis.Int64(reply, err) // there was none
		heard(time.UnixMilli(ms))
	}, "HGET", s.FoldedKey(), "n")
}

// Mark is the last pack of a recorder that was folded.
type Mark struct {
	Number uint64
	At     time.Time
}

// Tally is what waits to be folded, and what was folded.
type Tally struct {
	Number string // of the last fold; "": there was none
	Marks  map[string]Mark
	Packs  [][]byte
	More   bool // there are more packs than were read
	Levels Levels
}

// Levels are numbers of the fleet now; -1: not known.
type Levels struct {
	Depths                                        map[string]resque.Depth
	Processes, Takers, Failures, Delayed, Seconds int64
	Memory                                        int64
}

const markPrefix = "p:"

// ReadTally reads the packs that come next.
func (s Store) ReadTally(c redis.Conn) (t Tally, err error) {
	var a resque.Call
	a.Key(s.TallyKey().String())
	a.Key(s.FoldedKey().String())
	a.Key(s.KeyOfDepths())
	a.Key(s.KeyOfProcesses())
	a.Key(s.ZSetKey("takers").String())
	a.Key(s.KeyOfFailures(resque.FailedList))
	a.Key(s.KeyOfSchedule())
	a.Key(s.KeyOfSeconds())
	a.Arg(mostFolded, mostBytes)
	reply, err := redis.Values(a.Do(c, tallyScript))
	if err == nil && len(reply) < before {
		err = resque.ErrAnswer
	}
	if err != nil {
		return t, fmt.Errorf("reading what processes have counted: %w", resque.Explain(err))
	}
	length, err := redis.Int(reply[0], nil)
	if err != nil {
		return t, fmt.Errorf("reading what processes have counted: %w", err)
	}
	folded, err := redis.StringMap(reply[1], nil)
	if err != nil {
		return t, fmt.Errorf("reading what was folded: %w", err)
	}
	t.Marks = make(map[string]Mark, len(folded))
	for field, value := range folded {
		if field == "n" {
			t.Number = value
			continue
		}
		id, ok := strings.CutPrefix(field, markPrefix)
		number, at, two := strings.Cut(value, " ")
		n, err := strconv.ParseUint(number, 10, 64)
		seconds, bad := strconv.ParseInt(at, 10, 64)
		if ok && two && err == nil && bad == nil {
			t.Marks[id] = Mark{n, time.Unix(seconds, 0)}
		}
	}
	if t.Levels, err = levels(reply[2:before]); err != nil {
		return t, fmt.Errorf("reading what the fleet is now: %w", err)
	}
	if t.Packs, err = redis.ByteSlices(reply[before:], nil); err != nil {
		return t, fmt.Errorf("reading what processes have counted: %w", err)
	}
	t.More = length > len(t.Packs)
	return t, nil
}

// before is how many answers come before the packs.
const before = 9

// levels reads what stands before the packs.
func levels(reply []any) (l Levels, err error) {
	depths, err := redis.StringMap(reply[0], nil)
	if err != nil {
		return l, err
	}
	l.Depths = make(map[string]resque.Depth, len(depths))
	for queue, text := range depths {
		if d, ok := resque.ParseDepth(text); ok {
			l.Depths[queue] = d
		}
	}
	for i, to := range []*int64{&l.Processes, &l.Takers, &l.Failures, &l.Delayed, &l.Seconds} {
		if *to, err = redis.Int64(reply[i+1], nil); err != nil {
			return l, err
		}
	}
	info, err := redis.String(reply[6], nil)
	l.Memory = -1
	for line := range strings.Lines(info) {
		if used, ok := strings.CutPrefix(line, "used_memory:"); ok {
			l.Memory, _ = strconv.ParseInt(strings.TrimSpace(used), 10, 64)
		}
	}
	return l, err
}

// ReadRows reads rows. One that is not there, or not readable, is empty.
func (s Store) ReadRows(c redis.Conn, places []Place) ([]Row, error) {
	if len(places) == 0 {
		return nil, nil
	}
	keys := make([]any, len(places))
	for i, p := range places {
		keys[i] = p.Key(s).String()
	}
	raw, err := redis.ByteSlices(c.Do("MGET", keys...))
	if err == nil && len(raw) != len(places) {
		err = resque.ErrAnswer
	}
	if err != nil {
		return nil, fmt.Errorf("reading the rows of the history: %w", resque.Explain(err))
	}
	rows := make([]Row, len(raw))
	for i := range raw {
		if row, err := DecodeRow(raw[i]); err == nil {
			rows[i] = row
		}
	}
	return rows, nil
}

// Write writes a fold, unless another process has folded since the tally was read: then it changes nothing and returns false.
func (s Store) Write(c redis.Conn, f *Fold) (written bool, err error) {
	var a resque.Call
	a.Key(s.TallyKey().String())
	a.Key(s.FoldedKey().String())
	a.Arg(f.before, f.Number, f.read, len(f.marks), len(f.gone))
	for id, m := range f.marks {
		a.Arg(markPrefix+id, strconv.FormatUint(m.Number, 10)+" "+strconv.FormatInt(m.At.Unix(), 10))
	}
	for _, id := range f.gone {
		a.Arg(markPrefix + id)
	}
	for place, row := range f.Rows {
		a.Key(place.Key(s).String())
		a.Arg(max(1, place.gone().Sub(f.now).Milliseconds()), row.Encode(nil))
	}
	status, err := redis.String(a.Do(c, foldScript))
	if err != nil {
		return false, fmt.Errorf("folding what processes have counted: %w", resque.Explain(err))
	}
	return status == "ok", nil
}
