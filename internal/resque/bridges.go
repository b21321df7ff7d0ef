package resque

import (
	"encoding/json"

	"github.com/gomodule/redigo/redis"
)

// MostBridges is how many bridges a record of a process has.
const MostBridges = 20

// Bridge is a queue of another library from which a process takes tasks, as its record says.
type Bridge struct {
	Queue   string `json:"queue"` // delayed:<q>
	To      string `json:"to"`    // where the jobs go
	At      int64  `json:"at"`    // when the process looked, in ms by Redis's clock
	Waiting int64  `json:"waiting"`
	Taken   int64  `json:"taken"`            // by the bridges of all processes
	Method  string `json:"method,omitempty"` // as in Depth
	Oldest  int64  `json:"oldest,omitempty"` // since when the first task waits, in ms; 0: there is none, or it is not known
}

// WriteBridges has a renewal write the bridges of a process into its record.
func WriteBridges(c *Cargo, record Key, all []Bridge) {
	text, _ := json.Marshal(all[:min(len(all), MostBridges)]) // it has numbers and texts only
	c.Write(nil, "HSET", record, "bridges", text)
}

// readBridges reads that field. What another program has written there is nothing.
func readBridges(f map[string]string) (all []Bridge) {
	if json.Unmarshal([]byte(f["bridges"]), &all) != nil {
		return nil
	}
	return all[:min(len(all), MostBridges)]
}

// ReadTakenOf has a renewal read how many tasks were taken from queues.
func (s Store) ReadTakenOf(c *Cargo, names []string, heard func(taken []int64)) {
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = name
	}
	c.Read(func(reply any, err error) {
		values, _ := redis.Values(reply, err)
		if len(values) != len(names) {
			return
		}
		taken := make([]int64, len(names))
		for i, v := range values {
			taken[i], _ = redis.Int64(v, nil) // a queue from which nothing was taken has none
		}
		heard(taken)
	}, "HMGET", hashKey(s.KeyOfTaken()), args...)
}
