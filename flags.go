package goworker

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/pflag"

	"github.com/goworker/goworker/internal/argv"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
	"github.com/goworker/goworker/internal/roster"
	"github.com/goworker/goworker/internal/setting"
)

// defaultCommandLine is the default daemon's. It is made at first use, so that importing
// the package does nothing.
var defaultCommandLine = sync.OnceValue(newCommandLine)

// Flags returns the flags of the default daemon, for programs that parse their
// command line with pflag or cobra:
//
//	pflag.CommandLine.AddFlagSet(goworker.Flags())
//	pflag.Parse()
//
// A program that calls Flags parses them, before Init, Work or the first Enqueue.
// goworker then does not read the command line itself. So a call of Flags also keeps
// goworker away from a command line that it shall not read.
//
// Add the program's own flags first. AddFlagSet skips names that are taken, and they stay
// the program's. Set goworker's settings of these names with SetSettings.
func Flags() *pflag.FlagSet {
	c := defaultCommandLine()
	c.HandOut()
	return c.Flags
}

// AddFlags defines the flags of the default daemon on a flag set of the
// standard library, for programs that parse it themselves:
//
//	goworker.AddFlags(flag.CommandLine)
//	flag.Parse()
//
// Names that are taken are skipped and stay the program's: define its own flags
// first. Importing the package github.com/goworker/goworker/flags does the same. The
// program parses any other set than flag.CommandLine, before Init, Work or the first
// Enqueue.
func AddFlags(set *flag.FlagSet) {
	c := defaultCommandLine()
	if set != flag.CommandLine {
		c.HandOut()
	}
	c.AddTo(set)
}

// commandLine is the command line of one daemon.
type commandLine struct {
	argv.Line
	puts []func(*WorkerSettings)
}

func newCommandLine() *commandLine {
	c := &commandLine{Line: argv.Line{Flags: pflag.NewFlagSet("goworker", pflag.ContinueOnError)}}
	for _, row := range settingRows {
		if row.Flag != "" {
			c.puts = append(c.puts, row.Define(c.Flags))
		}
	}
	return c
}

// Parse parses the command line; see argv.Line.
func (c *commandLine) Parse(args []string, lenient bool) error {
	return prefix.Of(c.Line.Parse(args, lenient))
}

// apply returns the settings with the values of the flags that were given.
func (c *commandLine) apply(s WorkerSettings) WorkerSettings {
	c.Read(func() {
		for _, put := range c.puts {
			put(&s)
		}
	})
	return s
}

// addFile adds the flag with the path of the configuration file, unless the program has one of that name.
func (c *commandLine) addFile() {
	if c != nil {
		c.Add(func(set *pflag.FlagSet) {
			set.String("config", "", "path to a configuration file in YAML [GOWORKER_CONFIG]")
		})
	}
}

// file returns the value of that flag.
func (c *commandLine) file() (path string) {
	if c != nil {
		c.Read(func() { path, _ = c.Flags.GetString("config") })
	}
	return path
}

// given reports whether the command line has a flag.
func (c *commandLine) given(flag string) (given bool) {
	if c != nil {
		c.Read(func() { given = c.Flags.Changed(flag) })
	}
	return given
}

