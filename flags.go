package goworker

import (
	"cmp"
	"flag"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/goworker/goworker/internal/argv"
)

// defaultCommandLine is the default daemon's. It is made when first needed, so
// that importing the package does nothing.
var defaultCommandLine = sync.OnceValue(newCommandLine)

// Flags returns the flags of the default daemon, for programs that parse their
// command line with pflag or cobra:
//
//	pflag.CommandLine.AddFlagSet(goworker.Flags())
//	pflag.Parse()
//
// Whoever asks for the flags parses them, before Init, Work or the first
// Enqueue: goworker will not look at the command line itself any more. That
// makes a call of Flags also the way to keep goworker away from a command line
// that is none of its business.
//
// Add the program's own flags first: AddFlagSet skips names that are taken, so
// that they stay the program's, and set goworker's counterpart with
// SetSettings.
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
// first. The package github.com/goworker/goworker/flags does the same by being
// imported. On another set than flag.CommandLine, as after Flags, whoever has
// added the flags parses them, before Init, Work or the first Enqueue.
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
	overlays []func(*WorkerSettings)
}

// overlay remembers how a flag changes the settings if it was given.
func overlay[T any](c *commandLine, name string, value *T, put func(*WorkerSettings, T)) {
	f := c.Flags.Lookup(name)
	c.overlays = append(c.overlays, func(s *WorkerSettings) {
		if f.Changed {
			put(s, *value)
		}
	})
}

// apply returns the settings with the flags that were given in place of theirs.
func (c *commandLine) apply(s WorkerSettings) WorkerSettings {
	c.Read(func() {
		for _, put := range c.overlays {
			put(&s)
		}
	})
	return s
}

