package resque

import (
	"encoding/json"
	"time"
)

// Vitals is how a process is, as its record says. What is zero is not known.
type Vitals struct {
	At         int64 `json:"at"` // in ms, by Redis's clock
	RSS        int64 `json:"rss,omitempty"`
	Goroutines int   `json:"goroutines,omitempty"`
	Workers    int   `json:"workers,omitempty"`
	Busy       int   `json:"busy"`
	Exchange   int64 `json:"exchange,omitempty"` // when Redis answered its poller last, in ms
	RTT        int64 `json:"rtt,omitempty"`      // of its last renewal, in µs
	CPU        int64 `json:"cpu,omitempty"`      // used since its start, in ms

	// Autoscale is how it changes its number of workers by itself; nil: it does not.
	Autoscale *Autoscale `json:"autoscale,omitempty"`

	// Down are its parts that do not run, MostDown at most.
	Down []string `json:"down,omitempty"`
}

// Autoscale is between which numbers a process changes by itself how many jobs it runs at a time, and why it has the number that it
// has.
type Autoscale struct {
	Min    int    `json:"min"`
	Max    int    `json:"max"`
	Reason string `json:"reason"`
}

// StuckJob is a job that runs past its time limit.
type StuckJob struct {
	Queue   string `json:"queue"`
	Class   string `json:"class"`
	ID      string `json:"id,omitempty"`
	Worker  string `json:"worker,omitempty"`
	Started int64  `json:"started"` // in ms
	Limit   int64  `json:"limit"`   // in ms
}

// MostStuck is how many stuck jobs a record has, and MostDown how many names of parts.
const (
	MostStuck = 20
	MostDown  = 20
)

// ProcessKey returns the key of the record of a process.
func (s Store) ProcessKey(process string) Key { return hashKey(s.process(process)) }

// WriteVitals has a renewal write how the process is into its record.
func WriteVitals(c *Cargo, record Key, v Vitals, stuck []StuckJob) {
	v.Down = v.Down[:min(len(v.Down), MostDown)]
	text, _ := json.Marshal(v) // it has numbers and names only
	c.Write(nil, "HSET", record, "vitals", text)
	if len(stuck) == 0 {
		c.Write(nil, "HDEL", record, "stuck")
		return
	}
	text, _ = json.Marshal(stuck[:min(len(stuck), MostStuck)])
	c.Write(nil, "HSET", record, "stuck", text)
}

// readVitals reads these fields of a record. What another program has written there is nothing.
func readVitals(f map[string]string) (v Vitals, stuck []StuckJob) {
	if json.Unmarshal([]byte(f["vitals"]), &v) != nil {
		v = Vitals{}
	}
	if json.Unmarshal([]byte(f["stuck"]), &stuck) != nil {
		stuck = nil
	}
	v.Down = v.Down[:min(len(v.Down), MostDown)]
	return v, stuck[:min(len(stuck), MostStuck)]
}

// Time returns a time of Vitals or of a StuckJob; 0 is the zero time.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
