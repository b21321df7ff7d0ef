package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goworker/goworker/bench/probe"
)

// contender is one row of the tables: a program, and which of its variants.
type contender struct {
	name    string
	program string // the folder in ../contender, or the script in ../node
	variant string
	module  string // whose version the results name; for Node the package
	// depth is the key of the list in which a pushed job waits.
	depth string
	// bytes: the runner queues the jobs itself, as Resque's wire has them.
	bytes bool
	// later is the key of the sorted set of what is delayed; "" where nothing can be.
	later string
	// pushes and works say what the contender has at all.
	pushes, works bool
	node          bool
	static        bool     // it is built without cgo
	slowIdle      bool     // it sleeps for seconds between looks
	wholeSeconds  bool     // it knows no fractions of a second
	special       bool     // it runs only the works that name it
	prefix        string   // of the names of its queues
	before        []string // of its command
	bulk          int      // its own client queues the jobs in calls of so many; 0: one by one
}

const (
	chordOf     = 1000 // members of a chord of the variant "chord"
	queueName   = "bench"
	resqueDepth = "resque:queue:" + queueName
	resqueLater = "resque:delayed_queue_schedule"
)

var contenders = []contender{
	{
		name: "ours", program: "ours", bytes: true,
		depth: resqueDepth, later: "resque:go:schedule", pushes: true, works: true,
	},
	{
		name: "ours-plain", program: "ours", variant: "plain", special: true,
		depth: resqueDepth, later: resqueLater, works: true,
	},
	// All options of jobs are in use, but not for the jobs that are counted.
	{name: "ours-unused", program: "ours", variant: "unused", bytes: true, special: true, works: true},
	{name: "ours-no-history", program: "ours", variant: "no-history", bytes: true, special: true, works: true},
	// With metrics that nobody scrapes, and scraped each second.
	{name: "ours-unscraped", program: "measured", bytes: true, special: true, works: true},
	{name: "ours-scraped", program: "measured", variant: "on", bytes: true, special: true, works: true},
	// While another program listens to events.
	{name: "ours-events", program: "ours", variant: listenEnds, bytes: true, special: true, works: true},
	{name: "ours-events-all", program: "ours", variant: listenAll, bytes: true, special: true, works: true},
	// With a span for each run.
	{name: "ours-traced", program: "ours", variant: "traced", bytes: true, special: true, works: true},
	// Each with one option for its jobs.
	{name: "ours-retried", program: "ours", variant: "retried", bytes: true, special: true, works: true},
	{name: "ours-limited", program: "ours", variant: "limited", bytes: true, special: true, works: true},
	{name: "ours-keyed", program: "ours", variant: "keyed", bytes: true, special: true, works: true},
	{name: "ours-many-keys", program: "ours", variant: "many-keys", bytes: true, special: true, works: true},
	{name: "ours-rated", program: "ours", variant: "rated", bytes: true, special: true, works: true},
	{name: "ours-fair", program: "ours", variant: "fair", bytes: true, special: true, works: true},
	{name: "ours-isolated", program: "ours", variant: "isolated", bytes: true, special: true, works: true},
	{name: "ours-isolated-static", program: "ours", variant: "isolated", static: true, bytes: true, special: true, works: true},
	{name: "ours-reused", program: "ours", variant: "reused", bytes: true, special: true, works: true},
	{name: "ours-unique", program: "ours", variant: "unique", depth: resqueDepth, special: true, pushes: true, works: true},
	{name: "ours-expiring", program: "ours", variant: "expiring", depth: resqueDepth, special: true, pushes: true, works: true},
	{name: "ours-chord", program: "ours", variant: "chord", depth: resqueDepth, special: true, bulk: chordOf, pushes: true, works: true},
	{
		name: "ours-results", program: "ours", variant: "results", depth: resqueDepth, special: true, pushes: true, works: true,
	},
	{name: "ours-called", program: "ours", variant: "called", depth: resqueDepth, special: true, pushes: true, works: true},
	{name: "ours-gathering", program: "ours", variant: "gathering", depth: resqueDepth, special: true, pushes: true, works: true},
	{
		name: "ours-msgpack", program: "ours", variant: "msgpack", prefix: "msgpack:", depth: "resque:go:queue:" + queueName,
		special: true, pushes: true, works: true,
	},
	// Their jobs have ids, which those of a cursor need.
	{name: "ours-named", program: "ours", variant: "named", depth: resqueDepth, special: true, pushes: true, works: true},
	{name: "ours-set", program: "ours", variant: "set", depth: resqueDepth, special: true, pushes: true, works: true},
	{name: "ours-cursor", program: "ours", variant: "cursor", depth: resqueDepth, special: true, pushes: true, works: true},
	{name: "ours-sets", program: "ours", variant: "sets", depth: resqueDepth, special: true, pushes: true, works: true},
	{name: "ours-once", program: "ours", variant: "once", depth: resqueDepth, special: true, pushes: true, works: true},
	{name: "ours-no-look-ahead", program: "ours", variant: "no-look-ahead", bytes: true, works: true},
	{name: "limit", program: "limit", bytes: true, works: true},
	{name: "raw", program: "limit", depth: resqueDepth, pushes: true},
	{
		name: "goworker", program: "goworker", module: "github.com/benmanns/goworker",
		bytes: true, depth: resqueDepth, pushes: true, works: true, slowIdle: true,
	},
	{
		name: "asynq", program: "asynq", module: "github.com/hibiken/asynq",
		depth: "asynq:{" + queueName + "}:pending", later: "asynq:{" + queueName + "}:scheduled", wholeSeconds: true,
		pushes: true, works: true, slowIdle: true,
	},
	{
		name: "asynq-unique", program: "asynq", variant: "unique",
		depth: "asynq:{" + queueName + "}:pending", special: true, pushes: true,
	},
	{
		name: "asynq-results", program: "asynq", variant: "results",
		depth: "asynq:{" + queueName + "}:pending", special: true, pushes: true, works: true,
	},
	{
		name: "asynq-gathering", program: "asynq", variant: "gathering",
		depth: "asynq:{" + queueName + "}:pending", special: true, pushes: true, works: true,
	},
	{
		name: "gocraft", program: "gocraft", module: "github.com/gocraft/work",
		depth: "bench:jobs:" + queueName, later: "bench:scheduled", wholeSeconds: true,
		pushes: true, works: true, slowIdle: true,
	},
	{name: "gocraft-unique", program: "gocraft", variant: "unique", depth: "bench:jobs:" + queueName, special: true, pushes: true},
	{
		name: "machinery", program: "machinery", module: "github.com/RichardKnop/machinery",
		depth: queueName, later: "delayed_tasks", pushes: true, works: true,
	},
	{name: "machinery-results", program: "machinery", variant: "results", depth: queueName, pushes: true, works: true},
	{
		name: "node-resque", program: "node-resque", module: "node-resque", node: true,
		bytes: true, depth: resqueDepth, later: resqueLater, wholeSeconds: true,
		pushes: true, works: true, slowIdle: true,
	},
	{
		name: "bullmq", program: "bullmq", module: "bullmq", node: true, bulk: 1000,
		depth: "bull:" + queueName + ":wait", later: "bull:" + queueName + ":delayed", pushes: true, works: true,
	},
	{
		name: "bullmq-results", program: "bullmq", variant: "results", node: true, bulk: 1000,
		depth: "bull:" + queueName + ":wait", special: true, pushes: true, works: true,
	},
}

