package resque

import (
	"slices"
	"strconv"
	"strings"
)

// HandedOut says which of the reserved jobs were with a worker. It is a field of the process
// record. Only these jobs count as running when the process is found dead.
type HandedOut struct {
	UpTo  int64   // all jobs up to this ticket, …
	Held  []int64 // … except suspects that wait for their trials
	Trial int64   // the suspect that a death is charged to; 0: none
	Past  []int64 // the suspects whose trials are longer after a death
}

// String is the form in the record: "9 4 5 *6 +3".
func (h HandedOut) String() string {
	b := strconv.AppendInt(nil, h.UpTo, 10)
	for _, t := range h.Held {
		b = strconv.AppendInt(append(b, ' '), t, 10)
	}
	if h.Trial != 0 {
		b = strconv.AppendInt(append(b, " *"...), h.Trial, 10)
	}
	for _, t := range h.Past {
		b = strconv.AppendInt(append(b, " +"...), t, 10)
	}
	return string(b)
}

func parseHanded(text string) (h HandedOut) {
	for i, field := range strings.Fields(text) {
		digits := strings.TrimLeft(field, "*+")
		ticket, _ := strconv.ParseInt(digits, 10, 64)
		switch {
		case i == 0:
			h.UpTo = ticket
		case field[0] == '*':
			h.Trial = ticket
		case field[0] == '+':
			h.Past = append(h.Past, ticket)
		default:
			h.Held = append(h.Held, ticket)
		}
	}
	return h
}

// running reports whether the job was with a worker.
func (h HandedOut) running(ticket int64) bool {
	return ticket <= h.UpTo && !slices.Contains(h.Held, ticket)
}
