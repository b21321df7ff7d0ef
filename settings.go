package goworker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/argv"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
)

// The defaults of the settings.
const (
	DefaultConcurrency     = 25
	DefaultConnections     = 2
	DefaultInterval        = 5 * time.Second
	DefaultURI             = "redis://localhost:6379/"
	DefaultNamespace       = "resque:"
	DefaultShutdownTimeout = 25 * time.Second
	DefaultRecoverLimit    = 3
	DefaultMaxPayload      = 64 << 20
	DefaultConnectTimeout  = conn.DefaultConnectTimeout
	DefaultReadTimeout     = conn.DefaultReadTimeout
	DefaultWriteTimeout    = conn.DefaultWriteTimeout
	// ReplicaWait is how long Enqueue waits for WaitReplicas, or half the
	// ReadTimeout if that is less.
	ReplicaWait      = time.Second
	DefaultLogLevel  = "info"
	DefaultLogFormat = "text"
)

const (
	// NoTimeout waits without limit. No other duration may be negative.
	NoTimeout time.Duration = -1
	// NoLimit is a limit that is never reached: of RecoverLimit, FailedMaxSize,
	// FailedMaxAge and Retry. No other number may be negative.
	NoLimit = -1
)

// A stop that reaches the shutdown timeout cancels the contexts of the jobs that run. They then have
// cancelGrace to return, and the commit of what became of them has commitGrace.
const (
	cancelGrace = 2 * time.Second
	commitGrace = 3 * time.Second
)

// The values of WorkerSettings.Order and of the flag -order.
const (
	// OrderStrict looks at the first queue first for every job, as Ruby Resque
	// does: a later queue is served only while the earlier ones are empty.
	OrderStrict = queues.Strict
	// OrderWeighted draws a queue for every job, each with the probability
	// weight / sum of all weights, so that no queue starves.
	OrderWeighted = queues.Weighted
	// OrderRoundRobin takes from each queue in turn, one job at a time, and
	// continues where it stopped. Weights are ignored.
	OrderRoundRobin = queues.RoundRobin
)

// The values of WorkerSettings.FailureBackend and of the flag
// -failure-backend.
const (
	// FailureRedis files every failure in one list, "failed".
	FailureRedis = "redis"
	// FailureRedisMultiQueue files the failures of each queue in a list of its
	// own, "<queue>_failed", as Resque's RedisMultiQueue backend does.
	FailureRedisMultiQueue = "redis_multi_queue"
)

