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

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/setting"
)

// The defaults of the settings.
const (
	DefaultConcurrency     = 25
	DefaultConnections     = 2
	DefaultInterval        = 5 * time.Second
	DefaultURI             = "redis://localhost:6379/"
	DefaultNamespace       = "resque:"
	DefaultShutdownTimeout = 17 * time.Second
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
	DefaultScaleAge  = 10 * time.Second
)

const (
	// NoTimeout waits without limit. No other duration may be negative.
	NoTimeout time.Duration = -1
	// NoLimit is a limit that is never reached: of RecoverLimit, FailedMaxSize,
	// FailedMaxAge and Retry. No other number may be negative.
	NoLimit = -1
)

// The values of WorkerSettings.Order and of the flag -order.
const (
	// OrderStrict asks the first queue first for every job, as Ruby Resque does. It
	// serves a later queue only while the earlier ones are empty.
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

// The values of WorkerSettings.History and of the flag -history.
const (
	HistoryOn  = "on"
	HistoryOff = "off"
)

// The values of WorkerSettings.Control and of the flag -control.
const (
	ControlOff  = "off"
	ControlOn   = "on"
	ControlFull = "full"
)

// The values of WorkerSettings.ScaleUp and of the flag -scale-up.
const (
	// ScaleCareful tries half as many workers more, and gives them back if they do little.
	ScaleCareful = "careful"
	// ScaleFast doubles the workers while jobs wait too long, whether or not that helps.
	ScaleFast = "fast"
)

// WorkerSettings says how a daemon works. A field that is zero has its default; only
// the queues have none.
//
// The default daemon, which Work, Enqueue and the other package functions use, takes a
// setting from the first of these that has it:
//
//  1. a flag given on the command line;
//  2. the field of the settings given to SetSettings, unless it is zero;
//  3. the environment: GOWORKER_CONCURRENCY for the flag -concurrency, and so on; also REDIS_PROVIDER, REDIS_URL and others;
//  4. the configuration file, if the program has one: see package config;
//  5. the default.
//
// A setting out of its range, and two that contradict each other, are errors of Init, Run
// and Work. They name the setting, its value and what is allowed. A flag replaces its
// setting and does not contradict it. Of a flag that is given twice the last counts.
//
// A daemon made by New has no command line and starts at the second. Init reads the
// environment, an import never does, so a program may call os.Setenv first.
//
// The names in brackets below are the field's flag and its variable in the
// environment.
type WorkerSettings struct {
	// QueuesString lists the queues to work, separated by commas and searched in this
	// order; blanks around a name are ignored. An element is a name, or one of three
	// other forms. name=weight, with a weight from 1 to 1,000,000, switches to
	// OrderWeighted. A pattern with *, ? or [abc] stands for all queues that match,
	// also those that appear later. !name or !pattern, anywhere in the list, excludes
	// queues. With a pattern or an exclusion in the list, a plain name counts only
	// while Resque knows that queue. Of a name that stands there twice the first
	// counts. No default. [-queues]
	QueuesString string
	// Queues is QueuesString as a list, []string{"high", "low"}; its elements
	// have the same grammar. If both are given, Queues come first. The flag
	// replaces both.
	Queues queuesFlag
	// IntervalFloat is Interval in seconds; it wins over Interval unless zero.
	//
	// Deprecated: Set PollInterval.
	IntervalFloat float64
	// Interval is how long the daemon sleeps when it found no job and the server does
	// not notify it. With notifications it is how often the daemon polls besides. A
	// value below one microsecond is that many seconds, because programs write
	// `Interval: 5.0` for five seconds. Zero means DefaultInterval. [-interval in
	// seconds; -interval=0 means: exit when no job is found, as INTERVAL=0 does in Resque]
	//
	// Deprecated: Set PollInterval, which means what its type says.
	Interval intervalFlag
	// Concurrency is how many jobs run at the same time: the number of workers
	// other Resque tools see. Zero means DefaultConcurrency. [-concurrency]
	Concurrency int
	// ConcurrencyMax has the daemon change that number by itself: it begins with Concurrency, and has up to
	// ConcurrencyMax workers while jobs wait and more workers do more. Zero leaves the number alone. It is at least
	// Concurrency and at most 4,096. Shards have none. See docs/autoscaling.md. [-concurrency=5..50]
	ConcurrencyMax int
	// ScaleAge is how long a job may wait before more workers are tried. The daemon looks twice in this time, and each
	// five seconds if it is longer than ten. Zero means DefaultScaleAge. [-scale-age in seconds or as in 1m]
	ScaleAge time.Duration
	// ScaleUp is ScaleCareful or ScaleFast. Empty means ScaleCareful. [-scale-up]
	ScaleUp string
	// Connections is how many connections GetConn and Enqueue share; further
	// callers wait for one. The daemon holds a few more for itself. Zero means
	// DefaultConnections. [-connections]
	Connections int
	// URI says where Redis is: redis://user:password@host:port/database, the same with
	// rediss:// for TLS, or unix:///path/to/socket. If it is empty, REDIS_PROVIDER
	// names the variable that holds the URI. If that is empty too, REDIS_URL holds it.
	// The last resort is DefaultURI. [-uri, REDIS_PROVIDER, REDIS_URL]
	URI string
	// URIFile is a file whose first line is the URI, in place of URI: a secret of Kubernetes, a credential of systemd. User and password
	// are read from it at each dial, so they may change while the program runs. The rest of the URI is read by Init. Empty means
	// goworker-uri in $CREDENTIALS_DIRECTORY, if that is there and no other setting says where Redis is. [-uri-file, REDIS_URL_FILE]
	URIFile string
	// PasswordFile is a file whose first line is the password of Redis. It is read at each dial. The URI then has no password, and
	// redis://worker@host names the user worker. Empty means goworker-password in $CREDENTIALS_DIRECTORY, if that is there.
	// [-password-file, REDIS_PASSWORD_FILE]
	PasswordFile string
	// Namespace is the prefix of every key in Redis. A missing colon at its end is
	// added. Empty means DefaultNamespace. [-namespace]
	Namespace string
	// ExitOnComplete makes Work return when the queues are empty and the jobs
	// it took are done: also those that they enqueued meanwhile. [-exit-on-complete]
	ExitOnComplete bool
	// IsStrict has no effect and is here for programs that set it. The order follows
	// from the queues; Order overrides that.
	//
	// Deprecated: Leave it out, or set Order.
	IsStrict bool
	// UseNumber gives handlers that take interface{} arguments a json.Number for each
	// number instead of a float64. A json.Number keeps all digits; a float64 keeps
	// whole numbers up to 2^53. [-use-number]
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
	// ShutdownTimeout is how long running jobs may go on after the first signal to
	// stop. Then their contexts are cancelled. A job that has not returned two seconds
	// later goes back to its queue. The whole stop may take eight seconds more than
	// ShutdownTimeout; see StopTime. Zero means DefaultShutdownTimeout: such a stop is
	// over within 25 s, and fits into the 30 seconds of Kubernetes and Heroku. NoTimeout
	// waits until the jobs end.
	// [-shutdown-timeout in seconds or as in 1m30s; -shutdown-timeout=0 is NoTimeout]
	ShutdownTimeout time.Duration
	// RecoverLimit is how many processes may die while one of their workers has a job, before
	// the job is filed as failed. docs/guarantees.md says when a job is to blame for a death.
	// Zero means DefaultRecoverLimit; NoLimit runs it again for ever. [-recover-limit;
	// -recover-limit=0 is NoLimit]
	RecoverLimit int
	// MaxPayload is how many bytes a job's payload may have. Enqueue refuses a longer one. A worker does not
	// run a longer one: it files a failure with an excerpt, and keeps the bytes in the list go:kept:<queue> of
	// the namespace. A process reserves no jobs while it holds payloads of four times as many bytes. A decoded
	// payload takes up to seventy times its size, if it has only tiny values. Zero means DefaultMaxPayload, 64
	// MiB. The most is 511 MiB, since Redis takes 512 MiB at once. [-max-payload in bytes or as in 64MiB]
	MaxPayload int
	// MaxRSS ends the process in order, as a signal does, when its resident memory is above so many bytes in three looks
	// ten seconds apart. Run and Work return nil then, so a service manager has to start it again in any case. Zero, and
	// a system that does not say how much it is, end nothing. [-max-rss in bytes or as in 2GiB]
	MaxRSS int
	// ConnectTimeout, ReadTimeout and WriteTimeout limit how long Redis may
	// take to accept a connection, to answer and to accept a command. Zero
	// means their defaults, and so does NoTimeout: a connection
	// without limits hangs for ever when its peer is gone.
	ConnectTimeout, ReadTimeout, WriteTimeout time.Duration
	// WaitReplicas makes Enqueue wait, after a push and in the same round trip, until
	// so many replicas have the job, at most ReplicaWait. If fewer confirm in time, it
	// returns ErrTooFewReplicas: the job is in Redis, but a fail-over may lose it. Zero
	// waits for none. [-wait-replicas]
	WaitReplicas int
	// EnqueueBuffer makes calls that enqueue keep at most so many jobs in memory while Redis is
	// away, in place of returning its error. They are sent in their order when Redis is back, and
	// are lost if the program ends before. Zero keeps none. See Receipt.Buffered and
	// Client.Buffered. [-enqueue-buffer]
	EnqueueBuffer int
	// RailsJSON makes Enqueue escape < > & and U+2028 and U+2029 in payloads as
	// ActiveSupport does in a Rails application. Then Resque.dequeue in that
	// application finds jobs enqueued here. Without it, payloads are as plain Ruby
	// writes them. [-rails-json]
	RailsJSON bool
	// FailureBackend is FailureRedis or FailureRedisMultiQueue. Empty means
	// FailureRedis. [-failure-backend, FAILURE_BACKEND]
	FailureBackend string
	// SchedulerLockPrefix is the RESQUE_SCHEDULER_MASTER_LOCK_PREFIX of the fleet's
	// resque-scheduler processes, so that they and the daemons share one lock. Empty
	// means that variable. [-scheduler-lock-prefix,
	// RESQUE_SCHEDULER_MASTER_LOCK_PREFIX]
	SchedulerLockPrefix string
	// NodeScheduler makes daemons share the lock of node-resque's scheduler too, which
	// is another lock than resque-scheduler's. [-node-scheduler]
	NodeScheduler bool
	// DynamicSchedule makes the daemon fire the recurring schedules that are in Redis for
	// all schedulers, Ruby's included. Every five seconds it looks whether they have
	// changed. [-dynamic-schedule, DYNAMIC_SCHEDULE]
	DynamicSchedule bool
	// History says whether the process counts its jobs for the history that all processes of
	// the fleet share, and writes into their log that it came and left: HistoryOn or
	// HistoryOff. Empty means HistoryOn. See inspect.Inspector.History. [-history]
	History string
	// Control says which commands of operators the process obeys: ControlOff, ControlOn or ControlFull. Empty means
	// ControlOn: questions, and what a program that writes to Redis could do anyway. ControlFull adds what ends a
	// process or changes what it is, and needs ControlKeyFile. See docs/remote-control.md. [-control]
	Control string
	// ControlKeyFile is a file with the key that commands of ControlFull are signed with: at least 32 bytes, readable
	// by its user only, or as Kubernetes gives it to a group. All processes of a fleet have the same. [-control-key-file]
	ControlKeyFile string
	// ControlUnsigned has ControlFull obey commands without a signature: whatever can write to Redis can end the
	// process. [-control-unsigned]
	ControlUnsigned bool
	// Name is what the process can be addressed by, beside its id and its host. Empty means the file name of the
	// program. [-name]
	Name string
	// AppVersion is the version of the program, for operators: its log of deploys, the process's record. It has at most 100 bytes, none of them
	// a control character. [-app-version, APP_VERSION]
	AppVersion string
	// Stamp has the payloads of all jobs that are enqueued here say when: see the function Stamp. [-stamp]
	Stamp bool
	// NoErrorInPayload leaves the error out of the payload of a retried job. Otherwise its field "error" says in at most
	// 200 bytes why the last run failed, for operators: see inspect.Entry. [-no-error-in-payload]
	NoErrorInPayload bool
	// LeaveDelayed leaves the delayed jobs that resque-scheduler knows to resque-scheduler,
	// also while none runs. It is for applications with hooks for resque-scheduler, or with
	// classes that have a method scheduled. Jobs in goworker's own schedule are still
	// enqueued. The daemon then never takes resque-scheduler's lock, not even to fire a
	// recurring schedule that Ruby has too. [-leave-delayed]
	LeaveDelayed bool
	// LeaveUnknown leaves jobs of classes without a handler here to other workers, and
	// does not file them as failed. Each goes to the tail of its queue. After one round
	// through a queue, the daemon skips it for a PollInterval. So the order of such a
	// queue changes, and a job behind one that is left may wait that long.
	// [-leave-unknown]
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
	// [-failed-max-age in seconds or as in 30d]
	FailedMaxAge time.Duration
	// Hostname is the name of this machine for other Resque tools; worker ids begin
	// with it and ".go". Empty means os.Hostname(). It must contain neither a colon nor
	// a blank. [-hostname]
	Hostname string
	// LogLevel is the least level that is logged: debug, info, warn or error.
	// Empty means DefaultLogLevel. [-log-level]
	LogLevel string
	// LogFormat is text or json, one line for each record. Empty means
	// DefaultLogFormat. [-log-format]
	LogFormat string
	// Logger receives the log records of the daemon; LogLevel and LogFormat are then
	// not used. Nil means lines on standard output.
	Logger *slog.Logger
	// DisableSignals leaves QUIT, TERM, INT, USR1, USR2 and CONT to the
	// program.
	DisableSignals bool
	// DisableTracking turns the server's notifications of new jobs off. The daemon then
	// polls the queues each PollInterval only.
	DisableTracking bool
	// AllowNoHandlers lets Run and Work begin while no handler is registered. Otherwise they
	// return an error, because each job that the daemon takes would be filed as failed. With
	// LeaveUnknown it would not, so none is needed there.
	AllowNoHandlers bool
	// DisableLookAhead turns prefetching off: no job is reserved before a worker is
	// idle. Otherwise the daemon prefetches at most one job for each worker, and only
	// while jobs are shorter than a round trip to Redis.
	DisableLookAhead bool
}

// queuesFlag is the type of WorkerSettings.Queues, to which any []string is assignable, and intervalFlag that of Interval.
type (
	queuesFlag   = setting.Queues
	intervalFlag = setting.Interval
)

// Format prints the settings as fmt prints any struct, without the password in URI.
// Other encodings, such as JSON, do not hide it.
func (s WorkerSettings) Format(state fmt.State, verb rune) {
	type settings WorkerSettings // without this method
	s.URI = conn.RedactURI(s.URI)
	_, _ = fmt.Fprintf(state, fmt.FormatString(state, verb), settings(s))
}

// LogValue is how slog logs the settings: printed, without the password in URI.
func (s WorkerSettings) LogValue() slog.Value {
	return slog.StringValue(fmt.Sprintf("%+v", s))
}

// config is the settings of a daemon, checked and with the environment and all defaults
// filled in. A zero is a zero: it is no limit where the settings have NoTimeout or
// NoLimit. Of the fields for the interval only PollInterval counts, and queues replaces
// QueuesString and Queues. It is printed without the password.
type config struct {
	WorkerSettings

	queues             queues.Spec
	ordered            string // Order as it was given; "": the list has its own
	logLevel           slog.Level
	style              payload.Style
	multiQueueFailures bool
	environment        string                    // RAILS_ENV
	origins            map[string]setting.Origin // of the settings, by field
	file               *setting.Content          // the configuration file; nil: there is none
}

// configFrom checks the settings, with those of the sources. Without needQueues, for a program
// that only enqueues, there may be no queues. The error joins all mistakes. Each names
// the setting, its value and what is allowed.
func (s WorkerSettings) configFrom(needQueues bool, from setting.Sources) (config, error) {
	var c config
	var errs []error
	if c.origins, errs = setting.Take(settingRows, &s, from); s.URIFile != "" {
		var err error
		s.URI, err = conn.ReadURI(s.URIFile)
		errs = append(errs, err)
	}
	lists := append(slices.Clone(s.Queues), s.QueuesString)
	if needQueues || strings.Trim(strings.Join(lists, ","), ", \t\n") != "" {
		var err error
		c.queues, err = queues.Parse(lists)
		errs = append(errs, err)
	}
	c.ordered = s.Order
	s.Order = cmp.Or(s.Order, c.queues.Order())
	for _, row := range settingRows {
		errs = append(errs, row.Fill(&s, c.origins[row.Field]))
	}
	if err := errors.Join(errs...); err != nil {
		return config{}, prefix.Of(err)
	}
	c.WorkerSettings = s
	if s.RailsJSON {
		c.style = payload.Rails
	}
	c.multiQueueFailures = s.FailureBackend == FailureRedisMultiQueue
	c.environment = from.Getenv("RAILS_ENV")
	return c, c.logLevel.UnmarshalText([]byte(s.LogLevel))
}

// warnings are settings that have no effect.
func (c config) warnings() (warnings []string) {
	if warning := c.queues.Useless(c.Order); warning != "" {
		warnings = append(warnings, warning)
	}
	if name := c.dial().UselessTLS(); name != "" {
		warnings = append(warnings, name+" has no effect, because the connection is not encrypted; begin the URI with rediss://, or leave it out")
	}
	if c.file != nil {
		warnings = append(warnings, c.file.Warnings...)
	}
	for _, path := range []string{c.URIFile, c.PasswordFile} {
		if warning := conn.OpenToOthers(path); warning != "" {
			warnings = append(warnings, warning)
		}
	}
	return warnings
}

// dial returns the settings of every connection.
func (c config) dial() conn.Config {
	return conn.Config{
		URI: c.URI, URIFile: c.URIFile, PasswordFile: c.PasswordFile, Namespace: c.Namespace, CAPath: c.TLSCertPath, CertPath: c.TLSClientCertPath, KeyPath: c.TLSClientKeyPath, SkipVerify: c.SkipTLSVerify,
		ConnectTimeout: c.ConnectTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout,
	}
}

// sameClient reports whether daemons with these settings and others can share a client.
func (c config) sameClient(other config) bool {
	return c.dial() == other.dial() && c.Connections == other.Connections && c.WaitReplicas == other.WaitReplicas && c.EnqueueBuffer == other.EnqueueBuffer &&
		c.logLevel == other.logLevel && c.LogFormat == other.LogFormat && c.Logger == other.Logger
}

// log returns the logger, its level, and a function that writes out its buffered lines. The level is nil if the program gave the
// logger.
func (c config) log() (log *slog.Logger, level *slog.LevelVar, flush func()) {
	if c.Logger != nil {
		return c.Logger, nil, func() {}
	}
	level = new(slog.LevelVar)
	level.Set(c.logLevel)
	log, flush = logging.New(level, c.LogFormat, os.Stdout)
	return log, level, flush
}

// identity distinguishes the daemons of one program, in its children too. The queues of a configuration file may change meanwhile.
func (c config) identity() string {
	label := c.queues.Label()
	if o := c.origins["QueuesString"]; o.Level == setting.FromFile {
		label = c.file.Path
	}
	return c.URI + "\x00" + c.Namespace + "\x00" + label
}
