package control

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Member is a process of the fleet, as its lease and its record describe it.
type Member struct {
	Names
	Version string
	Known   bool          // Redis has its record
	Control string        // its setting Control; "": its release knows no commands
	Age     time.Duration // since its lease was renewed
}

// Members reads the processes that have not been found dead, and Redis's time. It takes two round trips.
func (s Store) Members(c redis.Conn) (now time.Time, members []Member, err error) {
	b := resque.Batch{Conn: c}
	b.Send("TIME")
	b.Send("ZRANGE", s.KeyOfProcesses(), 0, -1, "WITHSCORES")
	replies, err := b.Receive()
	var time2 []int64
	if err == nil {
		time2, err = redis.Int64s(resque.Answer(replies[0]))
	}
	var leases []string
	if err == nil {
		leases, err = redis.Strings(resque.Answer(replies[1]))
	}
	if err == nil && (len(time2) != 2 || len(leases)%2 != 0) {
		err = resque.ErrAnswer
	}
	if err != nil {
		return now, nil, fmt.Errorf("reading which processes live: %w", resque.Explain(err))
	}
	now = time.Unix(time2[0], time2[1]*1000)
	b = resque.Batch{Conn: c}
	for i := 0; i < len(leases); i += 2 {
		ends, _ := strconv.ParseFloat(leases[i+1], 64)
		if ends < 0 {
			continue // another process has found it dead
		}
		renewed := time.UnixMilli(int64(ends)).Add(-resque.LeasePeriod)
		members = append(members, Member{Names: Names{ID: leases[i]}, Age: max(0, now.Sub(renewed))})
		b.Send("HMGET", s.ProcessKey(leases[i]).String(), "host", "name", "version", "control")
	}
	records, err := b.Receive()
	if err != nil {
		return now, nil, fmt.Errorf("reading the records of processes: %w", resque.Explain(err))
	}
	for i := range members {
		f, err := redis.Strings(resque.Answer(records[i]))
		if err != nil || len(f) != 4 {
			continue // another program has overwritten it: the process writes it again
		}
		m := &members[i]
		m.Host, m.Name, m.Version, m.Control = f[0], f[1], f[2], f[3]
		m.Known = m.Host != ""
	}
	return now, members, nil
}
