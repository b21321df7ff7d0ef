package goworker

import (
	"errors"
	"time"

	"github.com/goworker/goworker/internal/autoscale"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/roster"
	"github.com/goworker/goworker/internal/setting"
)

// This file has what changes while the daemon runs: the concurrency, the queues, and what a configuration file changes.

// Resized is the result of a change of the concurrency.
type Resized struct {
	From int `json:"from"`
	To   int `json:"to"`

	// Settings is WorkerSettings.Concurrency, with which the next run begins.
	Settings int `json:"settings"`

	// Fixed says that the process had changed the number by itself between two bounds, and that both bounds are To now.
	Fixed bool `json:"autoscale_fixed,omitempty"`

	// Busy are the jobs that run on workers beyond To. They go on, and their workers are unregistered when
	// they have ended.
	Busy []BusyWorker `json:"busy,omitempty"`
}

// Relisted is the result of a change of the queues. The lists are in the grammar of WorkerSettings.QueuesString.
type Relisted struct {
	From string `json:"from"`
	To   string `json:"to"`

	// Settings is the list of the settings, with which the next run begins.
	Settings string `json:"settings"`

	// Busy are the jobs that run on workers whose ids name the former list. They go on, and these ids are
	// unregistered when the jobs have ended.
	Busy []BusyWorker `json:"busy,omitempty"`
}

// BusyWorker is a worker of this process and the job that it runs.
type BusyWorker struct {
	Worker string    `json:"worker"` // its id for other Resque tools
	Queue  string    `json:"queue"`
	Since  time.Time `json:"since"`
}

func busyWorkers(jobs []*outcome.Job) (busy []BusyWorker) {
	for _, j := range jobs {
		busy = append(busy, BusyWorker{Worker: j.Worker, Queue: j.Queue, Since: j.StartedAt})
	}
	return busy
}

func resized(c roster.Change[int], err error) (Resized, error) {
	return Resized{From: c.From, To: c.To, Settings: c.Settings, Fixed: c.Fixed, Busy: busyWorkers(c.Busy)}, prefix.Of(err)
}

// errNotRunning is returned by what changes a run while there is none.
var errNotRunning = errors.New("the daemon does not run: call Run or Work first, or change the settings")

// settingTable is the settings, for package config and the command.
var settingTable = setting.NewTable(settingRows, func(from setting.Sources) ([]setting.Shown, time.Duration, error) {
	c, err := WorkerSettings{}.configFrom(false, from)
	if err != nil {
		return nil, 0, err
	}
	return setting.Show(settingRows, &c.WorkerSettings, c.origins), StopTime(c.WorkerSettings), nil
})

// caps are what the reaper goes by.
func (c config) caps() fleet.Caps {
	return fleet.Caps{RecoverLimit: c.RecoverLimit, FailedMaxSize: c.FailedMaxSize, FailedMaxAge: c.FailedMaxAge}
}

// bounds are those within which the number of workers changes by itself.
func (c config) bounds() autoscale.Bounds {
	return autoscale.Bounds{Min: c.Concurrency, Max: c.ConcurrencyMax, Age: c.ScaleAge, Fast: c.ScaleUp == ScaleFast}
}
