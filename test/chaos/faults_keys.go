package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ours are the product's keys, as patterns.
var ours = []string{
	"processes", "process:*", "inflight:*", "recovered", "reaped:*", "kept:*", "schedule", "precise", "ticks", "paused-schedules",
	"unique:*", "unique-rest", "lanes", "lanes:*", "lane:*", "limits", "slots:*", "rate:*", "clock", "paused", "stats",
}

// ofOtherType is how long a key of another type stands in the place of a go: key.
const ofOtherType = 2 * time.Second

// removal is one act of an operator.
type removal struct {
	pattern string
	other   bool // a key of another type stands there first
	broken  bool // the process whose key it is loses its connections
}

func (r removal) String() string {
	text := "removed " + r.pattern
	if r.other {
		text = r.pattern + " of another type"
	}
	if r.broken {
		text += ", connections closed"
	}
	return text
}

// keys removes each go: key, and replaces it by one of another type, under load.
func keys(opts options) result {
	acts := []removal{
		{"lanes", false, false}, {"inflight:*", false, true}, {"lanes:*", true, false}, {"limits", true, false},
		{"inflight:*", true, true}, {"schedule", false, false},
	}
	if !opts.short {
		acts = []removal{{"inflight:*", false, true}, {"inflight:*", true, true}, {"inflight:*", false, true}, {"inflight:*", true, true}}
		for _, pattern := range ours {
			acts = append(acts, removal{pattern, false, false}, removal{pattern, true, false})
		}
	}
	return contain(opts, "keys", nil, func(a *arena) {
		if !opts.short {
			a.must("EVAL", `for i = 1, 100000 do redis.call('SET', 'other:' .. i, 'x') end`, 0)
		}
		k := keeper{a: a}
		for range 3 {
			k.start()
		}
		corpse := k.start()
		a.produce(load{rate: 200, longest: 20, failing: 10, orders: true})
		time.Sleep(time.Second)
		corpse.kill()
		// The dead one is to leave its tombstone, and its keys are none of a live process.
		a.eventually("it is found dead", func() bool { return len(a.list("KEYS", "resque:go:reaped:*")) > 0 })
		a.shuffle(len(acts), func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
		for _, act := range acts {
			k.prepare(act.pattern)
			k.do(act)
			time.Sleep(a.between(500*time.Millisecond, 1500*time.Millisecond))
		}
		a.eventually("ticks go on", func() bool {
			was := a.number("LLEN", "resque:queue:ticks")
			time.Sleep(2500 * time.Millisecond)
			return a.number("LLEN", "resque:queue:ticks") >= was+2
		})
		k.clean()
		a.checks = append(a.checks, func(l ledgers, _ *result) { a.checkStuck(l); a.checkDoubleTicks() })
	})
}

// keeper starts processes, each as a user of its own, and sees that the keys to remove exist.
type keeper struct {
	a *arena
	n int // acts so far
}

// lone is a queue that gets jobs for one act only: nothing repairs its lanes by the way.
func (k *keeper) lone() string { return fmt.Sprintf("lone-%d-", k.n) }

func (k *keeper) start() *process {
	user := fmt.Sprint("user", len(k.a.fleet))
	k.a.must("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all")
	return k.a.startWith([]string{"CHAOS_TICKS=1"}, "-uri=redis://"+user+":secret@"+k.a.redis.Addr, "-queues=work,lanes,lone-*", "-concurrency=8")
}

// user is the one as whom the process works whose key this is.
func (k *keeper) user(key string) string {
	for i, p := range k.a.fleet {
		if strings.Contains(key, fmt.Sprintf(":%d:", p.pid)) && p.alive() {
			return fmt.Sprint("user", i)
		}
	}
	k.a.Fatalf("no live process has the key %s", key)
	return ""
}

// prepare has jobs wait in lanes that get no others, and makes keys that the load does not make.
func (k *keeper) prepare(pattern string) {
	a := k.a
	k.n++
	var orders []order
	add := func(n int, class, key string, ms int) {
		for i := range n {
			orders = append(orders, order{job: job{fmt.Sprintf("%s-%d-%d", strings.ToLower(class), k.n, i), class, ms}, queue: k.lone(), key: key})
		}
	}
	switch pattern {
	case "lanes", "lanes:*", "lane:*", "limits", "slots:*":
		add(6, "Turn", fmt.Sprint("lone-", k.n), 700)
		add(16, "Few", "", 400)
	case "inflight:*", "process:*", "processes": // outcomes of each kind come within the next half second
		for i := range 24 {
			o := order{job: job{fmt.Sprintf("soon-%d-%d", k.n, i), []string{"Again", "Again", "Turn"}[i%3], 20 + 20*i}}
			o.queue, o.key, o.fails = k.lone(), fmt.Sprint("soon-", i), []int{retries + 1, 1, 0}[i/3%3]
			orders = append(orders, o)
		}
	case "paused":
		_ = a.client.PauseQueue("idle")
	case "paused-schedules":
		_ = a.client.PauseSchedule("missing")
	case "unique-rest":
		a.must("SET", "resque:go:unique-rest", "1", "PX", 5000)
	case "kept:*":
		a.must("RPUSH", "resque:queue:work", strings.Repeat("x", 5<<20))
		a.mu.Lock()
		a.strange++
		a.mu.Unlock()
	case "recovered":
		a.must("HSET", "resque:go:recovered", "0123456789abcdef0123456789abcdef", fmt.Sprintf("1 %d another", time.Now().UnixMilli()))
	case "reaped:*":
		a.must("SET", "resque:go:reaped:elsewhere:1:0", "1", "EX", 60)
	case "precise":
		a.order(order{job: job{fmt.Sprint("ruby-", k.n), "Nap", 5}, at: time.Now().Add(5500 * time.Millisecond), ruby: true})
	}
	if len(orders) == 0 {
		return
	}
	a.order(orders...)
	if orders[0].class == "Turn" {
		a.eventually("jobs wait in lanes", func() bool { return len(a.list("KEYS", "resque:go:lane:*:"+k.lone()+"*")) > 0 })
	} else {
		a.eventually("they are at work", func() bool { return a.number("LLEN", "resque:queue:"+k.lone()) == 0 })
	}
}

func (k *keeper) do(act removal) {
	a := k.a
	var found []string
	for deadline := time.Now().Add(10 * time.Second); len(found) == 0 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if found = a.list("KEYS", "resque:go:"+act.pattern); act.pattern == "lanes:*" || act.pattern == "lane:*" {
			if lone := slices.DeleteFunc(slices.Clone(found), func(key string) bool { return !strings.Contains(key, ":"+k.lone()) }); len(lone) > 0 {
				found = lone
			}
		}
		if act.pattern == "inflight:*" { // one that has much in it
			slices.SortFunc(found, func(x, y string) int { return a.number("HLEN", y) - a.number("HLEN", x) })
			found = found[:min(1, len(found))]
		}
	}
	if len(found) == 0 {
		a.note("there was no key %s", act.pattern)
		return
	}
	key, user, span := found[a.intn(len(found))], "", time.Duration(0)
	if act.broken {
		user = k.user(key)
	}
	if act.other {
		span = ofOtherType
	}
	a.removeKey(key, span, user)
	a.healed()
}

