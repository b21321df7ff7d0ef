package main

import (
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
	"github.com/goworker/goworker/schedule"
)

func TestSchedules(t *testing.T) {
	d := goworker.New(goworker.WorkerSettings{})
	register(d)
	midnight := time.Date(2026, 3, 2, 23, 0, 0, 0, time.UTC) // in Berlin
	r := goworkertest.New(t, d, goworkertest.StartAt(midnight.Add(3*time.Hour-5*time.Second)))
	r.Advance(10 * time.Second)
	tidied := r.ResultsOf("Tidy")
	if len(tidied) != 1 || !tidied[0].At.Equal(midnight.Add(3*time.Hour)) {
		t.Errorf("tidied %v", tidied)
	}
	pings := r.ResultsOf("Ping")
	if len(pings) != 10 {
		t.Errorf("%d pings in ten seconds", len(pings))
	}
	for _, ping := range pings {
		ping.RequireDone(t)
	}
}

func TestScheduleFile(t *testing.T) {
	d := goworker.New(goworker.WorkerSettings{})
	register(d)
	if err := schedule.LoadFile(d, "schedule.yml"); err != nil {
		t.Fatal(err)
	}
	r := goworkertest.New(t, d)
	r.Advance(10 * time.Second)
	if n := len(r.ResultsOf("Tidy")); n < 5 {
		t.Errorf("%d jobs of the file", n)
	}
}
