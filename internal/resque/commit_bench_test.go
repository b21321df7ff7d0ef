package resque

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// BenchmarkCommit is what a commit of n jobs costs. Beside the time of all it reports that which Redis
// spends in the script.
func BenchmarkCommit(b *testing.B) {
	slot := NewLane("low", Limit{Kind: LimitRunning, Name: "One"})
	rate := NewLane("low", Limit{Kind: LimitStarts, Name: "Mail", Keyed: true, Key: "k"})
	s := New("")
	for _, way := range []struct {
		name string
		lane *Lane
		ends func(j Reserved) []Effect
	}{
		{"failed", nil, func(j Reserved) []Effect { return s.FileFailure("low", failureOf(j.Payload), false) }},
		{"retried", nil, func(j Reserved) []Effect { return []Effect{s.ScheduleAt(1_900_000_000_123, "low", j.Payload)} }},
		{"requeued", nil, s.Head},
		{"unlocked", nil, func(j Reserved) []Effect { return []Effect{s.Release(fmt.Sprint("lock", j.Ticket), "id")} }},
		{"slot", &slot, func(j Reserved) []Effect { return s.LeaveLane(nil, "p", j, true) }},
		{"rate", &rate, func(j Reserved) []Effect { return s.LeaveLane(s.ToLane(j, rate), "p", j, false) }},
	} {
		for _, n := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/%d", way.name, n), func(b *testing.B) {
				w := newWire(b)
				w.enter("p")
				w.do("HSET", w.s.limits(), "r:Mail", "60000000 2")
				w.do("SET", w.s.tokens("r:Mail=k"), "9000000000000000")
				var ended []Ended
				record := []any{w.s.inflight("p")}
				for i := range n {
					j := Reserved{Ticket: int64(i + 1), Queue: "low", Payload: fmt.Appendf(nil, `{"class":"Hello","args":["world",%d]}`, i), Lane: way.lane}
					ended = append(ended, Ended{Ticket: j.Ticket, Counts: CountsDone, Effects: way.ends(j)})
					record = append(record, j.Ticket, j.prefix()+string(j.Payload))
				}
				w.do("SCRIPT", "LOAD", commitFor(ended).Text())
				w.do("CONFIG", "RESETSTAT")
				b.ReportAllocs()
				for b.Loop() {
					w.must(w.c.Send("DEL", w.s.failed(), w.s.KeyOfQueue("low"), w.s.lane(rate)))
					w.must(w.c.Send("HSET", record...))
					w.must(w.c.Send("EVALSHA", w.s.commitArgs(commitFor(ended).Hash(), w.s.byProcess("p", 1), ended)...))
					w.must(w.c.Flush())
					for range 2 {
						_, err := w.c.Receive()
						w.must(err)
					}
					out, err := redis.Values(w.c.Receive())
					w.must(err)
					if refused, _ := redis.Int(out[2], nil); refused != 0 {
						b.Fatalf("refused: %q", out)
					}
				}
				_, stats, _ := strings.Cut(w.server.Text(b, "INFO", "commandstats"), "cmdstat_evalsha:")
				_, spent, _ := strings.Cut(stats, "usec_per_call=")
				spent, _, _ = strings.Cut(spent, ",")
				µs, _ := strconv.ParseFloat(spent, 64)
				b.ReportMetric(µs, "redis-µs/op")
			})
		}
	}
}
