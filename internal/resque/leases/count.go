package leases

import (
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var countScript = resque.LoadScript(scriptFiles, "count")

// Counted is how many delayed jobs a queue has.
type Counted struct {
	Jobs  int
	First int64 // when the first is due, in ms
}

// CountDelayed counts a page of the delayed jobs of all queues, behind so many, into counts. It returns how many the page had: fewer
// than most are the last ones.
func (s Store) CountDelayed(c redis.Conn, from, most int, counts map[string]Counted) (read int, now int64, err error) {
	var a resque.Call
	a.Key(s.KeyOfSchedule())
	a.Arg(from, most)
	r, err := redis.Strings(a.Do(c, countScript))
	if err == nil && len(r)%3 != 2 {
		err = resque.ErrAnswer
	}
	if err != nil {
		if resque.IsWrongType(err) {
			err = &resque.KeyTypeError{Key: s.KeyOfSchedule(), Want: "sorted set", Err: err}
		}
		return 0, 0, fmt.Errorf("counting the delayed jobs: %w", resque.Explain(err))
	}
	read, _ = strconv.Atoi(r[0])
	now, _ = strconv.ParseInt(r[1], 10, 64)
	for r = r[2:]; len(r) > 0; r = r[3:] {
		jobs, _ := strconv.Atoi(r[1])
		first, _ := strconv.ParseFloat(r[2], 64)
		one := counts[r[0]]
		if one.Jobs == 0 {
			one.First = int64(first) // pages come in the order of time
		}
		one.Jobs += jobs
		counts[r[0]] = one
	}
	return read, now, nil
}
