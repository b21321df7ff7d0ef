package goworker

import (
	"iter"

	"github.com/goworker/goworker/internal/workflow"
)

// Node is a part of a workflow: a step, which is one job, or several nodes in an order. Step, Chain, Group, Chord,
// GroupSeq and Graph make nodes, and Client.Start starts one with all that is inside it.
//
// The methods change the node and return it. A node has one place in one workflow: the same node twice is a mistake, which
// Start reports. A tree of nodes may be started again, as another workflow. It is for one goroutine at a time.
type Node struct {
	kind  workflow.Kind
	item  Item                   // of a step
	fn    any                    // of a step of FuncStep, whose job has no class yet; nil: the item says all
	nodes []*Node                // of a chain, a group, a graph
	names []string               // of a graph's nodes
	seq   iter.Seq2[Item, error] // of a group, in place of nodes

	fate       workflow.Fate
	onError    []*Node
	onComplete []*Node

	inner *Node // what OnSuccess has put into a chain
}

// Step makes a node of one job. Of the options of a job these hold for a step: Retry, Timeout, Priority, WithMeta,
// WithResult, CaptureLogs, ProcessAt and ProcessIn, ExpireAfter and ExpiresAt. What counts from a moment counts from when the
// step is sent: ProcessIn(time.Minute) runs it a minute after what comes before it. See StepOption for those of steps alone.
//
// The id of a step is that of its workflow with its number, so WithID is a mistake. So is Unique: a step that is refused
// would stop its workflow; see UniqueAs. A class with Unique takes no lock for its steps. ResqueScheduler is a mistake
// because its schedule has no place for what makes the job a step.
func Step(job *Job, opts ...EnqueueOption) *Node {
	return &Node{kind: workflow.OneStep, item: Item{job, opts}}
}

// Chain makes a node of nodes one after the other. A node is sent when all of the one before it has ended well. The result of
// each is added behind the arguments of the next; see Immutable.
func Chain(nodes ...*Node) *Node { return &Node{kind: workflow.Chain, nodes: nodes} }

// Group makes a node of nodes side by side. Its result is the list of their results, in their order. What waits for an empty
// group is sent at once, with an empty list.
func Group(nodes ...*Node) *Node { return &Node{kind: workflow.Group, nodes: nodes} }

// Chord makes a node of a group and what is sent, with the list of its results, when all of it has ended well. It is
// Chain(group, callback).
func Chord(group, callback *Node) *Node { return Chain(group, callback) }

// GroupSeq makes a group of any number of jobs, which are never in memory all at once: Start takes 1,000 after another and
// enqueues them. An error of the sequence ends Start with it: what was added runs, and the workflow stays open, until Start is
// repeated with its id and the same sequence. Such a group must be where the workflow begins.
func GroupSeq(jobs iter.Seq2[Item, error]) *Node { return &Node{kind: workflow.Group, seq: jobs} }

// OnSuccess sends nodes, side by side, when all of the node has ended well. They get its result behind their arguments. The
// node is then a chain: what is called on it later, such as OnError, is about these nodes too.
func (n *Node) OnSuccess(next ...*Node) *Node {
	inner := new(Node)
	*inner = *n
	then := Group(next...)
	if len(next) == 1 {
		then = next[0]
	}
	*n = Node{kind: workflow.Chain, nodes: []*Node{inner, then}, inner: inner}
	return n
}

// OnError enqueues a job when a job inside the node has failed for good, at the first such failure: the innermost node's
// first, then outwards. It gets a StepFailure behind its arguments. Nothing waits for it. After a Retry of the workflow it may
// come once more.
func (n *Node) OnError(job *Job, opts ...EnqueueOption) *Node {
	n.onError = append(n.onError, Step(job, opts...))
	return n
}

// OnComplete enqueues a job when nothing inside the node is left to end, however it ended: also when it failed, was
// cancelled or expired. It does not come for a node that never began. After a Retry of the workflow it may come once more.
func (n *Node) OnComplete(job *Job, opts ...EnqueueOption) *Node {
	n.onComplete = append(n.onComplete, Step(job, opts...))
	return n
}

// Collect lets what waits for a group go on when members have failed. In place of the list of results it gets one with
// {"result":…} or {"error":…} for each member; see Collected. Handlers inside the group are called as ever.
func (n *Node) Collect() *Node {
	n.fate = workflow.Collects
	return n
}

// Ignore lets what waits for the node go on when it, or a member of it, has failed: the result is null then.
func (n *Node) Ignore() *Node {
	n.fate = workflow.Ignores
	return n
}

// Graph is steps, each after those that it names. It is for what is no nesting of chains and groups. It is for one goroutine.
type Graph struct{ node *Node }

// NewGraph returns an empty graph.
func NewGraph() *Graph { return &Graph{&Node{kind: workflow.Graph}} }

// Step adds a step under a name, which is also that of ResultOf. With After it is sent when those steps have ended well, with
// their results behind its arguments in the order of the names. Without After it is sent at the beginning.
func (g *Graph) Step(name string, job *Job, opts ...EnqueueOption) *Graph {
	g.node.nodes, g.node.names = append(g.node.nodes, Step(job, opts...)), append(g.node.names, name)
	return g
}

// Node returns the graph as a node of a workflow. Its result is that of its last steps: those that no other step is after.
func (g *Graph) Node() *Node { return g.node }

// Collected is the end of one member of a group with Collect: its result, or how it has failed.
type Collected[T any] struct {
	Result T            `json:"result"`
	Error  *StepFailure `json:"error"`
}
