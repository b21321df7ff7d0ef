package resque

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Registered is what the program of a process has registered: its classes, and the recurring schedules that it has in its code or in a
// file.
type Registered struct {
	At        int64                `json:"at"` // when it became so, in ms by Redis's clock
	Classes   []RegisteredClass    `json:"classes,omitempty"`
	Schedules []RegisteredSchedule `json:"schedules,omitempty"`
	Left      int                  `json:"left,omitempty"` // how many of both there was no room for
}

// RegisteredClass is a class with its options.
type RegisteredClass struct {
	Name    string   `json:"name"`
	Options []string `json:"options,omitempty"` // in words
	Timeout int64    `json:"timeout,omitempty"` // in ms
	Retries int      `json:"retries,omitempty"` // -1: as many as needed
	Limits  []string `json:"limits,omitempty"`  // see Limit.Spec
}

// RegisteredSchedule is a recurring schedule.
type RegisteredSchedule struct {
	Name        string            `json:"name"`
	Class       string            `json:"class"`
	Queue       string            `json:"queue"`
	Args        []json.RawMessage `json:"args,omitempty"`
	TickArg     bool              `json:"tick_arg,omitempty"`
	Cron        string            `json:"cron,omitempty"`
	Zone        string            `json:"zone,omitempty"`  // of a cron that names none; "Local" is that of the process
	Every       int64             `json:"every,omitempty"` // in ms
	FirstIn     int64             `json:"first_in,omitempty"`
	Fugit       string            `json:"fugit,omitempty"`
	Description string            `json:"description,omitempty"`
}

// MostRegistered is how many bytes Registered has at most in Redis, and registeredFor is how long it stays there after it was written.
const (
	MostRegistered = 64 << 10
	registeredFor  = 25 * time.Hour
)

// registered is what the program of a process has registered, as JSON. It is beside the process's record, because it is large and
// seldom read.
func (s Store) registered(p string) string { return s.ns + "go:process-more:" + p }

// encode returns the JSON, without the last classes and schedules where it has no room for them.
func (r Registered) encode() []byte {
	for {
		text, err := json.Marshal(r)
		if err == nil && len(text) <= MostRegistered {
			return text
		}
		// Half of the larger part goes at a time, so that few texts are made.
		switch n, m := len(r.Classes), len(r.Schedules); {
		case n == 0 && m == 0:
			return nil
		case n >= m:
			r.Classes, r.Left = r.Classes[:n/2], r.Left+n-n/2
		default:
			r.Schedules, r.Left = r.Schedules[:m/2], r.Left+m-m/2
		}
	}
}

// WriteRegistered has a renewal write what the program of a process has registered. refused hears why Redis refuses it, or nil.
func (s Store) WriteRegistered(c *Cargo, process string, r Registered, refused func(error)) {
	c.Write(refused, "SET", textKey(s.registered(process)), r.encode(), "PX", strconv.FormatInt(registeredFor.Milliseconds(), 10))
}

// registeredTogether is how many of them one command reads: at most 1 MiB.
const registeredTogether = 16

// ReadRegistered returns what the programs of processes have registered, of each that says it. What another program has written there
// is nothing.
func (s Store) ReadRegistered(c redis.Conn, processes ...string) (map[string]Registered, error) {
	all := make(map[string]Registered)
	for len(processes) > 0 {
		some := processes[:min(len(processes), registeredTogether)]
		processes = processes[len(some):]
		keys := redis.Args{}
		for _, p := range some {
			keys = keys.Add(s.registered(p))
		}
		texts, err := redis.ByteSlices(c.Do("MGET", keys...))
		if err != nil {
			return nil, fmt.Errorf("reading what processes have registered: %w", Explain(err))
		}
		for n, p := range some {
			var r Registered
			if n < len(texts) && json.Unmarshal(texts[n], &r) == nil {
				all[p] = r
			}
		}
	}
	return all, nil
}

// mostRegistrants is how many processes LiveRegistered reads.
const mostRegistrants = 250

// LiveRegistered is ReadRegistered of the processes of the fleet, which it returns too: of the 250 whose leases end last.
func (s Store) LiveRegistered(c redis.Conn) (all map[string]Registered, processes []string, err error) {
	processes, err = redis.Strings(c.Do("ZRANGE", s.processes(), -mostRegistrants, -1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading which processes there are: %w", Explain(err))
	}
	all, err = s.ReadRegistered(c, processes...)
	return all, processes, err
}
