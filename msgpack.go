package goworker

import "github.com/goworker/goworker/internal/queues"

// MessagePack returns the name of a queue whose jobs are kept as MessagePack: MessagePack("calc") is "msgpack:calc". The
// name says it: there is no setting, and every program that uses the name reads and writes the queue alike. Such a job is
// smaller than as JSON where it has numbers and short texts.
//
//	client.Enqueue(ctx, &goworker.Job{Queue: goworker.MessagePack("calc"), Payload: goworker.Payload{Class: "Sum", Args: []any{1, 2}}})
//
// The queue is goworker's own, since an item that is no JSON ends a Ruby worker: no pattern finds it, neither Ruby's nor
// goworker's, and it is not in the set of queues. A daemon names it in its list of queues. Everything else is as with any queue:
// delays, retries, limits, uniqueness, results, workflows, and the calls of inspect.
//
// Handlers, hooks and tools see jobs as JSON. Jobs that wait for their time or their retry, steps of workflows, those with a
// priority, and those that would not come back exactly, as with a number of more than 64 bits, are kept as JSON.
//
// While a process of a release without MessagePack queues is in the fleet, Enqueue to such a queue returns an error that names the process,
// and daemons do not work the queue.
func MessagePack(queue string) string { return queues.MessagePack + queue }
