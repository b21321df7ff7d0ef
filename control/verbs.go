package control

import (
	"encoding/json"
	"fmt"

	"github.com/goworker/goworker/internal/resque/control"
)

// The verbs that every daemon answers. Their answers are the types of the same names; Decode reads them.
const (
	Ping       = "ping"       // PingAnswer
	Stats      = "stats"      // StatsAnswer: what the process has counted, and its memory
	Active     = "active"     // []JobAnswer: jobs that run. With the arguments {"args":true} also theirs, at the level full
	Reserved   = "reserved"   // []JobAnswer: jobs that the process has prefetched
	Registered = "registered" // []ClassAnswer
	Conf       = "conf"       // []SettingAnswer, without secrets
	Queues     = "queues"     // QueuesAnswer
	Report     = "report"     // ReportAnswer: for a bug report
	Verbs      = "verbs"      // []VerbAnswer: the verbs that a process knows, with those of its program
	Stacks     = "stacks"     // StacksAnswer: the stacks of all goroutines. It needs To, and a process answers once in ten seconds
)

// The commands that every daemon obeys.
const (
	Log      = "log"      // LevelAnswer: logs at {"level":"debug"} for {"for":600} seconds, 3,600 at most
	Pause    = "pause"    // QueuesAnswer: takes no more jobs until Resume or its end
	Resume   = "resume"   // QueuesAnswer
	Shutdown = "shutdown" // PingAnswer: stops as after a signal, with {"now":true} as after two. It needs the level full

	// These change the concurrency and the queues of a process until it ends. Their answers are goworker.Resized and goworker.Relisted.
	// Concurrency runs {"workers":"12"} jobs at a time, or "+4" more, with {"for":600} for so many seconds, a week at most. It needs the
	// level full for more than the settings say.
	Concurrency = "concurrency"
	WorkQueues  = "work-queues" // works {"set":["high","low=2"]}, or "add" or "remove". It needs the level full

	// Autoscale makes the process change its concurrency by itself between {"bounds":"5..50"}, or with "off" stops that, for {"for":600}
	// seconds or until the process ends: RescaledAnswer. It needs the level full for more than the settings say.
	Autoscale = "autoscale"
)

// Profile is the verb of programs that add it: see package control/profile. It answers a ProfileAnswer for {"kind":"cpu","for":10}. It
// needs To, and the level full. Give the call a Timeout that is longer than the profile takes.
const Profile = "profile"

// The answers of processes. Times are in seconds.
type (
	PingAnswer    = control.Ping
	VerbAnswer    = control.Verb
	StatsAnswer   = control.Stats
	CountsAnswer  = control.Counts
	JobAnswer     = control.Job
	ClassAnswer   = control.Class
	SettingAnswer = control.Setting
	QueuesAnswer  = control.Queues
	ReportAnswer  = control.Report
	PartAnswer    = control.Part
	StacksAnswer  = control.Stacks
	StackAnswer   = control.Stack
	LevelAnswer   = control.Level
	ProfileAnswer = control.Profile

	AutoscaleAnswer = control.Autoscale // a part of StatsAnswer
	RescaledAnswer  = control.Rescaled
)

// Decode reads the answer of a process into v, a pointer to the answer of the verb.
func (r Reply) Decode(v any) error {
	if err := json.Unmarshal(r.Body, v); err != nil {
		return fmt.Errorf("goworker: the answer of process %s cannot be read: %w", r.Process, err)
	}
	return nil
}
