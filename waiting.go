package goworker

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// WaitingInfo is a lane: jobs of a queue that wait, in order, for the same limits or for
// the turn of the same key.
type WaitingInfo struct {
	Limits []string // the names of the limits they are held to, each with its key: SendEmail/key=acme
	Key    string   // the key of Fair, if they take turns by one
	Jobs   int64
	Turn   time.Time // since when it is its turn or, if it waits for a rate, when that is looked at: within a minute
}

// Waiting returns what waits in a queue whose jobs have limits or take turns, the lane
// whose turn is next first. Ruby's tools do not see these jobs. It costs a command a lane.
func (d *Daemon) Waiting(queue string) ([]WaitingInfo, error) {
	lanes, err := query(d, func(s resque.Store, c redis.Conn) ([]resque.WaitingLane, error) { return s.WaitingIn(c, queue) })
	infos := make([]WaitingInfo, 0, len(lanes))
	for _, l := range lanes {
		info := WaitingInfo{Jobs: l.Jobs, Turn: time.UnixMicro(l.Turn)}
		for _, limit := range l.Limits() {
			name := limit.Name
			if limit.Keyed {
				name += "=" + limit.Key
			}
			info.Limits = append(info.Limits, name)
		}
		info.Key = l.Key()
		infos = append(infos, info)
	}
	return infos, err
}

// Waiting is Daemon.Waiting of the default daemon.
func Waiting(queue string) ([]WaitingInfo, error) { return std().Waiting(queue) }
