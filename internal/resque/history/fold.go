package history

import (
	"strconv"
	"time"
)

// Fold adds packs to rows. It is made of what was read, and written by Store.Write.
type Fold struct {
	Number string         // of this fold: nobody else has it
	Rows   map[Place]*Row // as they are to be, after Add
	Bad    int            // packs that cannot be read

	before string // the number before
	read   int    // how many packs leave the tally
	marks  map[string]Mark
	gone   []string // recorders of which nothing has come for long
	now    time.Time
	parts  map[int64]*Row // by minute: what is to be added
	stuck  map[string]uint64
}

const (
	// mostMinutes is how many minutes one fold has. Packs of more wait for the next one.
	mostMinutes = 16

	// Ahead is how far in the future a pack may be. It is of now then: its process has another time.
	Ahead = time.Minute
)

// NewFold sums up the packs of a tally that were not folded before. now is Redis's time.
func NewFold(t Tally, now time.Time) *Fold {
	f := &Fold{before: t.Number, now: now, marks: make(map[string]Mark), parts: make(map[int64]*Row), stuck: make(map[string]uint64)}
	last, _ := strconv.ParseInt(t.Number, 10, 64)
	f.Number = strconv.FormatInt(max(last+1, now.UnixMilli()), 10) // it goes on where the number was removed
	oldest := Spans[len(Spans)-1].Kept
	for _, raw := range t.Packs {
		p, err := DecodePack(raw)
		if err != nil {
			f.Bad++
			f.read++
			continue
		}
		mark, known := f.marks[p.Recorder]
		if !known {
			mark = t.Marks[p.Recorder]
		}
		if p.Number <= mark.Number || now.Sub(p.At) > oldest {
			f.read++
			continue
		}
		if p.At.After(now.Add(Ahead)) {
			p.At = now
		}
		stuck := p.Row.Fleet.Stuck.Most
		p.Row.Fleet.Stuck = Level{} // the fleet's are those of all processes together
		idle := p.present()
		if !f.add(p.At, &p.Row) {
			break
		}
		for at := p.At; idle.Fleet.Present > 0 && p.At.Sub(at) < p.Span; at = at.Add(-time.Minute) {
			f.add(at, &idle)
		}
		f.stuck[p.Recorder] = stuck
		f.read++
		f.marks[p.Recorder] = Mark{p.Number, now}
	}
	for id, m := range t.Marks {
		if _, again := f.marks[id]; !again && (now.Sub(m.At) > marksKept || m.At.After(now.Add(marksKept))) {
			f.gone = append(f.gone, id)
		}
	}
	return f
}

// present takes the presence of workers out of a pack of several minutes, and returns what each of these minutes has of it.
func (p *Pack) present() (each Row) {
	if minutes := (p.Span + time.Minute - 1) / time.Minute; minutes > 1 {
		each.Fleet.Present = p.Row.Fleet.Present / minutes
		p.Row.Fleet.Present -= each.Fleet.Present * minutes
	}
	return each
}

// Stuck returns how many jobs are stuck, as the packs say.
func (f *Fold) Stuck() (n uint64) {
	for _, of := range f.stuck {
		n += of
	}
	return n
}

// Level adds what the keeper sees now.
func (f *Fold) Level(row *Row) { f.add(f.now, row) }

// add adds to a minute. It returns false if that is one more than there may be.
func (f *Fold) add(at time.Time, row *Row) bool {
	minute := Spans[0].Number(at)
	part := f.parts[minute]
	if part == nil {
		if len(f.parts) == mostMinutes && minute != Spans[0].Number(f.now) {
			return false
		}
		part = new(Row)
		f.parts[minute] = part
	}
	part.Add(row)
	return true
}

// Places returns the rows that the fold adds to.
func (f *Fold) Places() (all []Place) {
	seen := make(map[Place]bool)
	for minute := range f.parts {
		for _, p := range f.places(minute) {
			if !seen[p] {
				seen[p] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// places are the rows of a minute that are kept still.
func (f *Fold) places(minute int64) (all []Place) {
	at := Spans[0].At(minute)
	for i, s := range Spans {
		if p := (Place{i, s.Number(at)}); p.gone().After(f.now) {
			all = append(all, p)
		}
	}
	return all
}

// Add adds to the rows as they are.
func (f *Fold) Add(rows map[Place]*Row) {
	f.Rows = rows
	for minute, part := range f.parts {
		for _, p := range f.places(minute) {
			if rows[p] == nil {
				rows[p] = new(Row)
			}
			rows[p].Add(part)
		}
	}
	for _, row := range rows {
		row.Trim()
	}
}

// Empty reports whether there is nothing to write.
func (f *Fold) Empty() bool { return f.read == 0 && len(f.parts) == 0 && len(f.gone) == 0 }
