// Package goworker is a background worker that speaks Resque.
//
// Ruby, PHP, Node and Go programs push jobs with the Resque client they have; a Go
// program registers functions by class name and works:
//
//	func main() {
//		goworker.Register("Hello", func(ctx context.Context, name string) error {
//			fmt.Println("hello", name)
//			return nil
//		})
//		if err := goworker.Work(); err != nil {
//			fmt.Println("Error:", err)
//		}
//	}
//
// It is a drop-in for benmanns/goworker: change the import path. Jobs are delivered
// at least once, whatever is killed; Redis going away is waited for; Ruby's own
// tools see the workers as their own.
//
// # Words
//
// A class is the wire's name for what is to be done, a handler the code that does
// it. A job lies in a queue as its payload, JSON with a class and arguments. A
// worker is one slot that runs one job at a time; a Daemon has as many as its
// Concurrency. A process is one life of a Daemon among the others on the same Redis.
//
// # The life of a job
//
//  1. A producer pushes the payload to the tail of its queue.
//  2. The daemon reserves it: in one step it leaves the queue and stands in this
//     process's in-flight record.
//  3. A worker finds the handler by class and runs it: see Register.
//  4. The outcome is committed: in one step the job leaves the record, the totals
//     move and, if it failed, its failure is filed.
//
// If the process dies between 2 and 4, another one finds out within 12 s and puts
// the job back to the head of its queue. So a job may run more than once, if its
// process died, or was cut off, while it ran: write handlers that bear it.
//
// # More than the default
//
// The functions of this package work on one default Daemon, which also reads the
// command line. New makes others, without globals; they run side by side. NewShards
// makes one worker of several, for queues that lie on several Redises.
package goworker
