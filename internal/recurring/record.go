package recurring

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Record returns the schedule for the record of a process that has it.
func (s *Schedule) Record() resque.RegisteredSchedule {
	r := resque.RegisteredSchedule{
		Name: s.Name, Class: s.Class, Queue: s.Queue, TickArg: s.TickArg, Cron: s.Cron, Every: s.Every.Milliseconds(),
		FirstIn: s.FirstIn.Milliseconds(), Fugit: s.Fugit, Description: s.Description,
	}
	if s.Cron != "" {
		r.Zone = s.Location.String()
	}
	for _, arg := range s.Args {
		text, err := payload.EncodeValue(arg, payload.Plain)
		if err != nil { // Check has encoded it
			text = []byte("null")
		}
		r.Args = append(r.Args, json.RawMessage(text))
	}
	return r
}

// FromRecord returns the schedule that a process has. It is an error if this machine cannot tell its fire times: it does not know the
// zone, or the zone is that of the process's machine.
func FromRecord(r resque.RegisteredSchedule) (*Schedule, error) {
	of := Recurring{
		Cron: r.Cron, Every: time.Duration(r.Every) * time.Millisecond, FirstIn: time.Duration(r.FirstIn) * time.Millisecond, Fugit: r.Fugit,
		Class: r.Class, Queue: r.Queue, TickArg: r.TickArg, Description: r.Description,
	}
	for _, arg := range r.Args {
		of.Args = append(of.Args, arg)
	}
	if r.Zone == time.Local.String() {
		return nil, errors.New("its times are those of the machine of its process")
	}
	if r.Zone != "" {
		location, err := time.LoadLocation(r.Zone)
		if err != nil {
			return nil, err
		}
		of.Location = location
	}
	return Check(r.Name, of)
}