// settingRows are all settings, with their flags, variables, defaults and checks. A test
// compares them with docs/configuration.md. Flags take effect in this order.
var settingRows = []setting.Row[WorkerSettings]{
	{Field: "QueuesString", Also: "Queues", Flag: "queues", Help: "a comma-separated list of Resque queues", Live: true, Wrong: queues.CheckList,
		Put: func(s *WorkerSettings) { s.Queues = nil }},
	{Field: "Order", Flag: "order", Derived: "by the list", Allowed: []string{OrderStrict, OrderWeighted, OrderRoundRobin},
		Help: "how queues are chosen: strict, weighted or round-robin (weighted if a queue has a weight, else strict)"},
	{Field: "ExitOnComplete", Flag: "exit-on-complete", Help: "exit when the queue is empty"},
	// -exit-on-complete=false must not undo -interval=0, so this row comes later.
	{Field: "PollInterval", Also: "IntervalFloat Interval", Flag: "interval", Default: DefaultInterval,
		Help: "sleep interval when no jobs are found", Put: putInterval, Check: checkInterval},
	{Field: "Concurrency", Upto: "ConcurrencyMax", Flag: "concurrency", Live: true, Default: DefaultConcurrency, Help: "the maximum number of concurrently executing jobs", Check: checkConcurrency},
	{Field: "ScaleAge", Flag: "scale-age", Live: true, Default: DefaultScaleAge, Help: "how long a job may wait before -concurrency=5..50 tries more workers"},
	{Field: "ScaleUp", Flag: "scale-up", Live: true, Default: ScaleCareful, Allowed: []string{ScaleCareful, ScaleFast}, Help: "how -concurrency=5..50 tries more workers: careful or fast"},
	{Field: "Connections", Flag: "connections", Default: DefaultConnections, Help: "the maximum number of connections to the Redis database"},
	// The default shown is not the environment's: that may hold a password.
	{Field: "URI", Flag: "uri", Env: []string{"REDIS_PROVIDER", "REDIS_URL"}, Environment: setting.URI, Default: DefaultURI, Redact: conn.RedactURI,
		Help: "the URI of the Redis server"},
	{Field: "URIFile", Flag: "uri-file", Path: true, Env: []string{"REDIS_URL_FILE"}, Rival: "URI", Credential: "goworker-uri",
		Help: "path to a file with that URI, whose user and password are read again at each dial"},
	{Field: "PasswordFile", Flag: "password-file", Path: true, Env: []string{"REDIS_PASSWORD_FILE"}, Credential: "goworker-password", Check: checkPassword,
		Help: "path to a file with the password of Redis, which is read again at each dial"},
	{Field: "Namespace", Flag: "namespace", Default: DefaultNamespace, Help: "the Redis namespace",
		Check: func(s *WorkerSettings) error { s.Namespace = resque.New(s.Namespace).Namespace(); return nil }},
	{Field: "UseNumber", Flag: "use-number", Live: true,
		Help: "use json.Number instead of float64 when decoding numbers in JSON. will default to true soon"},
	{Field: "FailureBackend", Flag: "failure-backend", Env: []string{"FAILURE_BACKEND"}, Default: FailureRedis,
		Allowed: []string{FailureRedis, FailureRedisMultiQueue}, Help: "where failures are filed: redis or redis_multi_queue"},
	{Field: "Hostname", Flag: "hostname", Derived: "the system's", Help: "the name of this machine in worker ids (the system's)", Wrong: setting.CheckHostname, Check: checkHostname},
	{Field: "LogLevel", Flag: "log-level", Live: true, Default: DefaultLogLevel, Allowed: []string{"debug", "info", "warn", "error"},
		Help: "the least level that is logged: debug, info, warn or error"},
	{Field: "LogFormat", Flag: "log-format", Default: DefaultLogFormat, Allowed: []string{"text", "json"}, Help: "how lines are logged: text or json"},
	{Field: "Logger"},
	{Field: "TLSCertPath", Flag: "tls-cert", Path: true, Help: "path to a custom CA cert"},
	{Field: "TLSClientCertPath", Flag: "tls-client-cert", Path: true, Help: "path to the certificate to show the Redis server", Check: checkClientCert},
	{Field: "TLSClientKeyPath", Flag: "tls-client-key", Path: true, Help: "path to the key of that certificate"},
	{Field: "SkipTLSVerify", Flag: "insecure-tls", Help: "skip TLS validation"},
	{Field: "WaitReplicas", Flag: "wait-replicas", Help: "how many replicas must have an enqueued job"},
	{Field: "EnqueueBuffer", Flag: "enqueue-buffer", Help: "how many enqueued jobs are kept in memory while Redis is away"},
	{Field: "MaxPayload", Flag: "max-payload", Default: DefaultMaxPayload, Max: payload.MaxSize, Bytes: true,
		Help: "how many bytes a job's payload may have, as in 512k or 64MiB"},
	{Field: "MaxRSS", Flag: "max-rss", Live: true, Bytes: true, Help: "how much memory the process may have before it drains and ends, as in 2GiB; 0 = any"},
	{Field: "ShutdownTimeout", Flag: "shutdown-timeout", Live: true, Default: DefaultShutdownTimeout, None: "NoTimeout",
		Help: "how long running jobs may go on after a signal to stop; 0 = no limit"},
	{Field: "ConnectTimeout", Default: DefaultConnectTimeout, None: "NoTimeout"},
	{Field: "ReadTimeout", Default: DefaultReadTimeout, None: "NoTimeout"},
	{Field: "WriteTimeout", Default: DefaultWriteTimeout, None: "NoTimeout"},
	{Field: "RecoverLimit", Flag: "recover-limit", Live: true, Default: DefaultRecoverLimit, None: "NoLimit",
		Help: "how often a job may be found running in dead processes before it is filed as failed; 0 = no limit"},
	{Field: "FailedMaxSize", Flag: "failed-max-size", Live: true, None: "NoLimit",
		Help: "how many failures a failure list may hold; the oldest of more are removed; 0 = no limit"},
	{Field: "FailedMaxAge", Flag: "failed-max-age", Live: true, None: "NoLimit",
		Help: "how long ago a job may have failed before its failure is removed, as in 30d; 0 = no limit"},
	{Field: "LeaveDelayed", Flag: "leave-delayed", Help: "leave the delayed jobs that resque-scheduler knows to it"},
	{Field: "LeaveUnknown", Flag: "leave-unknown", Help: "leave jobs of classes that have no handler here to other workers"},
	{Field: "RailsJSON", Flag: "rails-json", Help: "escape enqueued payloads as ActiveSupport does"},
	{Field: "SchedulerLockPrefix", Flag: "scheduler-lock-prefix", Env: []string{"RESQUE_SCHEDULER_MASTER_LOCK_PREFIX"},
		Help: "RESQUE_SCHEDULER_MASTER_LOCK_PREFIX of the fleet's resque-schedulers"},
	{Field: "NodeScheduler", Flag: "node-scheduler", Help: "share the lock of node-resque's scheduler, too"},
	{Field: "DynamicSchedule", Flag: "dynamic-schedule", Env: []string{"DYNAMIC_SCHEDULE"}, Environment: setting.Dynamic,
		Help: "fire the recurring schedules that are in Redis for all schedulers"},
	{Field: "Stamp", Flag: "stamp", Help: "have the payloads of enqueued jobs say when they were enqueued"},
	{Field: "NoErrorInPayload", Flag: "no-error-in-payload", Help: "have the payloads of retried jobs not say why they failed"},
	{Field: "History", Flag: "history", Default: HistoryOn, Allowed: []string{HistoryOn, HistoryOff},
		Help: "whether this process counts its jobs for the fleet's history: on or off"},
	{Field: "Control", Flag: "control", Default: ControlOn, Allowed: []string{ControlOff, ControlOn, ControlFull},
		Help: "which commands of operators this process obeys: off, on or full", Check: checkControl},
	{Field: "ControlKeyFile", Flag: "control-key-file", Path: true, Credential: "goworker-control-key", Help: "path to the key that the commands of full are signed with"},
	{Field: "ControlUnsigned", Flag: "control-unsigned", Help: "obey the commands of full without a signature"},
	{Field: "Name", Flag: "name", Derived: "the program's", Help: "what operators address this process by (the program's file name)", Check: checkName},
	{Field: "AppVersion", Flag: "app-version", Env: []string{"APP_VERSION"}, Help: "the version of the program, for operators", Check: checkAppVersion},
	{Field: "DisableSignals"},
	{Field: "DisableTracking"},
	{Field: "AllowNoHandlers"},
	{Field: "DisableLookAhead"},
}