// WorkerSettings says how a daemon works. The zero value is usable: each field
// that is zero stands for its default, and only the queues have none.
//
// For the default daemon, the one behind Work, Enqueue and the other package
// functions, a setting is taken from the first of these that has it:
//
//  1. a flag given on the command line;
//  2. the field of the settings given to SetSettings, unless it is zero;
//  3. the environment (REDIS_PROVIDER, REDIS_URL, FAILURE_BACKEND);
//  4. the default.
//
// A setting out of its range, and two that contradict each other, are errors of Init, Run
// and Work, which name the setting, its value and what is allowed. A flag in place of a
// setting contradicts nothing, and of a flag that is given twice the last counts.
//
// A daemon made by New knows no command line and starts at the second. The
// environment is read when a daemon is made ready, never at import, so a
// program may call os.Setenv first.
//
// The names in brackets below are the field's flag and its variable in the
// environment.
type WorkerSettings struct {
	// QueuesString lists the queues to work, separated by commas and searched
	// in this order; blanks around a name are ignored. Besides a name there may
	// stand name=weight with a weight from 1 to 1,000,000, which switches to
	// OrderWeighted; a pattern with *, ? or [abc], which stands for all queues
	// that match, also those that appear later; and !name or !pattern, which
	// excludes queues wherever in the list it stands. With a pattern or an
	// exclusion in the list, a plain name counts only while Resque knows that
	// queue. Of a name that stands there twice the first counts. No default. [-queues]
	QueuesString string
	// Queues is QueuesString as a list, []string{"high", "low"}; its elements
	// have the same grammar. If both are given, Queues come first. The flag
	// replaces both.
	Queues queuesFlag
	// IntervalFloat is Interval in seconds; it wins over Interval unless zero.
	IntervalFloat float64
	// Interval is how long to sleep when no job was found and the server cannot
	// wake us, and how often to look once more where it can. Because
	// `Interval: 5.0` has always been written where five seconds were meant, a
	// value below one microsecond is that many seconds. Zero means
	// DefaultInterval. New code sets PollInterval. [-interval in seconds;
	// -interval=0 means: exit when no job is found, as INTERVAL=0 does in
	// Resque]
	Interval intervalFlag
	// Concurrency is how many jobs run at the same time: the number of workers
	// other Resque tools see. Zero means DefaultConcurrency. [-concurrency]
	Concurrency int
	// Connections is how many connections GetConn and Enqueue share; further
	// callers wait for one. The daemon holds a few more for itself. Zero means
	// DefaultConnections. [-connections]
	Connections int
	// URI says where Redis is: redis://user:password@host:port/database, the
	// same with rediss:// for TLS, or unix:///path/to/socket. If it is empty,
	// REDIS_PROVIDER names the variable that holds the URI; if there is none,
	// REDIS_URL holds it; else it is DefaultURI. [-uri, REDIS_PROVIDER,
	// REDIS_URL]
	URI string
	// Namespace is what every key in Redis begins with. A missing colon at its
	// end is added. Empty means DefaultNamespace. [-namespace]
	Namespace string
	// ExitOnComplete makes Work return when the queues are empty and the jobs
	// it took are done. [-exit-on-complete]
	ExitOnComplete bool
	// IsStrict has no effect and is here for programs that set it. Whether the
	// order is strict follows from the queues; Order overrides that.
	IsStrict bool
	// UseNumber gives handlers that take interface{} arguments a json.Number
	// for each number, which keeps all its digits, instead of a float64, which
	// keeps whole numbers up to 2^53. [-use-number]
	UseNumber bool
	// SkipTLSVerify accepts any certificate of the server. It protects against
	// listeners, not against impostors. [-insecure-tls]
	SkipTLSVerify bool
	// TLSCertPath is a file with the PEM certificates of the authorities that
	// may have signed the server's. Empty means those of the system.
	// [-tls-cert]
	TLSCertPath string

	// TLSClientCertPath and TLSClientKeyPath are the PEM files of the
	// certificate this client shows the server, and of its key. Both or
	// neither. [-tls-client-cert, -tls-client-key]
	TLSClientCertPath, TLSClientKeyPath string
	// PollInterval is Interval without its peculiarity; it wins over Interval
	// and IntervalFloat unless zero. [-interval]
	PollInterval time.Duration
	// Order is OrderStrict, OrderWeighted or OrderRoundRobin. Empty means
	// OrderWeighted if any queue was given a weight, else OrderStrict.
	// [-order]
	Order string
	// ShutdownTimeout is how long running jobs may go on after the first
	// signal to stop; then their contexts are cancelled and what has not
	// returned two seconds later goes back to its queue. Zero means
	// DefaultShutdownTimeout, which fits into the 30 seconds Kubernetes and
	// Heroku grant; NoTimeout waits as long as they take. [-shutdown-timeout
	// in seconds or as in 1m30s; -shutdown-timeout=0 is NoTimeout]
	ShutdownTimeout time.Duration
	// RecoverLimit is how many processes may die while a worker of theirs has a job, before
	// the job is filed as failed. When a job is to blame for a death: see docs/guarantees.md.
	// Zero means DefaultRecoverLimit; NoLimit runs it again for ever.
	// [-recover-limit; -recover-limit=0 is NoLimit]
	RecoverLimit int
	// MaxPayload is how many bytes a job's payload may have. Enqueue refuses a longer
	// one. One that is found in a queue is not run but filed as a failure with an
	// excerpt, and its bytes are kept in the list go:kept:<queue> of the namespace.
	// A process reserves nothing while it holds payloads of four times as many bytes;
	// decoded, a payload of nothing but tiny values takes up to seventy times its size. Zero means DefaultMaxPayload,
	// 64 MiB; the most is 511 MiB, since Redis takes 512 MiB at once. [-max-payload]
	MaxPayload int
	// ConnectTimeout, ReadTimeout and WriteTimeout limit how long Redis may
	// take to accept a connection, to answer and to accept a command. Zero
	// means their defaults, and so does NoTimeout: a connection
	// without limits hangs for ever when its peer is gone.
	ConnectTimeout, ReadTimeout, WriteTimeout time.Duration
	// WaitReplicas makes Enqueue wait, after a push and in the same round trip, until
	// so many replicas have the job, at most ReplicaWait. If fewer say so in time it
	// returns an error that is ErrTooFewReplicas: the job is in Redis all the same,
	// but a fail-over may lose it. Zero waits for none. [-wait-replicas]
	WaitReplicas int
	// RailsJSON makes Enqueue escape < > & and U+2028 and U+2029 in payloads
	// as ActiveSupport does in a Rails application, so that Resque.dequeue
	// called there matches jobs enqueued here. Off, payloads are what plain
	// Ruby writes. [-rails-json]
	RailsJSON bool
	// FailureBackend is FailureRedis or FailureRedisMultiQueue. Empty means
	// FailureRedis. [-failure-backend, FAILURE_BACKEND]
	FailureBackend string
	// SchedulerLockPrefix is what resque-scheduler processes of the fleet were given as
	// RESQUE_SCHEDULER_MASTER_LOCK_PREFIX, so that daemons and they share one lock.
	// Empty means that variable. [-scheduler-lock-prefix,
	// RESQUE_SCHEDULER_MASTER_LOCK_PREFIX]
	SchedulerLockPrefix string
	// NodeScheduler makes daemons keep out of the way of node-resque's scheduler, too,
	// by sharing its lock, which is not resque-scheduler's. [-node-scheduler]
	NodeScheduler bool
	// DynamicSchedule makes the daemon fire the recurring schedules that are in Redis for
	// all schedulers, Ruby's included, and look every five seconds whether they have
	// changed. [-dynamic-schedule, DYNAMIC_SCHEDULE]
	DynamicSchedule bool
	// LeaveDelayed leaves the delayed jobs that resque-scheduler knows to resque-scheduler,
	// also while none runs: for applications whose hooks it is to call, or whose classes
	// have a method scheduled. Jobs in our own schedule are enqueued all the same.
	// The daemon then never takes resque-scheduler's lock, not even to fire a recurring
	// schedule that Ruby has too.
	// [-leave-delayed]
	LeaveDelayed bool
	// LeaveUnknown leaves jobs of classes that have no handler here to other workers
	// instead of filing them as failed: each goes to the tail of its queue, and a queue
	// whose jobs were all looked at rests for a PollInterval. So the order of such a queue
	// changes, and a job behind one that is left may wait that long. [-leave-unknown]
	LeaveUnknown bool
	// FailedMaxSize is how many failures a failure list may hold. The oldest of more are
	// removed for good, within about a minute. One process of the fleet removes them, by its
	// own settings, so all processes should have the same. Zero, or NoLimit, is no limit.
	// [-failed-max-size]
	FailedMaxSize int
	// FailedMaxAge is how long ago a job may have failed before its failure is removed
	// for good, by the same process of the fleet. The removal ends at the first failure of
	// a list that is young enough. A failure without a readable time stays. Zero, or
	// NoLimit, is no limit.
	// [-failed-max-age in seconds or as in 720h]
	FailedMaxAge time.Duration
	// Hostname is the name of this machine as other Resque tools shall see it;
	// worker ids begin with it and ".go". Empty means os.Hostname(). It must
	// contain neither a colon nor a blank. [-hostname]
	Hostname string
	// LogLevel is the least level that is logged: debug, info, warn or error.
	// Empty means DefaultLogLevel. [-log-level]
	LogLevel string
	// LogFormat is text or json, either one line a record. Empty means
	// DefaultLogFormat. [-log-format]
	LogFormat string
	// Logger receives what the daemon logs, and LogLevel and LogFormat are
	// not used. Nil means lines on standard output.
	Logger *slog.Logger
	// DisableSignals leaves QUIT, TERM, INT, USR1, USR2 and CONT to the
	// program.
	DisableSignals bool
	// DisableTracking does without the server's notifications of new jobs and
	// looks at the queues each PollInterval only.
	DisableTracking bool
	// DisableLookAhead never reserves a job before a worker is idle. Look-ahead
	// of at most one job a worker is used only while jobs are shorter than a
	// round trip to Redis.
	DisableLookAhead bool
}

