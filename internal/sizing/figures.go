package sizing

import (
	_ "embed"
	"encoding/json"
	"sync"
)

// Figures are what the benchmarks measured. bench/page makes figures.json of their results. Times are in microseconds of a
// processor.
type Figures struct {
	// Size is the length of the jobs of the benchmarks, in bytes.
	Size int `json:"size"`
	// Exchange is what a command of a process takes beside the jobs in it.
	Exchange Cost `json:"exchange"`
	// Push is what enqueueing a job by itself takes.
	Push Cost `json:"push"`
	// Kinds are what a job of a kind takes beside its exchanges.
	Kinds map[string]Cost `json:"kinds"`
	// Idle is what a process takes in a second in which nothing happens.
	Idle Cost `json:"idle"`

	Process struct {
		Bytes  float64 `json:"bytes"`  // of its memory, without workers
		Worker float64 `json:"worker"` // of its memory, for each worker
		Redis  float64 `json:"redis"`  // of Redis's memory: its connections and records
	} `json:"process"`

	// Memory is in bytes of Redis.
	Memory struct {
		Waiting float64 `json:"waiting"` // of a job in a queue, beyond its own
		Delayed float64 `json:"delayed"` // of a job that waits for its time, with its own
		Failure float64 `json:"failure"` // of a failure record, beyond the bytes of its job
		Result  float64 `json:"result"`  // of the document of a job with a short result
		History float64 `json:"history"` // of 50 classes and 50 queues
	} `json:"memory"`
}

// Cost is what something takes of Redis's time, of the process's time and of the network.
type Cost struct {
	Redis  float64 `json:"redis_us"`
	Worker float64 `json:"worker_us"`
	Bytes  float64 `json:"bytes"`
}

//go:embed figures.json
var figuresJSON []byte

// Measured returns the figures of the recorded benchmarks.
var Measured = sync.OnceValue(func() (f Figures) {
	if err := json.Unmarshal(figuresJSON, &f); err != nil {
		panic("goworker: read figures.json of the model of sizes: " + err.Error())
	}
	return f
})
