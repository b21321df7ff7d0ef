package history

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/bits"
	"slices"
	"time"
)

// A row is a version, the fleet, and entries of classes and queues. An entry has a tag and a length, so that a release passes
// over what it does not know at its end. All numbers are varints. What is zero takes a bit of a mask.
//
// A pack is a version, the recorder's id, the pack's number, its time and its span in seconds, and a row.
const (
	version  = 1
	classTag = 1
	queueTag = 2
)

const (
	// MostPack is how many bytes a pack has.
	MostPack = 16 << 10

	// mostValue is the largest number that is believed: sums of many stay below the largest integer.
	mostValue = 1 << 53

	mostID = 64

	// mostSpan is the longest Span of a pack in seconds.
	mostSpan = 600
)

var errForm = errors.New("these bytes are no history")

// Pack is what one process has counted since its last pack.
type Pack struct {
	Recorder string // who sends it: each life of a process has another one
	Number   uint64 // the first is 1
	At       time.Time
	Span     time.Duration // since the pack before, in seconds
	Row      Row
}

// Begin appends the beginning of a pack: all but its classes and queues.
func (p *Pack) Begin(to []byte) []byte {
	to = append(to, version)
	to = appendText(to, p.Recorder)
	to = binary.AppendUvarint(to, p.Number)
	to = binary.AppendUvarint(to, uint64(max(0, p.At.Unix())))
	to = binary.AppendUvarint(to, uint64(max(0, p.Span/time.Second)))
	return p.Row.Fleet.begin(to)
}

// Encode appends a pack, however large it is.
func (p *Pack) Encode(to []byte) []byte { return p.Row.entries(p.Begin(to)) }

// DecodePack reads a pack.
func DecodePack(raw []byte) (p Pack, err error) {
	r := reader{left: raw}
	if r.byte() != version {
		return p, errForm
	}
	p.Recorder = r.text(mostID)
	p.Number = r.number()
	p.At = time.Unix(int64(r.number()), 0)
	p.Span = time.Duration(min(r.number(), mostSpan)) * time.Second
	p.Row = r.row()
	return p, r.err
}

// Encode appends a row.
func (r *Row) Encode(to []byte) []byte { return r.entries(r.Fleet.begin(append(to, version))) }

// DecodeRow reads a row. One of no bytes is empty.
func DecodeRow(raw []byte) (row Row, err error) {
	if len(raw) == 0 {
		return row, nil
	}
	r := reader{left: raw}
	if r.byte() != version {
		return row, errForm
	}
	row = r.row()
	return row, r.err
}

func (r *Row) entries(to []byte) []byte {
	for _, name := range slices.Sorted(maps.Keys(r.Classes)) {
		to = r.Classes[name].Append(to, name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Queues)) {
		to = r.Queues[name].Append(to, name)
	}
	return to
}

func (f *Fleet) begin(to []byte) []byte {
	at := len(to)
	to = append(to, 0)
	to = appendMasked(to, []uint64{uint64(f.Present.Milliseconds()), uint64(f.Busy.Milliseconds()), f.Dropped}, f.levels())
	return enclose(to, at)
}

// Append appends a class as an entry of a row or a pack.
func (c *Class) Append(to []byte, name string) []byte {
	to = append(to, classTag, 0)
	at := len(to) - 1
	to = appendText(to, name)
	to = appendMasked(to, append(c.Ends[:len(c.Ends):len(c.Ends)], c.Processed), nil)
	to = appendDurations(to, &c.Runs)
	to = appendDurations(to, &c.Waits)
	return enclose(to, at)
}

// Append appends a queue as an entry of a row or a pack.
func (q *Queue) Append(to []byte, name string) []byte {
	to = append(to, queueTag, 0)
	at := len(to) - 1
	to = appendText(to, name)
	to = appendMasked(to, []uint64{q.Pushed, q.Taken, q.Done, q.Failed}, []*Level{&q.Depth, &q.Age})
	return enclose(to, at)
}

// enclose puts the length of what was appended behind a byte into its place.
func enclose(to []byte, at int) []byte {
	n := len(to) - at - 1
	if n < 1<<7 {
		to[at] = byte(n)
		return to
	}
	var length [binary.MaxVarintLen64]byte
	return slices.Replace(to, at, at+1, length[:binary.PutUvarint(length[:], uint64(n))]...)
}