// queuesFlag is the type of WorkerSettings.Queues; any []string is assignable
// to it.
type queuesFlag []string

// Set appends the queues of a comma-separated list. It returns an error, and
// appends nothing, if the list names no queue or a weight is not a number.
func (q *queuesFlag) Set(value string) error {
	if _, err := queues.Parse([]string{value}); err != nil {
		return err
	}
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			*q = append(*q, part)
		}
	}
	return nil
}

// String returns the queues as Set takes them.
func (q queuesFlag) String() string { return strings.Join(q, ",") }

// intervalFlag is the type of WorkerSettings.Interval: a time.Duration that
// untyped constants such as 5.0 are assignable to.
type intervalFlag time.Duration

// Set takes seconds ("2.5") or a duration ("2500ms"), not negative.
func (i *intervalFlag) Set(value string) error {
	d, err := argv.ParseSeconds(value)
	if err != nil {
		return err
	}
	*i = intervalFlag(d)
	return nil
}

// SetFloat takes seconds, not negative.
func (i *intervalFlag) SetFloat(value float64) error {
	d, err := argv.DurationOf(value)
	if err != nil {
		return err
	}
	*i = intervalFlag(d)
	return nil
}

// String returns the interval as in "2.5s".
func (i intervalFlag) String() string { return i.duration().String() }

