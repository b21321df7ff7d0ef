package queues

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPlanStrict(t *testing.T) {
	t.Parallel()
	a := NewAsker(Strict)
	got := a.Plan([]Queue{{"b", 1}, {"a", 9}}, 3, false)
	if diff := cmp.Diff([]Ask{{"b", 3}, {"a", 3}}, got, cmp.AllowUnexported(Ask{})); diff != "" {
		t.Error(diff)
	}
	if a.Plan(nil, 3, false) != nil || a.Plan([]Queue{{"a", 1}}, 0, false) != nil {
		t.Error("a plan for nothing is not empty")
	}
}

// Whatever the order: each queue has its place once, and one pass and the next
// can fill all slots from any queue that has jobs.
func TestPlanIsComplete(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := NewAsker(rapid.SampledFrom([]string{Strict, Weighted, RoundRobin}).Draw(t, "order"))
		for range rapid.IntRange(1, 4).Draw(t, "plans") {
			var queues []Queue
			for i := range rapid.IntRange(1, 12).Draw(t, "queues") {
				queues = append(queues, Queue{fmt.Sprint("q", i), rapid.IntRange(1, maxWeight).Draw(t, "weight")})
			}
			n := rapid.IntRange(1, 40).Draw(t, "slots")
			asks, sum := a.Plan(queues, n, false), 0
			seen := map[string]bool{}
			for _, ask := range asks {
				if seen[ask.Queue] || ask.Quota < 0 || ask.Quota > n {
					t.Fatalf("bad plan %v", asks)
				}
				seen[ask.Queue] = true
				sum += ask.Quota
				if rapid.Bool().Draw(t, "took") {
					a.Took(ask.Queue, ask.Quota)
				}
			}
			if len(seen) != len(queues) || a.order != Strict && sum != n {
				t.Fatalf("plan %v for %d slots and %v", asks, n, queues)
			}
		}
	})
}

// The share of the slots each queue gets, and how often each is asked first,
// follow the weights within five standard deviations.
func TestWeightsHold(t *testing.T) {
	t.Parallel()
	queues := []Queue{{"a", 5}, {"b", 3}, {"c", 1}, {"d", 1}}
	for _, n := range []int{1, 7, 100} {
		a := NewAsker(Weighted)
		a.rng = rand.New(rand.NewPCG(1, uint64(n)))
		quotas, firsts := map[string]int{}, map[string]int{}
		const plans = 20000
		for range plans {
			asks := a.Plan(queues, n, false)
			firsts[asks[0].Queue]++
			for _, ask := range asks {
				quotas[ask.Queue] += ask.Quota
			}
		}
		for _, q := range queues {
			p := float64(q.weight) / 10
			near(t, fmt.Sprintf("slots of %s, %d at a time", q.Name, n), quotas[q.Name], plans*n, p)
			near(t, fmt.Sprintf("first places of %s, %d at a time", q.Name, n), firsts[q.Name], plans, p)
		}
	}
}

// Few draws for many slots give each queue its share as well.
func TestWeightsHoldForFew(t *testing.T) {
	t.Parallel()
	queues := []Queue{{"a", 5}, {"b", 3}, {"c", 1}, {"d", 1}}
	for _, n := range []int{1, 7, 50, 104} {
		a := NewAsker(Weighted)
		a.rng = rand.New(rand.NewPCG(1, uint64(n)))
		firsts := map[string]int{}
		const plans = 20000
		for range plans {
			sum := 0
			asks := a.Plan(queues, n, true)
			firsts[asks[0].Queue]++
			for _, ask := range asks {
				if sum += ask.Quota; ask.Quota < 1 {
					t.Fatalf("%d slots: %+v", n, asks)
				}
			}
			if sum != n {
				t.Fatalf("%d slots: quotas of %d in all", n, sum)
			}
		}
		for _, q := range queues {
			near(t, fmt.Sprintf("first places of %s, %d at a time", q.Name, n), firsts[q.Name], plans, float64(q.weight)/10)
		}
	}
}

// The queues no slot was drawn for follow by weight as well: with one slot the
// second place goes by weight among those left.
func TestRestIsWeighted(t *testing.T) {
	t.Parallel()
	queues := []Queue{{"a", 1}, {"b", 1}, {"c", 8}}
	a := NewAsker(Weighted)
	a.rng = rand.New(rand.NewPCG(2, 3))
	afterA, cSecond := 0, 0
	for range 30000 {
		asks := a.Plan(queues, 1, false)
		if asks[0].Queue == "a" {
			afterA++
			if asks[1].Queue == "c" {
				cSecond++
			}
		}
	}
	near(t, "second places of c behind a", cSecond, afterA, 8.0/9)
}

