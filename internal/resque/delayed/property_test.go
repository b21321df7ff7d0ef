package delayed

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"pgregory.net/rapid"
)

// However jobs are delayed, cancelled, delayed again and moved, by us and by Ruby, on what
// was read a while ago or just now: each is in one place, and what points to it is too.
func TestNothingDelayedIsLost(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	rapid.Check(t, func(rt *rapid.T) {
		w.do("FLUSHALL")
		r := &delays{T: rt, w: w, lock: w.lock(), want: map[string]int{}, past: time.Now().Unix() - 9}
		for i := range r.pumps {
			r.pumps[i].Store = w.d
		}
		rt.Repeat(map[string]func(*rapid.T){
			"delay":    r.delay,
			"schedule": r.schedule,
			"ruby":     r.ruby,
			"rubyPump": r.rubyPump,
			"read":     r.read,
			"act":      r.act,
			"own":      r.own,
			"seconds":  r.seconds,
			"hints":    r.hints,
			"change":   r.change,
			"":         func(*rapid.T) { r.check() },
		})
		for range 3 * len(r.want) {
			r.own(rt)
			r.hints(rt)
			r.seconds(rt)
		}
		r.check()
		if due, err := w.s.Due(w.c, false); err != nil || due.Sooner() <= 0 {
			rt.Errorf("something due is left: %+v, %v", due, err)
		}
	})
}

// delays is one sequence of steps.
type delays struct {
	*rapid.T
	w     *wire
	lock  resque.MasterLock
	pumps [2]Pump
	jobs  int
	past  int64          // a second that was over a moment ago
	want  map[string]int // how often each job's argument is there
	stale []seconded     // what a pump is about to do, from what it read before
}

func (r *delays) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// a few times, so that jobs meet, and most of them past.
func (r *delays) time(t *rapid.T) time.Time {
	past := r.past * 1000
	ms := rapid.SampledFrom([]int64{
		1500, past, past + 500, past + 501, past + 1000, past + 1999, past + 2000, // the first one's hint is of no use
		1_900_000_000_000, 1_900_000_000_700, 1_900_000_001_000,
	}).Draw(t, "ms")
	return time.UnixMilli(ms)
}

// name is a new job's argument, or that of one of a few twins.
func (r *delays) name(t *rapid.T) string {
	name := fmt.Sprint("twin", rapid.IntRange(0, 1).Draw(t, "twin"))
	if rapid.Bool().Draw(t, "new") {
		r.jobs++
		name = fmt.Sprint("job", r.jobs)
	}
	r.want[name]++
	return name
}

func (r *delays) delay(t *rapid.T) {
	r.must(r.w.delayBulk(delayedBulk("low", "Echo", r.name(t)), r.time(t)))
}

func (r *delays) schedule(t *rapid.T) {
	var b resque.Bulk
	r.must(b.Add("low", "Echo", []any{r.name(t)}, payload.TextField("id", payload.NewID())))
	r.must(r.w.scheduleBulk(&b, r.time(t)))
}

// ruby delays a job as Ruby and node do: in three steps, and node in its own order.
func (r *delays) ruby(t *rapid.T) {
	item := fmt.Sprintf(`{"class":"Echo","args":[%q],"queue":"low"}`, r.name(t))
	if rapid.Bool().Draw(t, "node") {
		item = strings.Replace(item, `"args":`, `"queue":"low","args":`, 1)
		item = strings.Replace(item, `,"queue":"low"}`, "}", 1)
	}
	second := r.time(t).Unix()
	r.w.do("RPUSH", r.w.s.KeyOfSecond(fmt.Sprint(second)), item)
	r.w.do("SADD", r.w.s.KeyOfJobSeconds(item), fmt.Sprint("delayed:", second))
	r.w.do("ZADD", r.w.s.KeyOfSeconds(), second, second)
}

// rubyPump takes the first job of a second, as node's and older Ruby schedulers do.
func (r *delays) rubyPump(t *rapid.T) {
	second := fmt.Sprint(r.time(t).Unix())
	item, err := redis.String(r.w.c.Do("LPOP", r.w.s.KeyOfSecond(second)))
	if err == redis.ErrNil {
		t.Skip("nothing there")
	}
	r.must(err)
	if _, err := redis.Int(r.w.c.Do("LPOS", r.w.s.KeyOfSecond(second), item)); err == redis.ErrNil {
		r.w.do("SREM", r.w.s.KeyOfJobSeconds(item), "delayed:"+second)
	}
	_, payload, err := payload.ReadItem([]byte(item))
	r.must(err)
	r.w.push("low", string(payload))
	if r.w.server.Int(r.w.t, "EXISTS", r.w.s.KeyOfSecond(second)) == 0 {
		r.w.do("ZREM", r.w.s.KeyOfSeconds(), second)
	}
}

