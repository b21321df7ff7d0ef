package leases

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
)

var scriptTime = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+),usec=(\d+)`)

// scripts returns how many µs Redis has spent in scripts.
func (b *bundle) scripts() float64 {
	b.Helper()
	found := scriptTime.FindStringSubmatch(b.redis.Text(b, "INFO", "commandstats"))
	if found == nil {
		return 0
	}
	usec, err := strconv.ParseFloat(found[2], 64)
	b.must(err)
	return usec
}

// BenchmarkTurn is what a turn costs Redis: each job is reserved in one turn and ended in another, so many a turn.
func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{1, 11, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := setup(b)
			payloads := make([]string, n)
			for i := range payloads {
				payloads[i] = job(fmt.Sprintf("01M80NTA9RZYBB7STP%02dR000000", i))
			}
			var reserve, end float64
			jobs := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				r.must(r.publish(Publish{Queue: "q", Payloads: texts(payloads...)})[0])
				before := r.scripts()
				b.StartTimer()
				taken := r.turn(Turn{Asks: []Ask{ask(n, "q")}, Texts: []string{`"unique":`, `"wf":`, `"result":`}})
				b.StopTimer()
				acks := make([]Ack, 0, n)
				for _, j := range taken.Jobs {
					acks = append(acks, Ack{j.Queue, j.ID, j.Lease})
				}
				reserve, before, jobs = reserve+r.scripts()-before, r.scripts(), jobs+len(acks)
				b.StartTimer()
				r.turn(Turn{Acks: acks})
				b.StopTimer()
				end += r.scripts() - before
				b.StartTimer()
			}
			b.ReportMetric(reserve/float64(jobs), "redis-µs/reserved")
			b.ReportMetric(end/float64(jobs), "redis-µs/ended")
		})
	}
}