func near(t *testing.T, what string, got, of int, p float64) {
	t.Helper()
	want, deviation := float64(of)*p, math.Sqrt(float64(of)*p*(1-p))
	if math.Abs(float64(got)-want) > 5*deviation {
		t.Errorf("%s: %d of %d, want about %.0f", what, got, of, want)
	}
}

// serve plays the caller: a pass by quota, a pass to fill up.
func serve(a *Asker, queues []Queue, n int, jobs map[string]int) (served []string) {
	asks := a.Plan(queues, n, false)
	for _, pass := range []bool{true, false} {
		for _, ask := range asks {
			take := min(n-len(served), jobs[ask.Queue])
			if pass {
				take = min(take, ask.Quota)
			}
			if take == 0 {
				continue
			}
			jobs[ask.Queue] -= take
			a.Took(ask.Queue, take)
			for range take {
				served = append(served, ask.Queue)
			}
		}
	}
	return served
}

func TestRoundRobin(t *testing.T) {
	t.Parallel()
	abc := []Queue{{"a", 1}, {"b", 5}, {"c", 1}}
	full := func() map[string]int { return map[string]int{"a": 99, "b": 99, "c": 99} }
	type turn struct {
		queues []Queue
		n      int
		want   string
	}
	for name, tt := range map[string]struct {
		jobs  map[string]int
		turns []turn
	}{
		"one at a time":               {full(), []turn{{abc, 1, "a"}, {abc, 1, "b"}, {abc, 1, "c"}, {abc, 1, "a"}}},
		"continues inside a round":    {full(), []turn{{abc, 5, "aabbc"}, {abc, 1, "c"}, {abc, 2, "ab"}, {abc, 3, "cab"}, {abc, 1, "c"}}},
		"an empty queue has no turn":  {map[string]int{"b": 9, "c": 9}, []turn{{abc, 1, "b"}, {abc, 1, "c"}, {abc, 1, "b"}, {abc, 1, "c"}}},
		"nothing found, nothing lost": {map[string]int{}, []turn{{abc, 2, ""}, {abc, 2, ""}}},
		"a queue is left out": {full(), []turn{
			{abc, 1, "a"}, {[]Queue{{"a", 1}, {"c", 1}}, 1, "c"}, {abc, 1, "a"}, {abc[2:], 1, "c"}, {abc, 1, "a"},
		}},
		"a queue is new": {map[string]int{"a": 9, "aa": 9, "b": 9}, []turn{
			{abc, 1, "a"}, {[]Queue{{"a", 1}, {"aa", 1}, {"b", 1}}, 2, "aab"}, {abc, 1, "a"},
		}},
		"other queues altogether": {map[string]int{"a": 9, "x": 9}, []turn{{abc, 1, "a"}, {[]Queue{{"x", 1}}, 1, "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := NewAsker(RoundRobin)
			for i, turn := range tt.turns {
				got := ""
				for _, q := range serve(a, turn.queues, turn.n, tt.jobs) {
					got += q
				}
				if got != turn.want {
					t.Fatalf("turn %d served %q, want %q", i, got, turn.want)
				}
			}
		})
	}
}

// Over time every queue that has jobs gets the same, whatever the number of
// free slots.
func TestRoundRobinIsFair(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := NewAsker(RoundRobin)
		var queues []Queue
		jobs := map[string]int{}
		for i := range rapid.IntRange(2, 6).Draw(t, "queues") {
			queues = append(queues, Queue{string(rune('a' + i)), 1})
			jobs[queues[i].Name] = 1 << 20
		}
		served := map[string]int{}
		for range 50 {
			for _, q := range serve(a, queues, rapid.IntRange(1, 9).Draw(t, "slots"), jobs) {
				served[q]++
			}
			low, high := math.MaxInt, 0
			for _, q := range queues {
				low, high = min(low, served[q.Name]), max(high, served[q.Name])
			}
			if high-low > 1 {
				t.Fatalf("served %v", served)
			}
		}
	})
}

func BenchmarkPlan(b *testing.B) {
	for _, order := range []string{Strict, Weighted, RoundRobin} {
		for _, count := range []int{1, 5, 200} {
			var queues []Queue
			for i := range count {
				queues = append(queues, Queue{fmt.Sprint("queue", i), 1 + i%7})
			}
			b.Run(fmt.Sprintf("%s/%d", order, count), func(b *testing.B) {
				a := NewAsker(order)
				b.ReportAllocs()
				for b.Loop() {
					a.Took(a.Plan(queues, 25, false)[0].Queue, 1)
				}
			})
		}
	}
}
