package resque

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// bulkCase is one job of a Bulk.
type bulkCase struct {
	queue, payload string
	at             time.Time
	ruby           bool
	effects        []Effect
	left           Left
}

// guardedBulk has these jobs.
func guardedBulk(jobs ...bulkCase) *Bulk {
	b := new(Bulk)
	for _, j := range jobs {
		var g []Guarded
		if j.effects != nil || j.left != nil {
			g = []Guarded{{Effects: j.effects, Left: j.left}}
		}
		if err := b.PutRaw([]byte(j.payload), Place{Queue: j.queue, At: j.at, Ruby: j.ruby}, g...); err != nil {
			panic(err)
		}
	}
	return b
}

// guardedJob is pushed only if its lock is free, and takes it.
func guardedJob(s Store, queue, payload, lock string) bulkCase {
	return bulkCase{queue: queue, payload: payload, effects: []Effect{
		Command("HSET", s.HashKey("lock:"+lock), "by", payload),
		Guard("HLEN", s.HashKey("lock:"+lock), "0"),
		Command("HINCRBY", s.HashKey("counts"), queue, 1).Soft(),
	}}
}

// reasons are what became of the jobs of a push.
func (b *Bulk) reasons() []string {
	texts := make([]string, b.Jobs())
	for i := range texts {
		_, err := b.Result(i)
		switch e := (KeyError{}); {
		case err == nil:
			texts[i] = "pushed"
		case errors.Is(err, ErrGuard):
			texts[i] = "left"
		case errors.Is(err, ErrWaits):
			texts[i] = "withheld"
		case errors.As(err, &e):
			texts[i] = e.Key
		default:
			texts[i] = err.Error()
		}
	}
	return texts
}

func TestPushRows(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	counted := func(job bulkCase, of int) bulkCase {
		job.effects = append(job.effects, arrival(w.s, of, "next"))
		return job
	}
	later := guardedJob(w.s, "low", "l4", "d")
	later.at = at(99)
	plain := func(queue, payload string) bulkCase { return bulkCase{queue: queue, payload: payload} }
	for name, tt := range map[string]struct {
		jobs   []bulkCase
		want   []string
		queues []string // low, high, next, the schedule
		locks  string   // that are held then; b was before
	}{
		"one":        {[]bulkCase{guardedJob(w.s, "low", "l1", "a")}, []string{"pushed"}, []string{"low: l1", "high:", "next:", ""}, "ab"},
		"held":       {[]bulkCase{guardedJob(w.s, "low", "l1", "b")}, []string{"left"}, []string{"low:", "high:", "next:", ""}, "b"},
		"scheduled":  {[]bulkCase{later}, []string{"pushed"}, []string{"low:", "high:", "next:", "3:lowl4 " + ms(99)}, "bd"},
		"no effects": {[]bulkCase{{queue: "low", payload: "l1", effects: []Effect{}}}, []string{"pushed"}, []string{"low: l1", "high:", "next:", ""}, "b"},
		"several, one of which is held": {
			[]bulkCase{guardedJob(w.s, "low", "l1", "a"), guardedJob(w.s, "high", "h1", "b"), guardedJob(w.s, "low", "l2", "c")},
			[]string{"pushed", "left", "pushed"}, []string{"low: l1 l2", "high:", "next:", ""}, "abc"},
		"twins": {
			[]bulkCase{guardedJob(w.s, "low", "l1", "a"), guardedJob(w.s, "high", "h1", "a")},
			[]string{"pushed", "left"}, []string{"low: l1", "high:", "next:", ""}, "ab"},
		"a verb": {
			[]bulkCase{counted(guardedJob(w.s, "low", "l1", "a"), 2), counted(guardedJob(w.s, "low", "l2", "c"), 2)},
			[]string{"pushed", "pushed"}, []string{"low: l1 l2", "high:", "next: after", ""}, "abc"},
		"plain ones among others keep their order": {
			[]bulkCase{plain("low", "l1"), plain("high", "h1"), plain("low", "l2"), guardedJob(w.s, "low", "l3", "a"), plain("low", "l4"), guardedJob(w.s, "low", "l5", "b"), plain("high", "h2"), plain("low", "l6")},
			[]string{"pushed", "pushed", "pushed", "pushed", "pushed", "left", "pushed", "pushed"},
			[]string{"low: l1 l2 l3 l4 l6", "high: h1 h2", "next:", ""}, "ab"},
		"plain ones of every place": {
			[]bulkCase{{queue: "low", payload: "s1", at: at(1)}, plain("low", "l1"), {queue: "high", payload: "s2", at: at(2)}, {queue: "low", payload: "s1", at: at(3)}},
			[]string{"pushed", "pushed", "pushed", "pushed"},
			[]string{"low: l1", "high:", "next:", "4:highs2 " + ms(2) + " 3:lows1 " + ms(3)}, "b"},
	} {
		for _, known := range []bool{true, false} {
			w.do("FLUSHALL")
			w.do("HSET", "resque:go:lock:b", "by", "b")
			if !known {
				w.do("SCRIPT", "FLUSH")
			}
			b := guardedBulk(tt.jobs...)
			w.must(w.s.PushBulk(w.c, b))
			w.same(name+": jobs", tt.want, b.reasons())
			w.same(name+": soft", []KeyError(nil), b.Soft())
			w.same(name+": queues", tt.queues, append(w.queues("low", "high", "next"),
				strings.Join(w.server.List(t, "ZRANGE", w.s.KeyOfSchedule(), 0, -1, "WITHSCORES"), " ")))
			held := ""
			for _, lock := range []string{"a", "b", "c", "d"} {
				if w.server.Int(t, "EXISTS", "resque:go:lock:"+lock) == 1 {
					held += lock
				}
			}
			w.same(name+": locks", tt.locks, held)
			for _, queue := range w.server.List(t, "SMEMBERS", w.s.KeyOfQueues()) {
				if w.server.Int(t, "LLEN", w.s.KeyOfQueue(queue)) == 0 {
					t.Errorf("%s: queue %s is named without a job", name, queue)
				}
			}
		}
	}
	if err := new(Bulk).PutRaw([]byte("{}"), Place{}); !errors.Is(err, errNoQueue) {
		t.Errorf("a job without a queue: %v", err)
	}
	if err := new(Bulk).PutRaw([]byte("{}"), Place{Queue: "q", At: at(1), Ruby: true}, Guarded{}); !errors.Is(err, ErrNotPlain) {
		t.Errorf("a job with guards for Ruby's schedule: %v", err)
	}
}

