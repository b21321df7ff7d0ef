package operations

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkClear clears by turns a queue of a thousand jobs and one of a million, and undoes it. Both are renames, so both take about as
// long. It reports what Redis says that the step of the clear took: the median, and the time within which 95 of a hundred are.
func BenchmarkClear(b *testing.B) {
	server := redistest.Start(b)
	c := server.Dial(b)
	in := inspect.New(face{server: server}).Operations()
	sizes := []int{1000, 1_000_000}
	for _, jobs := range sizes {
		queue := fmt.Sprint("jobs-", jobs)
		server.Do(b, "SADD", "resque:queues", queue)
		fill(b, server, "resque:queue:"+queue, jobs, func(n int) string { return fmt.Sprintf(`{"class":"Send","args":[%d]}`, n) })
	}
	server.Do(b, "CONFIG", "SET", "slowlog-log-slower-than", 0)
	server.Do(b, "CONFIG", "SET", "slowlog-max-len", 1_000)
	spent := make(map[int][]time.Duration)
	for b.Loop() {
		for _, jobs := range sizes {
			plan := inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: fmt.Sprint("jobs-", jobs)}}
			op, err := in.Start(b.Context(), plan)
			if err != nil {
				b.Fatal(err)
			}
			server.Do(b, "SLOWLOG", "RESET")
			if op, err = drive(in.Run(b.Context(), op.ID)); err != nil || op.Done != int64(jobs) {
				b.Fatal(op, err)
			}
			spent[jobs] = append(spent[jobs], slowest(b, c))
			if op, err = drive(in.Undo(b.Context(), op.ID)); err != nil || op.Back != int64(jobs) {
				b.Fatal(op, err)
			}
		}
	}
	for _, jobs := range sizes {
		slices.Sort(spent[jobs])
		for _, percent := range []int{50, 95} {
			took := spent[jobs][(len(spent[jobs])-1)*percent/100]
			b.ReportMetric(float64(took)/float64(time.Millisecond), fmt.Sprintf("%d-jobs-p%d-ms", jobs, percent))
		}
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
