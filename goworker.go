package goworker

import (
	"context"
	"sync"
	"time"
)

// std is the daemon behind the package's functions. It is made at first use, so that
// importing the package does nothing.
var std = sync.OnceValue(newDefault)

// Default returns the daemon behind the package's functions. Default().Client() is its Client.
func Default() *Daemon { return std() }

// What a worker's program calls.

// Register makes a function the handler of a class; see Daemon.Register.
func Register(class string, handler any, opts ...Option) { std().Register(class, handler, opts...) }

// RegisterFunc makes a function the handler of the class of its name; see Daemon.RegisterFunc.
func RegisterFunc(fn any, opts ...Option) { std().RegisterFunc(fn, opts...) }

// Work runs the default daemon until a signal stops it; see Daemon.Work.
func Work() error { return std().Work() }

// SetSettings replaces all settings of the default daemon; see Daemon.SetSettings.
func SetSettings(settings WorkerSettings) { std().SetSettings(settings) }

// Use adds middleware around the handlers of all classes; see Daemon.Use.
func Use(middleware ...Middleware) { std().Use(middleware...) }

// AddHooks adds functions that are called around jobs; see Daemon.AddHooks.
func AddHooks(h Hooks) { std().AddHooks(h) }

// AddPart adds a part that starts and stops with the daemon; see Daemon.AddPart.
func AddPart(p Part) { std().AddPart(p) }

// AddVerb adds something that operators can ask the program to do; see Daemon.AddVerb.
func AddVerb(v Verb) { std().AddVerb(v) }

// LimitQueue holds all jobs of a queue to limits; see Daemon.LimitQueue.
func LimitQueue(queue string, limits ...Limit) { std().LimitQueue(queue, limits...) }

// SetGate has a function asked whether jobs may be taken; see Daemon.SetGate.
func SetGate(open func(ctx context.Context) error) { std().SetGate(open) }

// RegisterDialer makes URIs of a scheme known; see Daemon.RegisterDialer.
func RegisterDialer(scheme string, open Opener) { std().RegisterDialer(scheme, open) }

// Init parses the command line, unless the program has, checks the settings and
// prepares the connections; see Daemon.Init.
func Init() error { return std().Init() }

// Close closes the connections; see Daemon.Close.
func Close() { std().Close() }

// StuckJobs is Daemon.StuckJobs of the default daemon.
func StuckJobs() []StuckJob { return std().StuckJobs() }

// Recurring schedules.

// Schedule enqueues a job again and again; see Daemon.Schedule.
func Schedule(name string, r Recurring) error { return std().Schedule(name, r) }

// ScheduleWorkflow starts a workflow again and again; see Daemon.ScheduleWorkflow.
func ScheduleWorkflow(name, spec string, nodes func() *Node, opts ...WorkflowOption) error {
	return std().ScheduleWorkflow(name, spec, nodes, opts...)
}

// Unschedule ends a recurring schedule; see Daemon.Unschedule.
func Unschedule(name string) (bool, error) { return std().Unschedule(name) }

// Schedules returns the recurring schedules; see Daemon.Schedules.
func Schedules() ([]ScheduleInfo, error) { return std().Schedules() }

// PauseSchedule makes a schedule's ticks pass without a job; see Daemon.PauseSchedule.
func PauseSchedule(name string) error { return std().PauseSchedule(name) }

// ResumeSchedule ends PauseSchedule; see Daemon.ResumeSchedule.
func ResumeSchedule(name string) error { return std().ResumeSchedule(name) }

// RunScheduleNow enqueues a schedule's job once; see Daemon.RunScheduleNow.
func RunScheduleNow(name string) error { return std().RunScheduleNow(name) }

// What programs of benmanns/goworker call beside Register, Work, SetSettings, Init and Close. None
// of these is deprecated: such a program compiles without a warning.

// Enqueue pushes a job to the tail of its queue, as Resque.enqueue does. It waits as long as the
// timeouts of the settings allow. A program that has a context, such as that of a request, calls
// Client.Enqueue; Default().Client() is on the same connections.
func Enqueue(job *Job) error { return std().Enqueue(job) }

// Namespace returns the prefix of all keys, its colon included.
func Namespace() string { return std().Namespace() }

// GetConn borrows a connection; see Daemon.GetConn.
func GetConn() (*RedisConn, error) { return std().GetConn() }

// PutConn gives a connection back; see Daemon.PutConn.
func PutConn(conn *RedisConn) { std().PutConn(conn) }

// What the Client does better, with a context and a receipt for each job.

// EnqueueWith is Enqueue with options; see Daemon.EnqueueWith.
//
// Deprecated: Use Default().Client().Enqueue, which takes a context.
func EnqueueWith(job *Job, opts ...EnqueueOption) (Receipt, error) {
	return std().EnqueueWith(job, opts...)
}

// EnqueueAll pushes jobs to the tails of their queues in one step; see Daemon.EnqueueAll.
//
// Deprecated: Use Default().Client().EnqueueMany, which takes a context and options for each job.
func EnqueueAll(jobs ...*Job) error { return std().EnqueueAll(jobs...) }