// appendMasked appends a mask of what is not zero, and that.
func appendMasked(to []byte, numbers []uint64, levels []*Level) []byte {
	var mask uint64
	for i, n := range numbers {
		if n != 0 {
			mask |= 1 << i
		}
	}
	for i, l := range levels {
		if l.Seen != 0 {
			mask |= 1 << (len(numbers) + i)
		}
	}
	to = binary.AppendUvarint(to, mask)
	for _, n := range numbers {
		if n != 0 {
			to = binary.AppendUvarint(to, min(n, mostValue))
		}
	}
	for _, l := range levels {
		if l.Seen != 0 {
			to = binary.AppendUvarint(to, min(l.Seen, mostValue))
			to = binary.AppendUvarint(to, min(l.Sum, mostValue))
			to = binary.AppendUvarint(to, min(l.Most, mostValue))
		}
	}
	return to
}

// appendDurations appends how many buckets are used, and for each how many empty ones lie before it and how many durations it has. The
// sum in µs follows if there are any.
func appendDurations(to []byte, d *Durations) []byte {
	used := 0
	for _, n := range d.In {
		if n != 0 {
			used++
		}
	}
	to = append(to, byte(used))
	gap := byte(0)
	for _, n := range d.In {
		if n == 0 {
			gap++
			continue
		}
		to = binary.AppendUvarint(append(to, gap), min(n, mostValue))
		gap = 0
	}
	if used > 0 {
		to = binary.AppendUvarint(to, min(uint64(max(0, d.Sum.Microseconds())), mostValue))
	}
	return to
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// reader reads what was encoded. After the first mistake it reads zeros.
type reader struct {
	left []byte
	err  error
}

func (r *reader) fail() {
	r.left = nil
	if r.err == nil {
		r.err = errForm
	}
}

func (r *reader) byte() byte {
	if len(r.left) == 0 {
		r.fail()
		return 0
	}
	b := r.left[0]
	r.left = r.left[1:]
	return b
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.left)
	if size <= 0 || n > mostValue {
		r.fail()
		return 0
	}
	r.left = r.left[size:]
	return n
}

func (r *reader) bytes(most uint64) []byte {
	n := r.number()
	if n > most || n > uint64(len(r.left)) {
		r.fail()
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) text(most uint64) string { return string(r.bytes(most)) }

// row reads a row, whose names are at most twice as many as a row has: a pack has fewer, and a row is trimmed.
func (r *reader) row() (row Row) {
	fleet := reader{left: r.bytes(mostValue)}
	f := &row.Fleet
	var n [3]uint64
	fleet.masked([]*uint64{&n[0], &n[1], &n[2]}, f.levels())
	f.Present, f.Busy, f.Dropped = milliseconds(n[0]), milliseconds(n[1]), n[2]
	if fleet.err != nil {
		r.fail()
	}
	for r.err == nil && len(r.left) > 0 {
		tag := r.byte()
		e := reader{left: r.bytes(mostValue)}
		switch tag {
		case classTag:
			e.class(&row)
		case queueTag:
			e.queue(&row)
		}
		if e.err != nil || len(row.Classes) > 2*MostNames || len(row.Queues) > 2*MostNames {
			r.fail()
		}
	}
	return row
}

func (r *reader) class(row *Row) {
	name := r.text(MostName)
	var c Class
	numbers := make([]*uint64, 0, States+1)
	for i := range c.Ends {
		numbers = append(numbers, &c.Ends[i])
	}
	r.masked(append(numbers, &c.Processed), nil)
	r.durations(&c.Runs)
	r.durations(&c.Waits)
	if r.err == nil {
		row.Class(name).Add(&c)
	}
}

func (r *reader) queue(row *Row) {
	name := r.text(MostName)
	var q Queue
	r.masked([]*uint64{&q.Pushed, &q.Taken, &q.Done, &q.Failed}, []*Level{&q.Depth, &q.Age})
	if r.err == nil {
		row.Queue(name).Add(&q)
	}
}

func (r *reader) masked(numbers []*uint64, levels []*Level) {
	mask := r.number()
	if bits.Len64(mask) > len(numbers)+len(levels) {
		r.fail()
		return
	}
	for i, n := range numbers {
		if mask&(1<<i) != 0 {
			*n = r.number()
		}
	}
	for i, l := range levels {
		if mask&(1<<(len(numbers)+i)) != 0 {
			if *l = (Level{r.number(), r.number(), r.number()}); l.Seen == 0 {
				*l = Level{}
			}
		}
	}
}

func (r *reader) durations(d *Durations) {
	used := int(r.byte())
	at := 0
	for range used {
		at += int(r.byte())
		if r.err != nil || at >= Buckets {
			r.fail()
			return
		}
		if d.In[at] = r.number(); d.In[at] == 0 {
			r.fail()
		}
		at++
	}
	if used > 0 {
		d.Sum = time.Duration(r.number()) * time.Microsecond
	}
}

func milliseconds(n uint64) time.Duration {
	return time.Duration(min(n, mostValue/1000)) * time.Millisecond
}
