package operations

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// A clear of a million jobs takes about as long as one of a thousand: it is a rename. So does its undo. redis-µs is what Redis says
// that the step took.
func BenchmarkClear(b *testing.B) {
	server := redistest.Start(b)
	c := server.Dial(b)
	in := inspect.New(face{server: server}).Operations()
	for _, jobs := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint(jobs), func(b *testing.B) {
			server.Do(b, "FLUSHALL")
			server.Do(b, "SADD", "resque:queues", "mail")
			for from := 0; from < jobs; from += 1000 {
				args := redis.Args{"resque:queue:mail"}
				for n := from; n < from+1000; n++ {
					args = args.Add(fmt.Sprintf(`{"class":"Send","args":[%d]}`, n))
				}
				if _, err := c.Do("RPUSH", args...); err != nil {
					b.Fatal(err)
				}
			}
			server.Do(b, "CONFIG", "SET", "slowlog-log-slower-than", 0)
			server.Do(b, "CONFIG", "SET", "slowlog-max-len", 1_000)
			var spent time.Duration
			for b.Loop() {
				op, err := in.Start(b.Context(), inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "mail"}})
				if err != nil {
					b.Fatal(err)
				}
				server.Do(b, "SLOWLOG", "RESET")
				if op, err = drive(in.Run(b.Context(), op.ID)); err != nil || op.Done != int64(jobs) {
					b.Fatal(op, err)
				}
				spent += slowest(b, c)
				if op, err = drive(in.Undo(b.Context(), op.ID)); err != nil || op.Back != int64(jobs) {
					b.Fatal(op, err)
				}
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "redis-µs/clear")
		})
	}
}

// slowest is how long the slowest script of the slow log took: the step.
func slowest(b *testing.B, c redis.Conn) (most time.Duration) {
	entries, err := redis.Values(c.Do("SLOWLOG", "GET", -1))
	if err != nil {
		b.Fatal(err)
	}
	for _, entry := range entries {
		fields, _ := redis.Values(entry, nil)
		took, _ := redis.Int64(fields[2], nil)
		command, _ := redis.Strings(fields[3], nil)
		if len(command) > 0 && (command[0] == "EVAL" || command[0] == "EVALSHA") {
			most = max(most, time.Duration(took)*time.Microsecond)
		}
	}
	return most
}
