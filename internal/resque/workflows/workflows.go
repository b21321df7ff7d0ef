// Package workflows knows the keys and the scripts of workflows: chains, groups, graphs and batches of jobs, whose
// steps' ends send what follows. scripts/parts/workflow.lua is the state machine. The verb arrive runs it in the
// commit that ends a step's job, and every other script here runs it for a client, an operator or the sweep.
package workflows

import (
	"embed"
	"strconv"
	"strings"

	"github.com/goworker/goworker/internal/resque"
)

// Field is the field of a payload that makes a job a step. Its value is the step's Place.
const Field = "wf"

// After is the field before Field, of a step that carries a trace: the traceparents of at most MostAfter of the steps that it follows, with
// commas between.
const After = "after"

// MostAfter is how many traceparents of 55 bytes a join keeps.
const MostAfter = 32

//go:embed scripts
var scriptFiles embed.FS

// load loads a script that joins the state machine.
func load(name string) *resque.Script { return resque.LoadScript(scriptFiles, name) }

// Scripts returns the scripts of this package by name, as they are sent to Redis.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

// Store is resque's Store with the words of workflows.
type Store struct{ resque.Store }

// New returns the Store of workflows in a namespace.
func New(s resque.Store) Store { return Store{s} }

// LettersKey is the string with a letter for each step, branch and handler of a workflow.
func (s Store) LettersKey(id string) resque.Key { return s.TextKey("wf-steps:" + id) }

// HashKey is the hash of a workflow: its state, joins, scopes, templates and results.
func (s Store) WorkflowKey(id string) resque.Key { return s.Store.HashKey("wf:" + id) }

// IndexKey is the sorted set of the workflows that the sweep looks at: when, in ms.
func (s Store) IndexKey() resque.Key { return s.ZSetKey("workflows") }

// HaltedKey is the sorted set of the workflows whose sent steps do not run: since when, in ms.
func (s Store) HaltedKey() resque.Key { return s.ZSetKey("halted") }

// LockKey is the string that holds the id of the workflow which is unique under a name.
func (s Store) LockKey(name string) resque.Key { return s.TextKey("wf-lock:" + name) }

// MaxID is how many bytes the id of a workflow has at most. It has no dot, quotation mark, backslash, blank or control character.
const MaxID = 128

// StepID is the id of a step's job.
func StepID(workflow string, step int) string { return workflow + "." + strconv.Itoa(step) }

// SplitID returns the workflow and the step of a job's id; ok is false for any other id.
func SplitID(id string) (workflow string, step int, ok bool) {
	at := strings.LastIndexByte(id, '.')
	if at <= 0 {
		return "", 0, false
	}
	step, err := strconv.Atoi(id[at+1:])
	return id[:at], step, err == nil && step >= 0 && id[at+1:] == strconv.Itoa(step)
}
