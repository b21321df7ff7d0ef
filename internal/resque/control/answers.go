package control

import (
	"encoding/json"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// The answers of processes. The names of numbers in JSON contain their unit; zero means that the value is unknown or does not apply. For is
// how long a change lasts, in seconds, as in the argument of the same name.

// Ping is the answer of the verb ping.
type Ping struct {
	Up      float64 `json:"up_seconds"`
	Workers int     `json:"workers"`
	Busy    int     `json:"busy"`
}

// Verb is an entry of the answer of the verb verbs.
type Verb struct {
	Name      string `json:"name"`
	Help      string `json:"help,omitempty"`
	Level     string `json:"level"`               // that the process needs; with some arguments a verb of the level on needs full
	Addressed bool   `json:"addressed,omitempty"` // the process refuses a command to all processes
}

// Stats is the answer of the verb stats.
type Stats struct {
	Ping
	Goroutines int               `json:"goroutines"`
	Heap       int64             `json:"heap_bytes"`             // in use
	System     int64             `json:"system_bytes"`           // that Go has of the system
	GCs        int64             `json:"gcs"`                    // collections since the start
	Exchanges  int64             `json:"exchanges"`              // that Redis has answered
	Exchange   float64           `json:"since_exchange_seconds"` // since the last one
	Lease      float64           `json:"since_renewal_seconds"`  // since the lease was renewed
	RTT        float64           `json:"rtt_seconds"`            // that renewal, there and back
	Outages    int64             `json:"outages"`                // of Redis
	Away       float64           `json:"away_seconds"`           // how long they took in all
	Autoscale  *Autoscale        `json:"autoscale,omitempty"`
	Jobs       Counts            `json:"jobs"`
	Classes    map[string]Counts `json:"classes"`
}

// Autoscale is how a process changes its number of workers by itself.
type Autoscale = resque.Autoscale

// Rescaled is the answer of the verb autoscale. From, To and Settings are as in "5..50", or "off".
type Rescaled struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Settings string  `json:"settings"` // with which the next run begins
	Workers  int     `json:"workers"`
	For      float64 `json:"for,omitempty"` // seconds until From holds again; 0: until the run ends
}

// Counts are the ends of jobs since the start of the program.
type Counts struct {
	Done      int64   `json:"done"`
	Failed    int64   `json:"failed"`
	Retried   int64   `json:"retried"`
	Cancelled int64   `json:"cancelled"`
	Expired   int64   `json:"expired"`
	Discarded int64   `json:"discarded"`
	Runs      int64   `json:"runs"`
	Mean      float64 `json:"mean_seconds"`
	P50       float64 `json:"p50_seconds"` // of the runs, half took this long at most
	P95       float64 `json:"p95_seconds"`
	P99       float64 `json:"p99_seconds"`
	Longest   float64 `json:"longest_seconds"`
}

// Job is a job that a process has.
type Job struct {
	Queue   string            `json:"queue"`
	Class   string            `json:"class,omitempty"`
	ID      string            `json:"id,omitempty"`
	Ticket  int64             `json:"ticket"`
	Worker  string            `json:"worker,omitempty"`
	Attempt int               `json:"attempt,omitempty"`
	Since   *time.Time        `json:"since,omitempty"`
	For     float64           `json:"for_seconds,omitempty"`
	Args    []json.RawMessage `json:"args,omitempty"`
}

// Class is a registered class.
type Class struct {
	Name    string   `json:"name"`
	Options []string `json:"options"`
}

// Setting is a setting of a process.
type Setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default bool   `json:"default"`          // the value is the constant that is the default
	Source  string `json:"source,omitempty"` // where it is from: a flag, a variable, a line of a file, program, default; "": an older release
}

// Queues is the answer of the verb queues.
type Queues struct {
	Queues  string   `json:"queues"` // as the setting has them
	Order   string   `json:"order"`
	Ready   bool     `json:"ready"`   // the process takes jobs
	Reasons []string `json:"reasons"` // why not, and what else needs attention
}

// Report is the answer of the verb report, for a bug report.
type Report struct {
	Ping
	Go        string   `json:"go"`
	System    string   `json:"system"` // operating system and architecture
	Kernel    string   `json:"kernel,omitempty"`
	CPUs      int      `json:"cpus"`
	Procs     int      `json:"procs"` // GOMAXPROCS
	Heap      int64    `json:"heap_bytes"`
	Resident  int64    `json:"rss_bytes,omitempty"` // that the system counts
	MemoryMax string   `json:"memory_max,omitempty"`
	CPUMax    string   `json:"cpu_max,omitempty"`
	Lease     float64  `json:"since_renewal_seconds"`
	RTT       float64  `json:"rtt_seconds"` // of that renewal, there and back
	Queues    string   `json:"queues"`
	Order     string   `json:"order"`
	Settings  string   `json:"concurrency,omitempty"` // as the settings say it: "25", "5..50"
	Ready     bool     `json:"ready"`
	Reasons   []string `json:"reasons"`
	Parts     []Part   `json:"parts"`
}

// Part is a part of a daemon.
type Part struct {
	Name     string  `json:"name"`
	State    string  `json:"state"`
	For      float64 `json:"for_seconds"`
	Took     float64 `json:"took_seconds"` // its start
	Restarts int     `json:"restarts,omitempty"`
	Error    string  `json:"error,omitempty"`
	Info     any     `json:"info,omitempty"`

	Requires []string `json:"requires,omitempty"` // the parts that started before it, because it needs them
}

// Stacks is the answer of the verb stacks.
type Stacks struct {
	Goroutines int     `json:"goroutines"`
	Cut        bool    `json:"cut,omitempty"` // the process has more goroutines than the answer
	Stacks     []Stack `json:"stacks"`
}

// Stack is the stack of goroutines that are at the same place.
type Stack struct {
	Count int    `json:"count"`
	State string `json:"state"`
	Stack string `json:"stack"`
}

// Level is the answer of the verb log.
type Level struct {
	Level string  `json:"level"`
	Was   string  `json:"was"`
	For   float64 `json:"for,omitempty"`
}

// Profile is the answer of the verb profile.
type Profile struct {
	Kind    string  `json:"kind"`
	For     float64 `json:"for,omitempty"` // how long it took
	Profile []byte  `json:"profile"`       // as go tool pprof reads it
}