func (r *delays) read(t *rapid.T) {
	second := fmt.Sprint(r.past + rapid.Int64Range(0, 2).Draw(t, "second"))
	items, err := redis.ByteSlices(r.w.c.Do("LRANGE", r.w.s.KeyOfSecond(second), 0, rapid.IntRange(0, 3).Draw(t, "last")))
	r.must(err)
	r.stale = append(r.stale, r.pumps[0].move(r.lock, time.Now(), second, items))
}

func (r *delays) act(t *rapid.T) {
	if len(r.stale) == 0 {
		t.Skip("nothing was read")
	}
	_, err := r.stale[0].Do(r.w.c, bucketScript)
	r.must(err)
	r.stale = r.stale[1:]
}

func (r *delays) pump(t *rapid.T) *Pump { return &r.pumps[rapid.IntRange(0, 1).Draw(t, "pump")] }

func (r *delays) own(t *rapid.T) {
	_, err := r.pump(t).Own(r.w.c)
	r.must(err)
}

func (r *delays) seconds(t *rapid.T) {
	_, err := r.pump(t).Seconds(r.w.c, r.lock, time.Now())
	r.must(err)
}

func (r *delays) hints(t *rapid.T) {
	_, err := r.pump(t).Hints(r.w.c, r.lock, time.Now())
	r.must(err)
}

// change cancels, enqueues or delays again some of what was listed, once or twice.
func (r *delays) change(t *rapid.T) {
	jobs, err := r.w.d.Page(r.w.c, r.time(t), rapid.IntRange(0, 2).Draw(t, "skip"), rapid.IntRange(1, 3).Draw(t, "count"))
	r.must(err)
	do := rapid.SampledFrom([]string{"remove", "run", "redelay"}).Draw(t, "do")
	var n int
	switch do {
	case "remove":
		n, err = remove(r.w.d, r.w.c, jobs)
		for _, j := range jobs {
			r.want[argument(string(j.Payload))]--
		}
	case "run":
		n, err = run(r.w.d, r.w.c, jobs)
	case "redelay":
		n, err = redelay(r.w.d, r.w.c, jobs, r.time(t))
	}
	r.must(err)
	if n != len(jobs) {
		r.Fatalf("%s found %d of %d jobs just listed", do, n, len(jobs))
	}
}

func argument(job string) string {
	_, rest, _ := strings.Cut(job, `"args":["`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

func (r *delays) check() {
	r.Helper()
	dump := r.w.server.Dump(r.w.t, "")
	found, seconds := map[string]int{}, map[string]bool{}
	for key, v := range dump {
		if second, ok := strings.CutPrefix(key, r.w.s.KeyOfSecond("")); ok {
			seconds[second] = true
		}
		switch list, _ := v.([]string); {
		case strings.HasPrefix(key, r.w.s.KeyOfSecond("")), key == r.w.s.KeyOfQueue("low"):
			for _, job := range list {
				found[argument(job)]++
			}
		case strings.HasPrefix(key, r.w.s.KeyOfJobSeconds("")):
			item := strings.TrimPrefix(key, r.w.s.KeyOfJobSeconds(""))
			for _, bucket := range list {
				if there, _ := dump[r.w.s.Namespace()+bucket].([]string); !slices.Contains(there, item) {
					r.Fatalf("%s points to %s, where it is not", key, bucket)
				}
			}
		}
	}
	own, _ := dump[r.w.s.KeyOfSchedule()].(map[string]float64)
	for member := range own {
		found[argument(member)]++
	}
	maps.DeleteFunc(r.want, func(_ string, n int) bool { return n == 0 })
	if diff := cmp.Diff(r.want, found); diff != "" {
		r.Fatalf("jobs are lost or doubled (-want +found):\n%s", diff)
	}
	known, _ := dump[r.w.s.KeyOfSeconds()].(map[string]float64)
	for second := range seconds {
		score, ok := known[second]
		if !ok {
			r.Fatalf("no scheduler will find second %s", second)
		}
		if score < float64(far.Unix()) {
			continue // while it is being moved, twins of what has gone cannot be found, as in Ruby
		}
		for _, item := range dump[r.w.s.KeyOfSecond(second)].([]string) {
			if stamps, _ := dump[r.w.s.KeyOfJobSeconds(item)].([]string); !slices.Contains(stamps, "delayed:"+second) {
				r.Fatalf("no program can cancel %s in second %s", item, second)
			}
		}
	}
}
