package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The checker of groups finds items in two groups, groups that run with other lists, and those that are too large.
func TestGroupsChecker(t *testing.T) {
	a := empty(t)
	l := newLedgers()
	many := make([]string, gatherMost+1)
	for i := range many {
		many[i] = fmt.Sprint("many-", i)
	}
	l.add("w0", []byte("l\tg1\t1\t1,7\ta,b\nl\tg2\t2\t1,7\tc\nl\tbig\t3\t1,7\t"+strings.Join(many, ",")+"\n"))
	l.add("w1", []byte("l\tg1\t5\t2,8\ta,b\n"))
	if surplus := a.checkGroups(l); surplus != 2+gatherMost {
		t.Errorf("the items' ends are %d more, want %d", surplus, 2+gatherMost)
	}
	wantProblems(t, a, "group big has 21 items")
	a.problems = nil
	l.add("w2", []byte("l\tg2\t6\t1,8\tc,d\nl\tg3\t6\t1,8\tb\n"))
	delete(l.lists, "big")
	a.checkGroups(l)
	wantProblems(t, a, "group g2 ran with two lists", "item b is in the groups")
}

// The watch of groups reads what Redis says to MONITOR.
func TestFlushWatch(t *testing.T) {
	a := empty(t)
	f := a.watchFlushes()
	id := `4:work7:Collect"`
	now := time.Now().UnixMilli()
	a.must("EVAL", "redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2]); redis.call('ZADD', KEYS[1], ARGV[3], 'full')", 1, groupsKey, now-6000, id, now+60000)
	a.must("ZREM", groupsKey, "full")
	a.must("ZREM", groupsKey, id)
	a.eventually("it hears of both", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.late) == 1 && f.early == 1
	})
	f.check()
	wantProblems(t, a, "group "+id+" became a job 6.")
}

// The checker of jobs that count finds numbers that are missing, and those that were counted again for no reason.
func TestCountsChecker(t *testing.T) {
	now := time.Now()
	at := func(ms int) string { return fmt.Sprint(now.Add(time.Duration(ms) * time.Millisecond).UnixNano()) }
	// A run is "worker start cursor first last end": it counts one number each 100 ms, and ends as this letter says.
	for _, test := range []struct {
		name string
		runs string
		want []string
	}{
		{"to the end", "1 0 0 0 39 e", nil},
		{"snoozed", "1 0 0 0 19 k,1 5000 20 20 39 e", nil},
		{"snoozed and went back", "1 0 0 0 19 k,1 5000 19 19 39 e", []string{"went back to 19"}},
		{"snoozed and went on too far", "1 0 0 0 19 k,1 5000 21 21 39 e", []string{"went on with 21", "has never counted 20"}},
		{"killed", "0 0 0 0 29 -,1 9000 20 20 39 e", nil},
		{"killed and went back too far", "0 0 0 0 29 -,1 9000 5 5 39 e", []string{"went back to 5"}},
		{"killed and went on too far", "0 0 0 0 29 -,1 9000 31 31 39 e", []string{"went on with 31", "has never counted 30"}},
		{"killed twice", "0 0 0 0 29 -,2 9000 20 20 25 -,1 20000 5 5 39 e", []string{"went back to 5"}},
		{"not to the end", "1 0 0 0 38 e", []string{"has never counted 39"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := empty(t)
			exited := make(chan struct{})
			close(exited)
			a.fleet = []*process{
				{a: a, name: "w0", exited: exited, died: now.Add(3 * time.Second), status: -1},
				{a: a, name: "w1", exited: exited, died: now.Add(time.Hour)},
				{a: a, name: "w2", exited: exited, died: now.Add(10 * time.Second), status: -1},
			}
			l := newLedgers()
			for _, text := range strings.Split(test.runs, ",") {
				var worker, start, from, first, last int
				var end string
				_, _ = fmt.Sscan(text, &worker, &start, &from, &first, &last, &end)
				var lines strings.Builder
				fmt.Fprintf(&lines, "s\tcount-0\t%s\t1,1\nq\tcount-0\t%s\t%d\no\tcount-0\t%[2]s\tx\n", at(start), at(start), from)
				if start == 0 {
					fmt.Fprintf(&lines, "w\tcount-0\t%s\tx\n", at(start))
				}
				for n := first; n <= last; n++ {
					start += 100
					fmt.Fprintf(&lines, "n\tcount-0\t%s\t%d\n", at(start), n)
				}
				if end != "-" {
					fmt.Fprintf(&lines, "%s\tcount-0\t%s\n", end, at(start))
				}
				l.add(fmt.Sprint("w", worker), []byte(lines.String()))
			}
			r := newResult()
			a.checkCounts(1, 40)(l, &r)
			wantProblems(t, a, test.want...)
		})
	}
}

// The checker of what is done once finds a second value, and a function that ran when there was one.
func TestOnceChecker(t *testing.T) {
	for name, test := range map[string]struct {
		runs []*counted
		want []string
	}{
		"never":         {[]*counted{{}}, []string{"has never done"}},
		"once":          {[]*counted{{made: []string{"x"}, said: []string{"x"}}, {said: []string{"x"}}}, nil},
		"killed before": {[]*counted{{made: []string{"x"}}, {made: []string{"y"}, said: []string{"y"}}}, nil},
		"another value": {[]*counted{{made: []string{"x"}, said: []string{"x"}}, {made: []string{"y"}, said: []string{"y"}}}, []string{"once was twice"}},
		"ran again":     {[]*counted{{made: []string{"x"}, said: []string{"x"}}, {made: []string{"y"}}, {said: []string{"x"}}}, []string{"did what it does once again"}},
		"from nowhere":  {[]*counted{{made: []string{"x"}}, {said: []string{"z"}}}, []string{`its function said ["x"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			a := empty(t)
			a.checkOnce("j", test.runs)
			wantProblems(t, a, test.want...)
		})
	}
}