func contenderNamed(name string) contender {
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	return contenders[i]
}

// command is how the contender is started, once it is built.
func (c contender) command(dir string) []string {
	if c.node {
		return []string{"node", filepath.Join("node", c.program+".mjs")}
	}
	return []string{c.binary(dir)}
}

// binary is where the contender is built.
func (c contender) binary(dir string) string {
	if c.static {
		return filepath.Join(dir, c.program+"-static")
	}
	return filepath.Join(dir, c.program)
}

// build compiles before anything is measured.
func (c contender) build(ctx context.Context, dir string) error {
	if c.node {
		if _, err := os.Stat(filepath.Join("node", "node_modules", c.program)); err != nil {
			return fmt.Errorf("contender %s is not installed: run npm ci in bench/node", c.name)
		}
		return nil
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", c.binary(dir), ".")
	build.Dir = filepath.Join("contender", c.program)
	if c.static {
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build contender %s (the runner must be started in bench/): %w\n%s", c.name, err, out)
	}
	return nil
}

// version asks what was really built, so that the results name it; "" where there
// is nothing to name.
func (c contender) version() string {
	if c.module == "" {
		return ""
	}
	ask := exec.Command("go", "list", "-m", "-f", "{{.Version}}", c.module)
	ask.Dir = filepath.Join("contender", c.program)
	if c.node {
		ask = exec.Command("node", "-p", "require('./node_modules/"+c.module+"/package.json').version")
		ask.Dir = "node"
	}
	out, err := ask.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// cannot says why a contender cannot do a work, "" if it can.
func (c contender) cannot(w work) string {
	several := len(w.queues()) > 1
	if probe.Answers(w.class) {
		return c.keepsNot(w)
	}
	if probe.Gathers(w.class) && !slices.Contains(gathering, c.name) {
		return "it gathers no jobs into groups"
	}
	if w.class == probe.OneKey && c.name == "asynq-gathering" {
		return "it makes one task of each group a second, of 100 jobs"
	}
	if w.shape != "" && !slices.Contains(joining, c.name) {
		return "it has no workflows"
	}
	switch {
	case w.pushed && !c.pushes, !w.pushed && !c.works:
		return "it is there for something else"
	case w.delayed && c.later == "":
		return "it has no delayed jobs"
	case w.bulk > 0:
		switch c.program {
		case "goworker", "asynq", "gocraft", "node-resque":
			return "this version has no call that pushes many jobs"
		case "machinery":
			return "its SendGroup pushes each job by itself"
		}
	case c.program == "limit" && several:
		return "it works one queue"
	case c.program == "limit" && w.class == "Tenth":
		return "it has no failures"
	case c.program == "machinery" && several:
		return "a worker works one queue"
	case c.program == "bullmq" && several:
		return "a worker works one queue; several workers have no order among them"
	case w.order == probe.All:
		switch c.program {
		case "goworker", "asynq", "gocraft", "machinery", "bullmq", "limit":
			return "it has no pattern for queues"
		}
	case w.order == probe.Weighted:
		switch c.program {
		case "node-resque", "machinery", "bullmq", "limit":
			return "it has no weights"
		}
	case w.order == probe.Strict && c.program == "gocraft" && several:
		return "it samples queues by weight, never in strict order"
	}
	return ""
}

// keepsNot says why a contender has no row of results, "" if it has one.
func (c contender) keepsNot(w work) string {
	switch c.program {
	case "goworker", "gocraft", "node-resque":
		return "it keeps no results"
	case "asynq":
		if w.called || w.awaited {
			return "it has no call that waits for a result"
		}
	}
	return ""
}
