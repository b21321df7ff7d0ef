package history

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBucketsHoldTheirDurations(t *testing.T) {
	t.Parallel()
	for n := range Buckets {
		if got := Bucket(Bound(n) + 2); got != n { // the bound is rounded to a nanosecond
			t.Errorf("%s is in bucket %d, not in %d", Bound(n), got, n)
		}
		if got := Bucket(Bound(n+1) - 2); got != n {
			t.Errorf("%s is in bucket %d, not in %d", Bound(n+1), got, n)
		}
	}
	for d, want := range map[time.Duration]int{0: 0, 1: 0, -time.Hour: 0, math.MinInt64: 0, 18 * time.Hour: Buckets - 1, math.MaxInt64: Buckets - 1} {
		if got := Bucket(d); got != want {
			t.Errorf("%d ns is in bucket %d, not in %d", d, got, want)
		}
	}
	if first, last := Bound(0), Bound(Buckets); first != 122070 || last.Round(time.Minute) != 18*time.Hour+12*time.Minute {
		t.Errorf("the buckets reach from %s to %s", first, last)
	}
}

func TestQuantilesAreNear(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var d Durations
	var all []time.Duration
	for range 5000 {
		one := time.Duration(math.Exp(rng.Float64()*math.Log(6e4))*1e6) + 150*time.Microsecond // 1 ms to a minute
		all = append(all, one)
		d.Record(one)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.95, 0.99, 1} {
		true := all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
		if got, ok := d.Quantile(q); !ok || float64(got) < float64(true)/1.19 || float64(got) > float64(true)*1.19 {
			t.Errorf("quantile %v is %s; it was %s", q, got, true)
		}
	}
	if _, ok := new(Durations).Quantile(0.5); ok {
		t.Error("nothing has a quantile")
	}
}

// some returns a row with names and numbers of all sizes.
func some(rng *rand.Rand, classes, queues int) (r Row) {
	number := func() uint64 {
		if rng.IntN(3) == 0 {
			return 0
		}
		return rng.Uint64N(1 << rng.IntN(41))
	}
	duration := func() (d Durations) {
		for range rng.IntN(12) {
			d.Record(time.Duration(rng.Uint64N(1<<rng.IntN(56))) / time.Microsecond * time.Microsecond)
		}
		return d
	}
	level := func() (l Level) {
		for range rng.IntN(3) {
			l.See(number())
		}
		return l
	}
	for n := range classes {
		c := r.Class(fmt.Sprint("Class", n))
		for i := range c.Ends {
			c.Ends[i] = number()
		}
		c.Processed, c.Runs, c.Waits = number(), duration(), duration()
	}
	for n := range queues {
		*r.Queue(fmt.Sprint("queue", n)) = Queue{number(), number(), number(), number(), level(), level()}
	}
	r.Fleet = Fleet{
		Present: time.Duration(number()) * time.Millisecond, Busy: time.Duration(number()) * time.Millisecond, Dropped: number(),
		Processes: level(), Stuck: level(), Waiting: level(), Delayed: level(), Failures: level(), Memory: level(),
	}
	return r
}

func TestRowsAndPacksComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		want := Pack{Recorder: "0a1b2c", Number: 1 + seed, At: time.Unix(1795229105, 0), Span: 10 * time.Second, Row: some(rng, rng.IntN(20), rng.IntN(20))}
		got, err := DecodePack(want.Encode(nil))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %v\n%+v\n%+v", seed, err, got, want)
		}
		row, err := DecodeRow(want.Row.Encode(nil))
		if err != nil || !reflect.DeepEqual(row, want.Row) {
			t.Fatalf("seed %d: %v\n%+v\n%+v", seed, err, row, want.Row)
		}
	}
}

// A release may add to the end of an entry, and entries of another kind: this one reads the rest.
func TestALaterReleasesEntriesArePassedOver(t *testing.T) {
	t.Parallel()
	raw := (&Row{}).Encode(nil)
	raw = append(raw, 9, 3, 'n', 'e', 'w')
	c := Class{Processed: 7}
	entry := c.Append(nil, "Mail")
	entry[1] += 2
	raw = append(append(raw, entry...), 1, 2)
	row, err := DecodeRow(raw)
	if err != nil || len(row.Classes) != 1 || row.Classes["Mail"].Processed != 7 {
		t.Errorf("read %+v, %v", row, err)
	}
}