// duration undoes the mistake the type invites: as a duration 5.0 is five
// nanoseconds, and no program means less than a microsecond.
func (i intervalFlag) duration() time.Duration {
	if i > 0 && time.Duration(i) < time.Microsecond {
		return time.Duration(i) * time.Second
	}
	return time.Duration(i)
}

// Format prints the settings as fmt prints any struct, but for the password in
// URI. Encoding them otherwise, as JSON for instance, does not hide it.
func (s WorkerSettings) Format(state fmt.State, verb rune) {
	type settings WorkerSettings // without this method
	s.URI = conn.RedactURI(s.URI)
	_, _ = fmt.Fprintf(state, fmt.FormatString(state, verb), settings(s))
}

// LogValue is how slog logs the settings: printed, without the password in URI.
func (s WorkerSettings) LogValue() slog.Value {
	return slog.StringValue(fmt.Sprintf("%+v", s))
}

// config is the settings of a daemon, checked: the environment and all defaults are filled
// in. A zero means what it says, so no limit where NoTimeout or NoLimit may stand in the
// settings. Of the fields for the interval only PollInterval counts, and instead of
// QueuesString and Queues what was read from them. It is printed without the password.
type config struct {
	WorkerSettings

	queues             queues.Spec
	logLevel           slog.Level
	style              payload.Style
	multiQueueFailures bool
	environment        string // RAILS_ENV
}

// config checks the settings, against the environment too. Without needQueues,
// for a program that only enqueues, there may be none. The error joins all mistakes. Each
// names the setting, its value and what is allowed.
func (s WorkerSettings) config(needQueues bool) (config, error) {
	return s.configFrom(needQueues, os.Getenv)
}

func (s WorkerSettings) configFrom(needQueues bool, getenv func(string) string) (config, error) {
	var c config
	var errs []error
	lists := append(slices.Clone(s.Queues), s.QueuesString)
	if needQueues || strings.Trim(strings.Join(lists, ","), ", \t\n") != "" {
		var err error
		c.queues, err = queues.Parse(lists)
		errs = append(errs, err)
	}
	s.Order = cmp.Or(s.Order, c.queues.Order())
	for _, row := range settingRows {
		errs = append(errs, row.Fill(&s, getenv))
	}
	if err := errors.Join(errs...); err != nil {
		return config{}, err
	}
	c.WorkerSettings = s
	if s.RailsJSON {
		c.style = payload.Rails
	}
	c.multiQueueFailures = s.FailureBackend == FailureRedisMultiQueue
	c.environment = getenv("RAILS_ENV")
	return c, c.logLevel.UnmarshalText([]byte(s.LogLevel))
}

// dial returns what the settings say about every connection.
func (c config) dial() conn.Config {
	return conn.Config{
		URI: c.URI, Namespace: c.Namespace, CAPath: c.TLSCertPath, CertPath: c.TLSClientCertPath, KeyPath: c.TLSClientKeyPath, SkipVerify: c.SkipTLSVerify,
		ConnectTimeout: c.ConnectTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout,
	}
}

// sameClient reports whether daemons with these settings and others can share a client.
func (c config) sameClient(other config) bool {
	return c.dial() == other.dial() && c.Connections == other.Connections && c.WaitReplicas == other.WaitReplicas &&
		c.logLevel == other.logLevel && c.LogFormat == other.LogFormat && c.Logger == other.Logger
}

// log returns the logger, and what writes out the lines it holds back.
func (c config) log() (log *slog.Logger, flush func()) {
	if c.Logger != nil {
		return c.Logger, func() {}
	}
	return logging.New(c.logLevel, c.LogFormat, os.Stdout)
}

// identity tells the daemons of one program apart, in the same way in its children.
func (c config) identity() string { return c.URI + "\x00" + c.Namespace + "\x00" + c.queues.Label() }
