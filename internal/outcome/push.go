package outcome

import (
	"encoding/json"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Push is a job that is about to be enqueued. The producer makes it and each feature adds to it, in the
// features' order. A feature without an option for the job adds nothing: then the job stays a plain one.
type Push struct {
	Queue   string
	Name    string // the class
	Args    []any
	List    json.RawMessage // the arguments as a list in JSON, in place of Args; its bytes are kept. nil: Args are
	Class   *Class          // nil: not registered here
	Options *Options        // of this job; they go before those of its class. nil: it has none
	ID      string          // "": the producer gave none
	Chosen  bool            // the program chose the ID, so that a job may have had it before
	At      time.Time
	In      time.Duration // from which At was made; 0: from none
	Step    bool          // it is a step of a workflow, which may wait for others
	Ruby    bool          // At is for resque-scheduler's schedule, which keeps nothing but class and arguments
	Traced  bool          // the job carries a trace, and as a step it is to hear of those that it follows

	// View is what the producer gives the program of the job.
	View any

	// Set before features are asked. At is zero for a job that is not for later.
	Payload []byte        // with class and args, in this style; valid during the call
	Style   payload.Style // how the producer encodes

	// What features add. The fields precede expires_at and id in the payload.
	Fields    []payload.Field
	ExpiresAt int64 // ms; 0: never
	Priority  int   // of the job within its queue, up to 9; 0: none

	// Lifts is the CancelledKey if the push is to lift a cancel of an earlier job with its ID; see Bulk.Lift.
	Lifts resque.Key

	// Begins are hashes that begin with the push. Those of many jobs with the same fields cost little.
	Begins []resque.NewHash

	// Guarded are effects and guards that are proven and written as one with the push. Each feature adds an
	// element of its own.
	Guarded []resque.Guarded

	spare *Options // what NewOptions returns; nil: new ones
}

// Reset makes p as good as new, and keeps its memory.
func (p *Push) Reset() {
	clear(p.Fields)
	clear(p.Begins)
	clear(p.Guarded)
	*p = Push{Fields: p.Fields[:0], Begins: p.Begins[:0], Guarded: p.Guarded[:0], spare: p.spare}
}

// Keep returns a copy, which has what features added to itself: Reset does not use its memory again.
func (p *Push) Keep() Push {
	kept := *p
	p.Fields, p.Begins, p.Guarded, p.spare = nil, nil, nil, nil
	return kept
}

// NewOptions returns options without any. They are valid until Reset.
func (p *Push) NewOptions() *Options {
	if p.spare == nil {
		p.spare = new(Options)
	}
	clear(p.spare.all)
	p.spare.all = p.spare.all[:0]
	return p.spare
}

// Option returns the option of a type that holds for a job: the job's own, or else that of its class.
func Option[T any](p *Push) (value T, ok bool) {
	if value, ok = Get[T](p.Options); ok {
		return value, true
	}
	return Get[T](p.Class)
}

// MakeID gives the job an id, unless it has one, and returns it.
func (p *Push) MakeID() string {
	if p.ID == "" {
		p.ID = payload.NewID()
	}
	return p.ID
}

// Plain reports whether the job has nothing but class and arguments.
func (p *Push) Plain() bool {
	return p.ID == "" && p.ExpiresAt == 0 && p.Priority == 0 && len(p.Fields) == 0 && len(p.Begins) == 0 && len(p.Guarded) == 0
}

// Enqueue has the features add to a job that is about to be pushed. An error of one keeps the job from
// being pushed.
func (s *Set) Enqueue(p *Push) error {
	asked := s.enqueue
	if p.Options == nil && (p.Class == nil || len(p.Class.options.all) == 0) {
		if asked = s.enqueueAll; p.ID != "" {
			asked = s.enqueueNamed
		}
	}
	for _, enqueue := range asked {
		if err := enqueue(p); err != nil {
			return err
		}
	}
	return nil
}