// clean removes what prepare has left and what is left of jobs that were removed.
func (k *keeper) clean() {
	a := k.a
	a.stopProducers()
	_ = a.client.ResumeQueue("idle")
	_ = a.client.ResumeSchedule("missing")
	a.drain()
	a.must("EVAL", `for _, key in ipairs(redis.call('KEYS', 'other:*')) do redis.call('DEL', key) end`, 0)
	a.remove("resque:go:kept:*")
	a.must("DEL", "resque:go:unique-rest")
	for _, lock := range a.list("KEYS", "resque:go:unique:"+strings.Repeat("?", 32)) {
		for _, id := range a.list("HKEYS", lock) {
			if a.removed.gone[id] || a.removed.unheard[id] { // no process has the job, so none releases its lock
				a.must("DEL", lock)
			}
		}
	}
}

// checkStuck looks for jobs that waited for more than a minute, for their first run or between
// two of them.
func (a *arena) checkStuck(l ledgers) {
	var stuck []string
	longest := time.Duration(0)
	for id, s := range l.jobs {
		from := max(s.pushed, a.orders[id].at.UnixNano())
		if a.orders[id].at.IsZero() {
			from = s.pushed
		}
		for _, n := range s.runs {
			wait := time.Duration(n.start - from)
			if from > 0 {
				longest = max(longest, wait)
			}
			if from > 0 && wait > soon {
				stuck = append(stuck, fmt.Sprintf("%s for %.0f s", id, wait.Seconds()))
			}
			from = n.end
		}
	}
	a.note("no job waited for more than %.1f s", longest.Seconds())
	if len(stuck) > 0 {
		slices.Sort(stuck)
		a.problem("%d jobs were stuck: %s", len(stuck), strings.Join(stuck[:min(5, len(stuck))], ", "))
	}
}

// checkDoubleTicks looks for ticks that were fired twice although their record stood.
func (a *arena) checkDoubleTicks() {
	seen := map[string]bool{}
	for _, text := range a.list("LRANGE", "resque:queue:ticks", 0, -1) {
		name, at := tickOf(text)
		tick := fmt.Sprint(name, at.Unix())
		if seen[tick] && !a.removed.within("ticks", at.UnixNano()) && !a.removed.within("ticks", at.Add(2*time.Second).UnixNano()) {
			a.problem("tick %s of schedule %s was fired twice", at.Format("04:05"), name)
		}
		seen[tick] = true
	}
}

// limitLost has the numbers of limits removed when no process that has registered the limit is
// left: one job of it may run at a time.
func limitLost(opts options) result {
	total := newResult()
	for _, other := range []bool{false, true} {
		total.add(contain(opts, fmt.Sprint("limit-lost-", other), nil, func(a *arena) {
			var orders []order
			for i := range 30 {
				orders = append(orders, order{job: job{fmt.Sprint("few-", i), "Few", 200}, queue: "lone"})
			}
			a.order(orders...)
			knows := a.start("-queues=lone", "-concurrency=8") // runs them within seconds
			a.eventually("all wait in a lane", func() bool {
				return a.number("LLEN", "resque:queue:lone") == 0 && len(a.list("KEYS", "resque:go:lane:*")) > 0
			})
			a.startWith([]string{"CHAOS_LIMITLESS=1"}, "-queues=lone", "-concurrency=8")
			knows.stop()
			at := time.Now()
			span := map[bool]time.Duration{true: ofOtherType}[other]
			a.removeKey("resque:go:limits", span, "")
			a.drain()
			a.checks = append(a.checks, func(l ledgers, _ *result) {
				most := mostAtOnce(l, at.Add(500*time.Millisecond))
				a.note("%d at once", most)
				if most > 1 {
					a.problem("%d ran at once under a limit whose number no process knows", most)
				}
			})
		}))
	}
	return total
}

// mostAtOnce is how many jobs that began after a time ran at once.
func mostAtOnce(l ledgers, after time.Time) (most int) {
	var starts []run
	for _, s := range l.jobs {
		for _, n := range s.runs {
			if n.start > after.UnixNano() {
				starts = append(starts, n)
			}
		}
	}
	for _, at := range starts {
		n := 0
		for _, r := range starts {
			if r.start <= at.start && at.start < r.end {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
