package workflows

import (
	"encoding/json"
	"strings"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// planned is a job that waits in a workflow, as far as those need it who read it: without what is put into it when it
// is sent.
type planned struct {
	Queue   string
	Payload []byte // nil: there is none
}

// parsePlanned reads 'letter mode of delay ttl cut last record', its record '<length>:<queue><payload>'.
func parsePlanned(text string) (t planned, ok bool) {
	words := strings.SplitN(text, " ", 8)
	if len(words) != 8 {
		return t, false
	}
	queue, raw, ok := resque.CutPrefix([]byte(words[7]))
	return planned{Queue: queue, Payload: raw}, ok
}

// place returns the place of the template's step.
func (t planned) place() (p Place, ok bool) {
	text, ok := PlaceOf(t.Payload)
	if !ok {
		return p, false
	}
	return ParsePlace(text)
}

// PlaceOf reads the place of a step from the payload of its job.
func PlaceOf(raw []byte) (place string, ok bool) {
	raw = payload.JSON(raw)
	if !strings.Contains(string(raw), `"`+Field+`":`) { // most jobs are no steps, and need no parsing
		return "", false
	}
	p, err := payload.Parse(raw)
	if err != nil || json.Unmarshal(p.Field(Field), &place) != nil {
		return "", false
	}
	return place, place != ""
}

// failedStep is the field f<n> of a step that failed or was not run.
type failedStep struct {
	fatal   bool // nothing bears it
	place   string
	failure string
	again   planned
}

// parseFailed reads '<fatal> <place>\n<failure>\n<template>'.
func parseFailed(text string) (f failedStep, ok bool) {
	lines := strings.SplitN(text, "\n", 3)
	if len(lines) != 3 || len(lines[0]) < 2 || lines[0][1] != ' ' {
		return f, false
	}
	f = failedStep{fatal: lines[0][0] == '1', place: lines[0][2:], failure: lines[1]}
	f.again, _ = parsePlanned(lines[2])
	return f, true
}