// Runs of more jobs than one row has, in each place, with a job among them that has rows of its own.
func TestPushLongRuns(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	var jobs []bulkCase
	want := make(map[string][]string)
	for i := range 6007 {
		j := bulkCase{queue: []string{"low", "high"}[i%2], payload: fmt.Sprintf(`{"class":"J","args":[%d]}`, i)}
		switch i % 3 {
		case 0:
			want[j.queue] = append(want[j.queue], j.payload)
		case 1:
			j.at = at(int64(i))
			want["later"] = append(want["later"], JobPrefix(j.queue)+j.payload, ms(int64(i)))
		case 2:
			j.at, j.ruby = at(1500), true
			want["ruby"] = append(want["ruby"], strings.TrimSuffix(j.payload, "}")+`,"queue":"`+j.queue+`"}`)
		}
		jobs = append(jobs, j)
	}
	jobs = slices.Insert(jobs, 3000, guardedJob(w.s, "other", "o", "a"))
	b := guardedBulk(jobs...)
	w.must(w.s.PushBulk(w.c, b))
	w.same("low", want["low"], w.queue("low"))
	w.same("high", want["high"], w.queue("high"))
	w.same("other", []string{"o"}, w.queue("other"))
	w.same("schedule", want["later"], w.server.List(t, "ZRANGE", w.s.KeyOfSchedule(), 0, -1, "WITHSCORES"))
	second := Stamp{at(1500).UnixMilli()}.Second()
	w.same("Ruby's schedule", want["ruby"], w.server.List(t, "LRANGE", w.s.KeyOfSecond(second), 0, -1))
	w.same("seconds", []string{second, second}, w.server.List(t, "ZRANGE", w.s.KeyOfSeconds(), 0, -1, "WITHSCORES"))
	w.same("hints", HintListItems, w.server.Int(t, "ZCARD", w.s.KeyOfHints()))
	w.same("a job's seconds", []string{"delayed:" + second}, w.server.List(t, "SMEMBERS", w.s.KeyOfJobSeconds(want["ruby"][2001])))
	if got := b.reasons(); slices.ContainsFunc(got, func(r string) bool { return r != "pushed" }) {
		t.Error("not all were pushed")
	}
}

