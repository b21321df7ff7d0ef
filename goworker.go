package goworker

import "sync"

// std is the daemon behind the package's functions. It is made when first needed,
// so that importing the package does nothing.
var std = sync.OnceValue(newDefault)

// Default returns the daemon behind the package's functions.
func Default() *Daemon { return std() }

// SetSettings replaces all settings of the default daemon; see Daemon.SetSettings.
func SetSettings(settings WorkerSettings) { std().SetSettings(settings) }

// Register makes a function the handler of a class; see Daemon.Register.
func Register(class string, handler any, opts ...Option) { std().Register(class, handler, opts...) }

// Use adds middleware around the handlers of all classes; see Daemon.Use.
func Use(middleware ...Middleware) { std().Use(middleware...) }

// AddHooks adds functions to be called around jobs; see Daemon.AddHooks.
func AddHooks(h Hooks) { std().AddHooks(h) }

// LimitQueue holds all jobs of a queue to limits; see Daemon.LimitQueue.
func LimitQueue(queue string, limits ...Limit) { std().LimitQueue(queue, limits...) }

// AddPart adds a part to be started and stopped with the daemon; see Daemon.AddPart.
func AddPart(p Part) { std().AddPart(p) }

// RegisterDialer makes URIs of a scheme known; see Daemon.RegisterDialer.
func RegisterDialer(scheme string, open Opener) { std().RegisterDialer(scheme, open) }

// Init parses the command line, unless the program has, checks the settings and
// makes ready what talks to Redis; see Daemon.Init.
func Init() error { return std().Init() }

// Close closes the connections; see Daemon.Close.
func Close() { std().Close() }

// Work runs the default daemon until a signal stops it; see Daemon.Work.
func Work() error { return std().Work() }

// Stuck is Daemon.Stuck of the default daemon.
func Stuck() []StuckJob { return std().Stuck() }

// Enqueue pushes a job to the tail of its queue; see Daemon.Enqueue.
func Enqueue(job *Job) error { return std().Enqueue(job) }

// EnqueueWith is Enqueue for a job that is told more; see Daemon.EnqueueWith.
func EnqueueWith(job *Job, opts ...EnqueueOption) (Receipt, error) {
	return std().EnqueueWith(job, opts...)
}

// EnqueueAll pushes jobs to the tails of their queues, all or none, in one round
// trip; see Daemon.EnqueueAll.
func EnqueueAll(jobs ...*Job) error { return std().EnqueueAll(jobs...) }

// Namespace returns the prefix of all keys, its colon included.
func Namespace() string { return std().Namespace() }

// GetConn borrows a connection; see Daemon.GetConn.
func GetConn() (*RedisConn, error) { return std().GetConn() }

// PutConn gives a connection back; see Daemon.PutConn.
func PutConn(conn *RedisConn) { std().PutConn(conn) }