func TestAnIdlePackIsSmall(t *testing.T) {
	t.Parallel()
	p := Pack{Recorder: "0a1b2c3d4e5f", Number: 8640, At: time.Unix(1795229105, 0), Row: Row{Fleet: Fleet{Present: 250 * time.Second}}}
	if n := len(p.Encode(nil)); n > 40 {
		t.Errorf("a pack in which nothing happened has %d bytes", n)
	}
}

// What an operator or another program writes into the tally ends nothing.
func FuzzPack(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 5 {
		p := Pack{Recorder: "r", Number: 1, At: time.Unix(1795229105, 0), Row: some(rng, n, n)}
		raw := p.Encode(nil)
		f.Add(raw)
		f.Add(raw[:len(raw)-1])
	}
	f.Add([]byte{})
	f.Add([]byte(`{"class":"X"}`))
	f.Add(bytes.Repeat([]byte{0xff}, 100))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := DecodePack(raw)
		if err != nil {
			return
		}
		if p, err = DecodePack(p.Encode(nil)); err != nil { // what is too large to be believed is cut
			t.Fatal(err)
		}
		again, err := DecodePack(p.Encode(nil))
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%v\n%+v\n%+v", err, again, p)
		}
		p.Row.Trim()
		if len(p.Row.Classes) > MostNames+2 || len(p.Row.Queues) > MostNames+2 {
			t.Errorf("%d classes, %d queues", len(p.Row.Classes), len(p.Row.Queues))
		}
	})
}

func TestARowKeepsTheNamesWithMostJobs(t *testing.T) {
	t.Parallel()
	var r Row
	for n := range 1000 {
		r.Class(fmt.Sprint("C", n)).Ends[0] = uint64(n)
		r.Queue(fmt.Sprint("q", n)).Done = uint64(n)
	}
	r.Class(Unknown).Ends[1] = 1
	r.Trim()
	var jobs, done uint64
	for _, c := range r.Classes {
		jobs += c.jobs()
	}
	for _, q := range r.Queues {
		done += q.Done
	}
	if len(r.Classes) != MostNames+1 || r.Classes["C999"] == nil || r.Classes["C100"] != nil || r.Classes[Unknown] == nil || jobs != 1000*999/2+1 {
		t.Errorf("%d classes with %d jobs", len(r.Classes), jobs)
	}
	if len(r.Queues) != MostNames+1 || r.Queues["q744"] == nil || r.Queues["q743"] != nil || done != 1000*999/2 {
		t.Errorf("%d queues with %d jobs", len(r.Queues), done)
	}
	before := len(r.Classes)
	if r.Trim(); len(r.Classes) != before {
		t.Errorf("trimmed again there are %d classes", len(r.Classes))
	}
}

// Any producer may fill queues with invented names. They do not drive out those whose jobs are taken.
func TestARowKeepsTheQueuesWhoseJobsAreTaken(t *testing.T) {
	t.Parallel()
	var r Row
	for n := range 400 {
		invented := r.Queue(fmt.Sprint("invented", n))
		invented.Pushed = 1000
		invented.Depth.See(1000)
	}
	for n := range 20 {
		r.Queue(fmt.Sprint("taken", n)).Taken = 100
		r.Queue(fmt.Sprint("acknowledged", n)).Done = 1
		r.Queue(fmt.Sprint("failed", n)).Failed = 1
	}
	r.Queue("large").Depth.See(2001) // nobody takes from it, and it is the largest of these
	r.Trim()
	for n := range 20 {
		for _, name := range []string{"taken", "acknowledged", "failed"} {
			if r.Queues[fmt.Sprint(name, n)] == nil {
				t.Errorf("%s%d has no name", name, n)
			}
		}
	}
	if r.Queues["large"] == nil || len(r.Queues) != MostNames+1 {
		t.Errorf("the largest has a name: %v; %d queues", r.Queues["large"] != nil, len(r.Queues))
	}
}

func TestNamesAreCut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{strings.Repeat("é", 100), strings.Repeat("x", 129), strings.Repeat("\x80", 500)} {
		if got := Name(name); len(got) > MostName || !strings.HasSuffix(got, "…") {
			t.Errorf("%q became %q", name, got)
		}
	}
	if got := Name("mail"); got != "mail" {
		t.Error(got)
	}
}
