// Package goworker is a background worker that speaks Resque, and a client that enqueues.
//
// Ruby, PHP, Node and Go programs push jobs with the Resque client they have. A Go
// program registers functions by class name and works:
//
//	func main() {
//		goworker.Register("Hello", func(ctx context.Context, name string) error {
//			fmt.Println("hello", name)
//			return nil
//		})
//		if err := goworker.Work(); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// Another Go program, such as a web server, makes one Client and enqueues with it:
//
//	func main() {
//		client, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://localhost:6379/"})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer client.Close()
//		job := goworker.NewJob("mail", "Hello", "world")
//		if _, err := client.Enqueue(context.Background(), job, goworker.ProcessIn(time.Minute)); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// # The names to know first
//
//   - [Register] makes a function the handler of a class.
//   - [Define] defines a class whose jobs the compiler checks, where they are enqueued and where they are handled.
//   - [Work] runs the handlers until a signal stops it.
//   - [WorkerSettings] say where Redis is, which queues are worked and by how many workers; see [SetSettings].
//   - [NewClient] returns a [Client], which enqueues without being a worker.
//   - [NewJob] makes a job. [Client.Enqueue] enqueues it, and [Client.EnqueueMany] many at once.
//   - [ProcessIn] makes a job run later; see [EnqueueOption] for all options of one job.
//   - [Retry] runs failed jobs of a class again; see [Option] for all options of a class.
//   - [Unique] keeps a job from being enqueued twice.
//   - [WithResult] keeps what becomes of a job, and [Await] waits for what its handler returns.
//   - [Client.Start] starts a workflow of a [Chain], a [Group] or a [Graph]; [Client.NewBatch] begins one to which jobs are added.
//   - [Client.Cancel] cancels a job by its id.
//   - [Client.Inspect] finds, retries, moves and removes what waits and what has failed.
//
// It is a drop-in for benmanns/goworker: change the import path. Jobs are delivered
// at least once, whichever process is killed. The daemon waits for a Redis that is
// away. Ruby's own tools see its workers as their own.
//
// # The life of a job
//
//  1. A producer pushes the payload to the tail of its queue.
//  2. The daemon reserves it: in one step it leaves the queue and enters this
//     process's in-flight record.
//  3. A worker finds the handler by class and runs it: see Register.
//  4. The outcome is committed: in one step the job leaves the record, the totals
//     move and, if it failed, its failure is filed.
//
// If the process dies between 2 and 4, another one puts the job back to the head of its queue:
// it runs again within 15 s. So a job may run more than once if its process died,
// or was cut off, while it ran. Write handlers that bear it.
//
// # More than the default
//
// The functions of this package work on one default Daemon, which also reads the
// command line. New makes others, without globals; they run side by side. NewShards
// makes one worker of several, for queues that lie on several Redises.
//
// # Words
//
// The parts of a job:
//
//   - class: the name of a job's kind, as its payload says it
//   - handler: the Go code that runs the jobs of a class
//   - payload: the bytes of a job in Redis, JSON with a class and arguments
//   - queue: a Redis list of payloads
//
// Processes and their parts:
//
//   - client: enqueues jobs and asks about them; see Client
//   - daemon: takes jobs from queues and runs them; see Daemon
//   - process: one life of a daemon in the fleet, from its start to its end
//   - fleet: all processes that work on the same Redis and namespace
//   - worker: one slot of a daemon, which runs one job at a time
//   - poller: the goroutine that takes jobs from Redis and commits outcomes
//   - lease: a process's sign of life, which it renews
//   - reaper: the part that finds dead processes and recovers their jobs
//   - gate: a function of the program that is asked whether the daemon may take jobs
//   - leader: the one process that does the work of the whole fleet, such as the pump's
//
// The steps of a job:
//
//   - receipt: what the call that enqueued it says of it
//   - reserve: move it from its queue into the in-flight record of a process
//   - in-flight: reserved, and not yet committed
//   - ticket: its number in that record
//   - prefetch: reserve it before a worker is free
//   - outcome: how its run ended: done, failed, retried and so on
//   - effect: a write of Redis with an outcome, such as a failure record
//   - commit: write the outcome: its effects are written and the ticket goes
//   - requeue: put it back into its queue
//   - recover: requeue it because its process died
//   - failure: the record of a failed job in Resque's list
//   - poison: it kills its process; a suspect was running in a process that died
//
// Its times and its runs:
//
//   - delayed: it waits in a schedule until it is due; the pump then moves it
//   - recurring: a schedule fires a job at each of its ticks
//   - retry: a further run after one that failed; an attempt is one of its runs
//   - snooze: its handler asks for a further run, and has not failed
//   - cancel: it is no longer wanted: it does not run, or the context of its handler ends
//   - document: what becomes of it, by its id: its state, tries and result; see WithResult
//   - progress: how far it is, as its handler says while it runs
//   - priority: it waits in front of the jobs of its queue with a lower one
//   - metadata: texts beside its arguments, such as a tenant
//   - limit: how many run at a time, or start in a time; a slot is one place
//   - lane: the jobs of a queue that have the same limits and the same key
//   - unique: it holds a lock, so that no second such job is enqueued
//   - isolated: it runs in a process of its own
//   - drain: move it from a key that only goworker reads into one that Ruby reads
//
// Its workflow:
//
//   - workflow: jobs of which some are sent when others have ended; see [Client.Start]
//   - step: one job of a workflow; a node is a step, or several nodes in an order
//   - chain: nodes one after the other; group: side by side; chord: a group and what follows it; graph: each step after those
//     that it names
//   - join: counts the members of a group that have not ended, and then what follows is sent
//   - batch: a group to which members are added while it runs; an adder adds them
//   - token: what another program ends a step by; see [External]
//   - halted: a workflow that failed, was cancelled or has expired; its steps that wait are not run
//
// docs/README.md leads to all pages, and docs/architecture.md is a map of the code.
package goworker
