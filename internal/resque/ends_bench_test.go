package resque

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
)

// BenchmarkTurn is what a turn costs that ends 40 jobs and takes 40 others, for each job: the processor time of Redis, all in
// all. Twin is commit.lua in place of the exchange: a guard that always holds sends it there.
func BenchmarkTurn(b *testing.B) {
	const jobs = 40
	s := New("")
	for _, way := range []struct {
		name string
		ends func(j Reserved) []Effect
	}{
		{"done", nil},
		{"unlocked", func(j Reserved) []Effect {
			return []Effect{s.Release(fmt.Sprintf("%032x%032x", j.Ticket, j.Ticket), "01J9ZQ2V7N8X4M6K3P5R")}
		}},
		{"retried", func(j Reserved) []Effect { return []Effect{s.ScheduleAt(1_900_000_000_000+j.Ticket, "low", j.Payload)} }},
		{"failed", func(j Reserved) []Effect { return s.FileFailure("low", failureOf(j.Payload), false) }},
	} {
		for _, twin := range []bool{false, true} {
			if way.ends == nil && twin {
				continue
			}
			b.Run(fmt.Sprintf("%s/twin=%v", way.name, twin), func(b *testing.B) {
				w := newWire(b)
				w.enter("p")
				payload := []byte(shortPayload)
				x := &Exchange{Process: "p", Epoch: 1, Want: jobs, Asks: []Ask{{Queue: "low", Quota: jobs}}}
				push := []any{w.s.KeyOfQueue("low")}
				for range jobs {
					push = append(push, payload)
				}
				w.do("RPUSH", push...)
				turn := func() {
					out, err := func() (Exchanged, error) { w.must(w.s.Send(w.c, x)); return w.s.Receive(w.c, x) }()
					w.must(err)
					if len(out.Jobs) != jobs || len(out.Refused) > 0 || out.Missing > 0 {
						b.Fatalf("%+v", out)
					}
					x.Last += jobs
					x.Done, x.Ended = nil, nil
					for _, j := range out.Jobs {
						if way.ends == nil {
							x.Done = append(x.Done, j.Ticket)
							continue
						}
						e := Ended{Ticket: j.Ticket, Counts: CountsDone, Effects: way.ends(j)}
						if twin {
							e.Effects = append(e.Effects, Guard("EXISTS", w.s.AnyKey("none"), "0"))
						}
						x.Ended = append(x.Ended, e)
					}
				}
				turn()
				var spent float64
				b.ReportAllocs()
				for b.Loop() {
					w.do("DEL", w.s.failed(), w.s.KeyOfSchedule())
					w.do("RPUSH", push...)
					if way.name == "unlocked" {
						locks := []any{lockJobs, len(x.Ended)}
						for _, e := range x.Ended {
							locks = append(locks, e.Effects[0].keys[0].name)
						}
						w.do("EVAL", append(locks, x.Ended[0].Effects[0].args[0], "done 1795818497228 1795818497228  3:low"+shortPayload)...)
					}
					before := redisCPU(w)
					turn()
					spent += redisCPU(w) - before
				}
				b.ReportMetric(spent/float64(b.N)/jobs, "redis-µs/job")
			})
		}
	}
}

const lockJobs = `for _, key in ipairs(KEYS) do
redis.call('HSET', key, ARGV[1], ARGV[2])
redis.call('PEXPIRE', key, 604800000)
end`

var usedCPU = regexp.MustCompile(`used_cpu_(?:sys|user)_main_thread:([\d.]+)`)

// redisCPU is the processor time that the server has spent, in µs.
func redisCPU(w *wire) (µs float64) {
	for _, m := range usedCPU.FindAllStringSubmatch(w.server.Text(w.t, "INFO", "cpu"), -1) {
		s, _ := strconv.ParseFloat(m[1], 64)
		µs += 1e6 * s
	}
	return µs
}
