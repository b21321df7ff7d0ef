package goworker

import (
	"fmt"
	"maps"

	"github.com/goworker/goworker/internal/feature/meta"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/setting"
)

// WithID gives the job an id of the program's own, which its handler finds in
// Delivery.ID. Nothing keeps two jobs from having the same. It must not be empty.
//
// Given to Start or NewBatch it is the id of the workflow: at most 128 bytes, without dots, quotation marks, backslashes,
// blanks and control characters. A workflow with an id that exists is not started again.
func WithID(id string) IDOption { return ownID(id) }

// IDOption is an option of a job and of a workflow:
//
//   - WithID: an id of the program's own
//   - WithMeta: texts beside the arguments
type IDOption interface {
	EnqueueOption
	WorkflowOption
}

type ownID string

func (id ownID) enqueue(to *enqueueOptions) {
	to.named, to.id = true, string(id)
	id.check(&to.Mistakes, "the job's id", to.option)
}

func (id ownID) workflow(to *workflowOptions) {
	id.check(&to.Mistakes, "the workflow's id", id)
	to.ID = string(id)
}

func (id ownID) String() string { return fmt.Sprintf("WithID(%q)", string(id)) }

func (id ownID) check(m *setting.Mistakes, what string, option any) {
	m.Once(what, option)
	if id == "" {
		m.Wrong(`WithID(""): the id is empty; give one, or leave it out to have one made up`)
	}
}

// Limits of the metadata of one job; see WithMeta.
const (
	MaxMetaKeys  = meta.MaxKeys
	MaxMetaBytes = meta.MaxBytes // as JSON
)

// WithMeta gives a job metadata: texts beside its arguments, such as a tenant or a traceparent,
// which its handler and middleware find in Delivery.Meta. They stay with the job over delays,
// retries and the death of its process. Ruby's workers ignore them, and Ruby's retry button drops
// them. A job has at most MaxMetaKeys keys and MaxMetaBytes.
//
// It adds up: of one key the value that was given last counts, and those of the job go before
// those of its class. Without a key it does nothing. EnqueueMiddleware adds metadata to all jobs.
//
// Given to Start or NewBatch it is that of the workflow, and of all its steps; theirs goes before it.
func WithMeta(values map[string]string) MetaOption { return metadata(maps.Clone(values)) }

// MetaOption is an option of a class, of a job and of a workflow:
//
//   - WithMeta: texts beside the arguments
type MetaOption interface {
	JobOption
	WorkflowOption
}

type metadata map[string]string

func (m metadata) register(to *options) {
	if len(m) > 0 {
		to.onEnqueue(m)
	}
}

func (m metadata) enqueue(to *enqueueOptions) {
	if len(m) == 0 {
		return
	}
	to.named = true
	to.Note("the job's metadata", "WithMeta")
	before, _ := outcome.Get[meta.Values](to.to)
	all := before.With(m)
	to.Add(all.Check())
	outcome.Put(to.to, all)
}

// WithTrace gives a job the texts of a trace, such as a traceparent, as WithMeta does. They give way: what WithMeta says of the same
// keys goes before them, and a job whose metadata has no room for them, or that waits in resque-scheduler's schedule, goes without. The package
// tracing makes the texts.
func WithTrace(values map[string]string) EnqueueOption { return traceTexts(maps.Clone(values)) }

type traceTexts map[string]string

func (t traceTexts) enqueue(to *enqueueOptions) {
	if to.traced = len(t) > 0; to.traced {
		outcome.Put(to.to, meta.Trace(t))
	}
}
