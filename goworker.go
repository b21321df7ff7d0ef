package goworker

import (
	"context"
	"sync"
	"time"
)

// std is the daemon behind the package's functions. It is made at first use, so that
// importing the package does nothing.
var std = sync.OnceValue(newDefault)

// Default returns the daemon behind the package's functions.
func Default() *Daemon { return std() }

// SetSettings replaces all settings of the default daemon; see Daemon.SetSettings.
func SetSettings(settings WorkerSettings) { std().SetSettings(settings) }

// Register makes a function the handler of a class; see Daemon.Register.
func Register(class string, handler any, opts ...Option) { std().Register(class, handler, opts...) }

// Use adds middleware around the handlers of all classes; see Daemon.Use.
func Use(middleware ...Middleware) { std().Use(middleware...) }

// AddHooks adds functions that are called around jobs; see Daemon.AddHooks.
func AddHooks(h Hooks) { std().AddHooks(h) }

// LimitQueue holds all jobs of a queue to limits; see Daemon.LimitQueue.
func LimitQueue(queue string, limits ...Limit) { std().LimitQueue(queue, limits...) }

// AddPart adds a part that starts and stops with the daemon; see Daemon.AddPart.
func AddPart(p Part) { std().AddPart(p) }

// SetGate has a function asked whether jobs may be taken; see Daemon.SetGate.
func SetGate(open func(ctx context.Context) error) { std().SetGate(open) }

// RegisterDialer makes URIs of a scheme known; see Daemon.RegisterDialer.
func RegisterDialer(scheme string, open Opener) { std().RegisterDialer(scheme, open) }

// Init parses the command line, unless the program has, checks the settings and
// prepares the connections; see Daemon.Init.
func Init() error { return std().Init() }

// Close closes the connections; see Daemon.Close.
func Close() { std().Close() }

// Work runs the default daemon until a signal stops it; see Daemon.Work.
func Work() error { return std().Work() }

// StuckJobs is Daemon.StuckJobs of the default daemon.
func StuckJobs() []StuckJob { return std().StuckJobs() }

// Enqueue pushes a job to the tail of its queue; see Daemon.Enqueue.
func Enqueue(job *Job) error { return std().Enqueue(job) }

// EnqueueWith is Enqueue with options; see Daemon.EnqueueWith.
func EnqueueWith(job *Job, opts ...EnqueueOption) (Receipt, error) {
	return std().EnqueueWith(job, opts...)
}

// EnqueueAll pushes jobs to the tails of their queues, all or none, in one round
// trip; see Daemon.EnqueueAll.
func EnqueueAll(jobs ...*Job) error { return std().EnqueueAll(jobs...) }

// EnqueueAt enqueues a job at a time; see Daemon.EnqueueAt.
func EnqueueAt(t time.Time, job *Job) error { return std().EnqueueAt(t, job) }

// EnqueueIn enqueues a job after a duration; see Daemon.EnqueueIn.
func EnqueueIn(in time.Duration, job *Job) error { return std().EnqueueIn(in, job) }

// EnqueueAllAt delays jobs to one time, all or none; see Daemon.EnqueueAllAt.
func EnqueueAllAt(t time.Time, jobs ...*Job) error { return std().EnqueueAllAt(t, jobs...) }

// Schedule enqueues a job again and again; see Daemon.Schedule.
func Schedule(name string, r Recurring) error { return std().Schedule(name, r) }

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

// Dequeue removes the waiting jobs equal to this one; see Daemon.Dequeue.
func Dequeue(job *Job) (removed int, err error) { return std().Dequeue(job) }

// RemoveQueue removes a queue with its jobs; see Daemon.RemoveQueue.
func RemoveQueue(queue string) error { return std().RemoveQueue(queue) }

// Queues returns the names of all queues; see Daemon.Queues.
func Queues() ([]string, error) { return std().Queues() }

// QueueSize returns how many jobs wait in a queue; see Daemon.QueueSize.
func QueueSize(queue string) (int64, error) { return std().QueueSize(queue) }

// PauseQueue keeps the fleet from taking jobs of a queue; see Daemon.PauseQueue.
func PauseQueue(queue string) error { return std().PauseQueue(queue) }

// ResumeQueue ends PauseQueue; see Daemon.ResumeQueue.
func ResumeQueue(queue string) error { return std().ResumeQueue(queue) }

// PausedQueues returns the names of the queues that are paused; see Daemon.PausedQueues.
func PausedQueues() ([]string, error) { return std().PausedQueues() }

// Waiting returns the lanes of a queue; see Daemon.Waiting.
func Waiting(queue string) ([]WaitingInfo, error) { return std().Waiting(queue) }

// Workers returns the workers of the whole fleet; see Daemon.Workers.
func Workers() ([]WorkerInfo, error) { return std().Workers() }

// Info counts queues, jobs, workers and failures; see Daemon.Info.
func Info() (FleetInfo, error) { return std().Info() }

// StatsText returns the counts as resque-web's /stats.txt; see Daemon.StatsText.
func StatsText() (string, error) { return std().StatsText() }

// Failures returns the failures; see Daemon.Failures.
func Failures() *FailureList { return std().Failures() }

// Delayed returns the delayed jobs; see Daemon.Delayed.
func Delayed() *DelayedList { return std().Delayed() }

// ScheduledAt returns when jobs equal to this one are due; see Daemon.ScheduledAt.
func ScheduledAt(job *Job) ([]time.Time, error) { return std().ScheduledAt(job) }

// RemoveDelayed cancels the delayed jobs equal to this one; see Daemon.RemoveDelayed.
func RemoveDelayed(job *Job) (removed int, err error) { return std().RemoveDelayed(job) }

// RemoveDelayedFrom cancels those delayed to one time; see Daemon.RemoveDelayedFrom.
func RemoveDelayedFrom(t time.Time, job *Job) (removed int, err error) {
	return std().RemoveDelayedFrom(t, job)
}

// EnqueueDelayed enqueues the delayed jobs equal to this one now; see
// Daemon.EnqueueDelayed.
func EnqueueDelayed(job *Job) (enqueued int, err error) { return std().EnqueueDelayed(job) }

// Namespace returns the prefix of all keys, its colon included.
func Namespace() string { return std().Namespace() }

// GetConn borrows a connection; see Daemon.GetConn.
func GetConn() (*RedisConn, error) { return std().GetConn() }

// PutConn gives a connection back; see Daemon.PutConn.
func PutConn(conn *RedisConn) { std().PutConn(conn) }