// putInterval makes the flag -interval replace all fields of the setting. Zero makes the
// daemon exit when it finds no job.
func putInterval(s *WorkerSettings) {
	s.Interval, s.IntervalFloat = 0, 0
	s.ExitOnComplete = s.ExitOnComplete || s.PollInterval == 0
}

func checkInterval(s *WorkerSettings) error {
	switch {
	case s.PollInterval != 0:
	case s.IntervalFloat != 0:
		d, err := argv.DurationOf(s.IntervalFloat)
		if err != nil {
			return fmt.Errorf("IntervalFloat is %v: it must be a positive number of seconds, or 0 for %v", s.IntervalFloat, DefaultInterval)
		}
		s.PollInterval = d
	case s.Interval < 0:
		return fmt.Errorf("%s is %v: it must be positive, or 0 for %v", "Interval", s.Interval, DefaultInterval)
	default:
		s.PollInterval = s.Interval.Duration()
	}
	return nil
}

func checkHostname(s *WorkerSettings) (err error) {
	s.Hostname, err = setting.Hostname(s.Hostname)
	return err
}

func checkConcurrency(s *WorkerSettings) error {
	if least := cmp.Or(s.Concurrency, DefaultConcurrency); s.ConcurrencyMax != 0 && (s.ConcurrencyMax < least || s.ConcurrencyMax > roster.MostWorkers) {
		return fmt.Errorf("ConcurrencyMax is %d: it must be from Concurrency, which is %d, to %d, or 0 for none", s.ConcurrencyMax, least, roster.MostWorkers)
	}
	return nil
}

func checkControl(s *WorkerSettings) error {
	if s.Control == ControlFull && s.ControlKeyFile == "" && !s.ControlUnsigned {
		return fmt.Errorf("the setting Control is %s without ControlKeyFile: give the file with the key that commands are signed with (flag -control-key-file), or accept unsigned ones (ControlUnsigned, -control-unsigned)", s.Control)
	}
	return nil
}

func checkAppVersion(s *WorkerSettings) error {
	if !history.IsVersion(s.AppVersion) && s.AppVersion != "" {
		return fmt.Errorf("AppVersion is %.120q: it must have at most %d bytes of UTF-8, and no control characters", s.AppVersion, history.MostVersion)
	}
	return nil
}

func checkName(s *WorkerSettings) error {
	if s.Name == "" {
		s.Name = filepath.Base(os.Args[0])
	}
	return nil
}

func checkPassword(s *WorkerSettings) error {
	if _, login := conn.SplitLogin(s.URI); s.PasswordFile != "" && login != nil {
		if _, given := login.Password(); given {
			return errors.New("the URI has a password, and PasswordFile names a file with one (flag -password-file): leave one of them out")
		}
	}
	return nil
}

func checkClientCert(s *WorkerSettings) error {
	if (s.TLSClientCertPath == "") != (s.TLSClientKeyPath == "") {
		return fmt.Errorf("TLSClientCertPath is %q and TLSClientKeyPath is %q: a client certificate needs both (flags -tls-client-cert and -tls-client-key)",
			s.TLSClientCertPath, s.TLSClientKeyPath)
	}
	return nil
}
