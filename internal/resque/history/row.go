package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// States is how many states an end may have. Their order is that of outcome.State.
	States = 10

	// MostNames is how many classes, and how many queues, a row names. The rest of them is Other.
	MostNames = 256

	// MostName is how many bytes a name has.
	MostName = 128
)

const (
	Unknown = "(unknown)" // the class of jobs whose class is registered nowhere in their process: any producer may invent one
	Other   = "(other)"   // the classes or queues that a row or a process has no room for
)

// Row is what is kept of one span of time. It is also what one process has counted since its last pack.
type Row struct {
	Classes map[string]*Class
	Queues  map[string]*Queue
	Fleet   Fleet
}

// Class is the jobs of a class that ended.
type Class struct {
	Ends      [States]uint64
	Processed uint64    // how much they added to Resque's total, stat:processed
	Runs      Durations // how long they ran
	Waits     Durations // how long they waited, those that say when they were pushed
}

// Queue is what happened to a queue.
type Queue struct {
	Pushed, Taken, Done, Failed uint64

	Depth Level
	Age   Level // of the oldest job, in ms
}

// Fleet is what the processes said of themselves and what one of them saw.
type Fleet struct {
	Present time.Duration // of the workers: each second of each
	Busy    time.Duration // while they had a job
	Dropped uint64        // packs that were given up

	Processes, Stuck, Waiting, Delayed, Failures, Memory Level
}

// levels are the levels in the order in which they are encoded.
func (f *Fleet) levels() []*Level {
	return []*Level{&f.Processes, &f.Stuck, &f.Waiting, &f.Delayed, &f.Failures, &f.Memory}
}

// Level is a number that was looked at now and then.
type Level struct {
	Seen uint64 // how often; 0: never
	Sum  uint64
	Most uint64
}

// See adds a look.
func (l *Level) See(n uint64) { l.Add(Level{1, n, n}) }

// Add adds looks.
func (l *Level) Add(o Level) {
	l.Seen += o.Seen
	l.Sum += o.Sum
	l.Most = max(l.Most, o.Most)
}

// Empty reports whether the row has nothing.
func (r *Row) Empty() bool { return len(r.Classes) == 0 && len(r.Queues) == 0 && r.Fleet == Fleet{} }

// Add adds what was counted elsewhere.
func (c *Class) Add(o *Class) {
	for i, n := range o.Ends {
		c.Ends[i] += n
	}
	c.Processed += o.Processed
	c.Runs.Add(&o.Runs)
	c.Waits.Add(&o.Waits)
}

// compare compares classes by their jobs.
func (c *Class) compare(o *Class) int { return cmp.Compare(c.jobs(), o.jobs()) }

func (c *Class) jobs() (n uint64) {
	for _, of := range c.Ends {
		n += of
	}
	return n
}

// Add adds what was counted elsewhere.
func (q *Queue) Add(o *Queue) {
	q.Pushed += o.Pushed
	q.Taken += o.Taken
	q.Done += o.Done
	q.Failed += o.Failed
	q.Depth.Add(o.Depth)
	q.Age.Add(o.Age)
}

// compare compares queues by the jobs that were taken and ended, and only where these are equal by the jobs that wait: any producer
// may fill queues whose names it invents.
func (q *Queue) compare(o *Queue) int {
	return cmp.Or(cmp.Compare(q.Taken+q.Done+q.Failed, o.Taken+o.Done+o.Failed), cmp.Compare(q.Pushed+q.Depth.Most, o.Pushed+o.Depth.Most))
}

// Add adds what was counted elsewhere.
func (f *Fleet) Add(o *Fleet) {
	f.Present += o.Present
	f.Busy += o.Busy
	f.Dropped += o.Dropped
	to, from := f.levels(), o.levels()
	for i := range to {
		to[i].Add(*from[i])
	}
}

// Class returns what the row has of a class.
func (r *Row) Class(name string) *Class { return entry(&r.Classes, name) }

// Queue returns what the row has of a queue.
func (r *Row) Queue(name string) *Queue { return entry(&r.Queues, name) }

func entry[T any](all *map[string]*T, name string) *T {
	if of := (*all)[name]; of != nil {
		return of
	}
	if *all == nil {
		*all = make(map[string]*T)
	}
	of := new(T)
	(*all)[name] = of
	return of
}

// Add adds another row. It may name more than MostNames until Trim.
func (r *Row) Add(o *Row) {
	for name, of := range o.Classes {
		r.Class(name).Add(of)
	}
	for name, of := range o.Queues {
		r.Queue(name).Add(of)
	}
	r.Fleet.Add(&o.Fleet)
}

// Trim makes one entry of the classes, and of the queues, that the row has no room for: those that are least by compare.
func (r *Row) Trim() {
	trim(r.Classes, (*Class).compare, (*Class).Add)
	trim(r.Queues, (*Queue).compare, (*Queue).Add)
}

func trim[T any](all map[string]*T, compare func(*T, *T) int, add func(*T, *T)) {
	named := len(all)
	if all[Other] != nil {
		named--
	}
	if named <= MostNames {
		return
	}
	names := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(name string) bool { return name == Other || name == Unknown })
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(compare(all[a], all[b]), strings.Compare(b, a))
	})
	for _, name := range names[:named-MostNames] {
		if all[Other] == nil {
			all[Other] = new(T)
		}
		add(all[Other], all[name])
		delete(all, name)
	}
}

// Name returns a name as rows have it: one that is too long is cut.
func Name(name string) string {
	if len(name) <= MostName {
		return name
	}
	const mark = "…"
	end := MostName - len(mark)
	for end > MostName-len(mark)-utf8.UTFMax && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + mark
}