func newCommandLine() *commandLine {
	c := &commandLine{Line: argv.Line{Flags: pflag.NewFlagSet("goworker", pflag.ContinueOnError)}}
	text := func(name, byDefault, usage string, put func(*WorkerSettings, string)) {
		overlay(c, name, c.Flags.String(name, byDefault, usage), put)
	}
	truth := func(name, usage string, put func(*WorkerSettings, bool)) {
		overlay(c, name, c.Flags.Bool(name, false, usage), put)
	}
	number := func(name string, byDefault argv.Count, usage string, put func(*WorkerSettings, argv.Count)) {
		value := byDefault
		c.Flags.Var(&value, name, usage)
		overlay(c, name, &value, put)
	}
	whole := func(name string, byDefault int, usage string, put func(*WorkerSettings, int)) {
		value := argv.Amount(byDefault)
		c.Flags.Var(&value, name, usage)
		overlay(c, name, &value, func(s *WorkerSettings, v argv.Amount) { put(s, int(v)) })
	}
	span := func(name string, byDefault time.Duration, usage string, put func(*WorkerSettings, argv.Seconds)) {
		value := argv.Seconds(byDefault)
		c.Flags.Var(&value, name, usage)
		overlay(c, name, &value, put)
	}

	text("queues", "", "a comma-separated list of Resque queues", func(s *WorkerSettings, v string) {
		s.QueuesString, s.Queues = v, nil
	})
	span("interval", DefaultInterval, "sleep interval when no jobs are found", func(s *WorkerSettings, v argv.Seconds) {
		s.PollInterval = time.Duration(v)
		s.Interval, s.IntervalFloat = 0, 0
		s.ExitOnComplete = s.ExitOnComplete || v == 0
	})
	number("concurrency", DefaultConcurrency, "the maximum number of concurrently executing jobs", func(s *WorkerSettings, v argv.Count) {
		s.Concurrency = int(v)
	})
	number("connections", DefaultConnections, "the maximum number of connections to the Redis database", func(s *WorkerSettings, v argv.Count) {
		s.Connections = int(v)
	})
	// The default shown is not the environment's: that may hold a password.
	text("uri", DefaultURI, "the URI of the Redis server", func(s *WorkerSettings, v string) { s.URI = v })
	text("namespace", DefaultNamespace, "the Redis namespace", func(s *WorkerSettings, v string) { s.Namespace = v })
	text("tls-cert", "", "path to a custom CA cert", func(s *WorkerSettings, v string) { s.TLSCertPath = v })
	truth("insecure-tls", "skip TLS validation", func(s *WorkerSettings, v bool) { s.SkipTLSVerify = v })
	truth("use-number", "use json.Number instead of float64 when decoding numbers in JSON. will default to true soon", func(s *WorkerSettings, v bool) {
		s.UseNumber = v
	})

	text("order", "", "how queues are chosen: strict, weighted or round-robin (weighted if a queue has a weight, else strict)", func(s *WorkerSettings, v string) {
		s.Order = v
	})
	span("shutdown-timeout", DefaultShutdownTimeout, "how long running jobs may go on after a signal to stop; 0 = no limit", func(s *WorkerSettings, v argv.Seconds) {
		s.ShutdownTimeout = time.Duration(v)
		if v == 0 {
			s.ShutdownTimeout = NoTimeout
		}
	})
	number("max-payload", DefaultMaxPayload, "how many bytes a job's payload may have", func(s *WorkerSettings, v argv.Count) {
		s.MaxPayload = int(v)
	})
	whole("recover-limit", DefaultRecoverLimit, "how often a job may be found running in dead processes before it is filed as failed; 0 = no limit", func(s *WorkerSettings, v int) {
		s.RecoverLimit = cmp.Or(v, NoLimit)
	})
	whole("wait-replicas", 0, "how many replicas must have an enqueued job", func(s *WorkerSettings, v int) { s.WaitReplicas = v })
	text("tls-client-cert", "", "path to the certificate to show the Redis server", func(s *WorkerSettings, v string) { s.TLSClientCertPath = v })
	text("tls-client-key", "", "path to the key of that certificate", func(s *WorkerSettings, v string) { s.TLSClientKeyPath = v })
	text("failure-backend", FailureRedis, "where failures are filed: redis or redis_multi_queue", func(s *WorkerSettings, v string) { s.FailureBackend = v })
	truth("leave-delayed", "leave the delayed jobs that resque-scheduler knows to it", func(s *WorkerSettings, v bool) { s.LeaveDelayed = v })
	truth("leave-unknown", "leave jobs of classes that have no handler here to other workers", func(s *WorkerSettings, v bool) { s.LeaveUnknown = v })
	whole("failed-max-size", 0, "how many failures a failure list may hold; the oldest of more are removed; 0 = no limit", func(s *WorkerSettings, v int) {
		s.FailedMaxSize = cmp.Or(v, NoLimit)
	})
	span("failed-max-age", 0, "how long ago a job may have failed before its failure is removed; 0 = no limit", func(s *WorkerSettings, v argv.Seconds) {
		s.FailedMaxAge = cmp.Or(time.Duration(v), NoLimit)
	})
	truth("rails-json", "escape enqueued payloads as ActiveSupport does", func(s *WorkerSettings, v bool) { s.RailsJSON = v })
	text("scheduler-lock-prefix", "", "RESQUE_SCHEDULER_MASTER_LOCK_PREFIX of the fleet's resque-schedulers", func(s *WorkerSettings, v string) { s.SchedulerLockPrefix = v })
	truth("node-scheduler", "share the lock of node-resque's scheduler, too", func(s *WorkerSettings, v bool) { s.NodeScheduler = v })
	truth("dynamic-schedule", "fire the recurring schedules that are in Redis for all schedulers", func(s *WorkerSettings, v bool) { s.DynamicSchedule = v })
	text("hostname", "", "the name of this machine in worker ids (the system's)", func(s *WorkerSettings, v string) { s.Hostname = v })
	text("log-level", DefaultLogLevel, "the least level that is logged: debug, info, warn or error", func(s *WorkerSettings, v string) { s.LogLevel = v })
	text("log-format", DefaultLogFormat, "how lines are logged: text or json", func(s *WorkerSettings, v string) { s.LogFormat = v })
	// Last of those that decide when to exit, yet -exit-on-complete=false must
	// not undo -interval=0.
	overlay(c, "exit-on-complete", c.Flags.Bool("exit-on-complete", false, "exit when the queue is empty"), func(s *WorkerSettings, v bool) {
		s.ExitOnComplete = v || c.Flags.Changed("interval") && s.PollInterval == 0
	})
	return c
}