// A key of the wrong type in any row: nothing is written, for no job of the call.
func TestPushRowsOfWrongType(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	job := guardedJob(w.s, "low", "l1", "a")
	job.effects = append(job.effects, arrival(w.s, 1, "next"))
	scheduled := guardedJob(w.s, "low", "l2", "b")
	scheduled.at = at(99)
	jobs := []bulkCase{job, scheduled, {queue: "other", payload: "o1"}, {queue: "low", payload: `{"class":"C","args":[]}`, at: at(1), ruby: true}}
	for key, refuses := range map[string]bool{
		"resque:go:lock:a": true, "resque:go:lock:b": true, "resque:go:join:1": true,
		w.s.KeyOfQueue("low"): true, w.s.KeyOfQueue("next"): true, w.s.KeyOfQueue("other"): true,
		w.s.KeyOfQueues(): true, w.s.KeyOfSchedule(): true, w.s.KeyOfSeconds(): true, w.s.KeyOfHints(): true,
		w.s.KeyOfSecond("4000000001"): true, w.s.KeyOfJobSeconds(`{"class":"C","args":[],"queue":"low"}`): true,
		"resque:go:counts": false, "resque:go:irrelevant": false,
	} {
		w.do("FLUSHALL")
		w.spoil(key)
		before, b := w.dump(), guardedBulk(jobs...)
		err := w.s.PushBulk(w.c, b)
		if !refuses {
			w.must(err)
			w.same(key, []string{"pushed", "pushed", "pushed", "pushed"}, b.reasons())
			if soft := key == "resque:go:counts"; soft != (len(b.Soft()) == 2) {
				t.Errorf("%s: soft: %v", key, b.Soft())
			}
			continue
		}
		if !IsWrongType(err) || !strings.Contains(err.Error(), "pushing 4 jobs to 2 queues: a key holds another type than Resque gives it, rename or remove that key: key "+key+": WRONGTYPE ") {
			t.Errorf("%s: %v", key, err)
		}
		w.same(key, []string{"withheld", "withheld", "withheld", "withheld"}, b.reasons())
		w.same(key+": keys", before, w.dump())
		w.do("DEL", key) // once it is repaired, the same call pushes all
		w.must(w.s.PushBulk(w.c, b))
		w.same(key+", repaired", []string{"pushed", "pushed", "pushed", "pushed"}, b.reasons())
	}
}

// An error that no read foresees refuses one job, which is then not in its queue.
func TestPushRowsRefusedLate(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	bad := misbehaving["it raises an error"]
	b := guardedBulk(
		guardedJob(w.s, "low", "l1", "a"),
		bulkCase{queue: "low", payload: "l2", effects: []Effect{bad.Effect([]Key{w.s.HashKey("own")})}},
		guardedJob(w.s, "low", "l3", "c"),
		bulkCase{queue: "low", payload: "l4"},
	)
	w.must(w.s.PushBulk(w.c, b))
	w.same("jobs", []string{"pushed", "resque:go:own", "pushed", "pushed"}, b.reasons())
	w.same("queue", []string{"l1", "l3", "l4"}, w.queue("low"))

	b = guardedBulk(bulkCase{queue: "low", payload: "l5", effects: []Effect{bad.Effect([]Key{w.s.HashKey("own")})}})
	if err := w.s.PushBulk(w.c, b); err == nil || !strings.Contains(err.Error(), "key resque:go:own") {
		t.Errorf("alone: %v", err)
	}
	w.same("jobs", []string{"withheld"}, b.reasons())
}