// EnqueueAt enqueues a job at a time; see Daemon.EnqueueAt.
//
// Deprecated: Use Default().Client().Enqueue with ProcessAt and ResqueScheduler.
func EnqueueAt(t time.Time, job *Job) error { return std().EnqueueAt(t, job) }

// EnqueueIn enqueues a job after a duration; see Daemon.EnqueueIn.
//
// Deprecated: Use Default().Client().Enqueue with ProcessIn and ResqueScheduler.
func EnqueueIn(in time.Duration, job *Job) error { return std().EnqueueIn(in, job) }

// EnqueueAllAt delays jobs to one time in one step; see Daemon.EnqueueAllAt.
//
// Deprecated: Use Default().Client().EnqueueMany with ProcessAt and ResqueScheduler.
func EnqueueAllAt(t time.Time, jobs ...*Job) error { return std().EnqueueAllAt(t, jobs...) }

// What package inspect does better, with a context; Default().Client().Inspect() gives it.

// Dequeue removes the waiting jobs equal to this one; see Daemon.Dequeue.
//
// Deprecated: Use Default().Client().Inspect().Dequeue, which takes a context.
func Dequeue(job *Job) (removed int, err error) { return std().Dequeue(job) }

// RemoveQueue removes a queue with its jobs; see Daemon.RemoveQueue.
//
// Deprecated: Use Default().Client().Inspect().RemoveQueue, which takes a context.
func RemoveQueue(queue string) error { return std().RemoveQueue(queue) }

// Queues returns the names of all queues; see Daemon.Queues.
//
// Deprecated: Use Default().Client().Inspect().Queues, which takes a context.
func Queues() ([]string, error) { return std().Queues() }

// QueueSize returns how many jobs wait in a queue; see Daemon.QueueSize.
//
// Deprecated: Use Default().Client().Inspect().QueueSize, which takes a context.
func QueueSize(queue string) (int64, error) { return std().QueueSize(queue) }

// PauseQueue keeps the fleet from taking jobs of a queue; see Daemon.PauseQueue.
//
// Deprecated: Use Default().Client().Inspect().PauseQueue, which takes a context.
func PauseQueue(queue string) error { return std().PauseQueue(queue) }

// ResumeQueue ends PauseQueue; see Daemon.ResumeQueue.
//
// Deprecated: Use Default().Client().Inspect().ResumeQueue, which takes a context.
func ResumeQueue(queue string) error { return std().ResumeQueue(queue) }

// PausedQueues returns the names of the queues that are paused; see Daemon.PausedQueues.
//
// Deprecated: Use Default().Client().Inspect().PausedQueues, which takes a context.
func PausedQueues() ([]string, error) { return std().PausedQueues() }

// Waiting returns the lanes of a queue; see Daemon.Waiting.
//
// Deprecated: Use Default().Client().Inspect().Waiting, which takes a context.
func Waiting(queue string) ([]WaitingInfo, error) { return std().Waiting(queue) }

// Workers returns the workers of the whole fleet; see Daemon.Workers.
//
// Deprecated: Use Default().Client().Inspect().Workers, which takes a context.
func Workers() ([]WorkerInfo, error) { return std().Workers() }

// Info counts queues, jobs, workers and failures; see Daemon.Info.
//
// Deprecated: Use Default().Client().Inspect().Fleet, which takes a context.
func Info() (FleetInfo, error) { return std().Info() }

// StatsText returns the counts as resque-web's /stats.txt; see Daemon.StatsText.
//
// Deprecated: Use Default().Client().Inspect().StatsText, which takes a context.
func StatsText() (string, error) { return std().StatsText() }

// Failures returns the failures; see Daemon.Failures.
//
// Deprecated: Use Default().Client().Inspect().Failures, whose calls take a context.
func Failures() *FailureList { return std().Failures() }

// Delayed returns the delayed jobs; see Daemon.Delayed.
//
// Deprecated: Use Default().Client().Inspect().Delayed, whose calls take a context.
func Delayed() *DelayedList { return std().Delayed() }

// ScheduledAt returns when jobs equal to this one are due; see Daemon.ScheduledAt.
//
// Deprecated: Use Default().Client().Inspect().DelayedUntil, which takes a context.
func ScheduledAt(job *Job) ([]time.Time, error) { return std().ScheduledAt(job) }

// RemoveDelayed cancels the delayed jobs equal to this one; see Daemon.RemoveDelayed.
//
// Deprecated: Use Default().Client().Inspect().RemoveDelayed, which takes a context.
func RemoveDelayed(job *Job) (removed int, err error) { return std().RemoveDelayed(job) }

// RemoveDelayedFrom cancels those delayed to one time; see Daemon.RemoveDelayedFrom.
//
// Deprecated: Use Default().Client().Inspect().RemoveDelayedFrom, which takes a context.
func RemoveDelayedFrom(t time.Time, job *Job) (removed int, err error) {
	return std().RemoveDelayedFrom(t, job)
}

// EnqueueDelayed enqueues the delayed jobs equal to this one now; see Daemon.EnqueueDelayed.
//
// Deprecated: Use Default().Client().Inspect().PromoteDelayed, which takes a context.
func EnqueueDelayed(job *Job) (enqueued int, err error) { return std().EnqueueDelayed(job) }
