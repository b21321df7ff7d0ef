package workflow

import (
	"iter"
	"reflect"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Kind is what a node is.
type Kind uint8

// The kinds of nodes.
const (
	OneStep Kind = iota
	Chain        // one node after the other
	Group        // side by side
	Graph        // each node after those that it names
)

// Fate is what a failure inside a node means for what waits for it.
type Fate uint8

// The fates.
const (
	Fails    Fate = iota // the workflow fails
	Collects             // what waits gets the failure in place of the result
	Ignores              // what waits gets null
)

// Node is a part of a workflow. It is compiled once.
type Node struct {
	Kind  Kind
	Step  *Step                   // of OneStep
	Nodes []*Node                 // of Chain, Group, Graph
	After [][]int                 // of Graph: for each node the indexes of those before it
	Seq   iter.Seq2[*Step, error] // of Group, in place of Nodes: members that are never in memory as a whole. Only the first stage of a workflow
	Fate  Fate

	OnError    []*Step // called by a failure inside, the innermost node's first
	OnComplete []*Step // sent when no step inside is left to end
}

// Step is one job of a workflow.
type Step struct {
	Job       any    // the encoder's
	Class     string // for errors
	Queue     string
	Name      string        // "": none; by which later steps read its result
	Immutable bool          // it takes no result
	Spread    bool          // it takes the results of a group side by side
	External  time.Duration // 0: it ends with its job; else by its token, within this time
	Inline    bool          // it gets results as values and never as a reference
	Keeps     bool          // its result is kept in the workflow

	// Params and Results are the types of its handler, where that is known here: Known.
	Known    bool
	Params   []reflect.Type
	Variadic bool
	Results  []reflect.Type
}

// Encoded is the job of a step.
type Encoded struct {
	Payload  []byte // with id as its last field, before it the fields of the features. A relative expiry is not in it
	Queue    string
	At       time.Time     // zero: when its turn has come
	Delay    time.Duration // from when its turn has come
	Expires  time.Duration // from then or, if it is delayed, from when it is due; 0: not
	Priority int
	Hashes   []resque.NewHash
}

// Encoder encodes the job of a step with its id and its place in the workflow. token is its last argument if it is External.
type Encoder func(s *Step, id string, place workflows.Place, token string) (Encoded, error)

// Options are those of a whole workflow.
type Options struct {
	ID            string
	Name          string
	RunRest       bool // after a failure steps that do not need the failed one run
	CancelRunning bool // a failure cancels the contexts of running steps, too
	Open          bool // join 0 stays open until it is closed
	Deadline      time.Duration
	Keep          time.Duration
	Lock          string
	Meta          map[string]string
	Now           time.Time
}

// Compile compiles a tree of nodes.
func Compile(n *Node, o Options, encode Encoder) (*workflows.Plan, error) {
	return compile(n, o, encode, payload.NewID)
}