// Left decides about jobs whose guards did not hold. While a proof leaves the question open, nothing is
// written.
func TestPushAsks(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	asked := 0
	job := guardedJob(w.s, "low", "l2", "a")
	job.left = func(_ redis.Conn, answer string) (Verdict, error) {
		asked++
		if answer != "1" {
			t.Errorf("answer %q", answer)
		}
		other := guardedJob(w.s, "low", "l2", fmt.Sprint("a", asked))
		return Verdict{Again: &Guarded{Effects: other.effects}, Replaces: fmt.Sprint("r", asked)}, nil
	}
	for _, lock := range []string{"a", "a1"} {
		w.do("HSET", "resque:go:lock:"+lock, "by", "x")
	}
	b := guardedBulk(bulkCase{queue: "low", payload: "l1"}, job)
	w.must(w.s.PushBulk(w.c, b))
	w.same("queue", []string{"l1", "l2"}, w.queue("low"))
	if by, err := b.Result(1); by != "r2" || err != nil || asked != 2 {
		t.Errorf("replaces %q, %v; asked %d times", by, err, asked)
	}

	// A unique job whose holder may be replaced or is stale: the plain one waits for the decision.
	w.do("FLUSHALL")
	w.taken(uniqueJob("u", 1, "low"))
	w.age("u", ProvenFor)
	why := errors.New("no look now")
	unique := uniqueJob("u", 2, "low")
	g := w.s.Unique(unique.Lock)
	take := g
	look := take.left
	g.Left = func(c redis.Conn, answer string) (Verdict, error) {
		if why != nil {
			return Verdict{}, why
		}
		return look(c, answer)
	}
	b = guardedBulk(bulkCase{queue: "low", payload: "l1"})
	w.must(b.PutRaw(unique.Payload, unique.place(), g))
	w.unchanged("a look that fails", func() {
		if err := w.s.PushBulk(w.c, b); !errors.Is(err, why) || b.Done() {
			t.Errorf("%v, done: %v", err, b.Done())
		}
		w.do("DEL", w.s.refusals("u"))
	})
	why = nil
	w.do("DEL", w.s.KeyOfQueue("low"))
	w.must(w.s.PushBulk(w.c, b))
	w.same("queue", []string{"l1", string(unique.Payload)}, w.queue("low"))
}

// A Redis out of memory refuses the push.
func TestPushRowsRefused(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	freeing := guardedJob(w.s, "low", "l1", "a")
	freeing.effects = append([]Effect{Command("HDEL", w.s.HashKey("old"), "a"), Command("DEL", w.s.AnyKey("older"))}, freeing.effects...)
	for name, tt := range map[string]struct {
		command []any
		says    string
	}{
		"out of memory": {[]any{"SET", "maxmemory", "1"}, "maxmemory"},
		"no replicas":   {[]any{"SET", "min-replicas-to-write", "1"}, "NOREPLICAS"},
	} {
		w.do("HSET", "resque:go:old", "a", 1, "b", 1)
		w.do("CONFIG", tt.command...)
		for _, jobs := range [][]bulkCase{
			{freeing, {queue: "low", payload: "l2"}},
			{{queue: "low", payload: "l1", at: at(1)}, {queue: "low", payload: "l2", at: at(2)}},
			{{queue: "low", payload: "{}", at: at(1), ruby: true}, {queue: "low", payload: "{}", at: at(2), ruby: true}},
		} {
			w.unchanged(name, func() {
				err := w.s.PushBulk(w.c, guardedBulk(jobs...))
				if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "ing 2 jobs ") {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		w.do("CONFIG", "SET", tt.command[1], "0")
	}
	_ = w.c.Close()
	if err := w.s.PushBulk(w.c, guardedBulk(freeing)); err == nil {
		t.Error("no error on a closed connection")
	}
}

// If too few replicas confirm the push, it is answered all the same.
func TestPushRowsReplicas(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	s := w.s.Replicated(1, time.Millisecond)
	var few *ReplicasError
	for _, want := range []string{"pushed", "left"} {
		b := guardedBulk(guardedJob(s, "low", "l1", "a"))
		err := s.PushBulk(w.c, b)
		w.same("jobs", []string{want}, b.reasons())
		if errors.As(err, &few) != (want == "pushed") || want == "left" && err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
	w.same("queue", []string{"l1"}, w.queue("low"))
}
