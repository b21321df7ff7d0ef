package goworker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// config is what the parts of a daemon read: WorkerSettings and environment,
// validated once and with every default filled in.
type config struct {
	queues             queues.Spec
	order              string
	interval           time.Duration
	concurrency        int
	connections        int
	waitReplicas       int
	uri                string // may hold a password: never log it
	namespace          string // ends in a colon
	exitOnComplete     bool
	useNumber          bool
	style              payload.Style
	multiQueueFailures bool
	leaveDelayed       bool
	leaveUnknown       bool
	failedMaxSize      int           // 0 = no limit
	failedMaxAge       time.Duration // 0 = no limit
	recoverLimit       int           // 0 = never
	maxPayload         int           // bytes
	shutdownTimeout    time.Duration // 0 = none, as for the next three
	connectTimeout     time.Duration
	readTimeout        time.Duration
	writeTimeout       time.Duration
	hostname           string // without ".go"
	caPath             string
	certPath, keyPath  string
	skipVerify         bool
	logLevel           slog.Level
	logFormat          string
	logger             *slog.Logger // nil = make one of the two above
	signals            bool
	tracking           bool
	lookAhead          bool

	schedulerLockPrefix string
	nodeScheduler       bool
	dynamicSchedule     bool
	environment         string
}

// clientConfig is what the client of a daemon depends on. Two that are equal can
// share one.
type clientConfig struct {
	dial        conn.Config
	connections int
	replicas    int
	logLevel    slog.Level
	logFormat   string
	logger      *slog.Logger
}

func (c config) client() clientConfig {
	return clientConfig{
		dial: conn.Config{
			URI: c.uri, Namespace: c.namespace, CAPath: c.caPath, CertPath: c.certPath, KeyPath: c.keyPath, SkipVerify: c.skipVerify,
			ConnectTimeout: c.connectTimeout, ReadTimeout: c.readTimeout, WriteTimeout: c.writeTimeout,
		},
		connections: c.connections, replicas: c.waitReplicas,
		logLevel: c.logLevel, logFormat: c.logFormat, logger: c.logger,
	}
}

// config validates the settings against the environment. Without needQueues,
// for a program that only enqueues, there may be none. The error names the
// setting, its value and what is allowed.
func (s WorkerSettings) config(needQueues bool) (config, error) {
	return s.configFrom(needQueues, os.Getenv)
}

func (s WorkerSettings) configFrom(needQueues bool, getenv func(string) string) (config, error) {
	c := config{
		uri:            cmp.Or(s.URI, environmentURI(getenv), DefaultURI),
		namespace:      resque.New(s.Namespace).Namespace(),
		exitOnComplete: s.ExitOnComplete,
		useNumber:      s.UseNumber,
		caPath:         s.TLSCertPath,
		certPath:       s.TLSClientCertPath,
		keyPath:        s.TLSClientKeyPath,
		skipVerify:     s.SkipTLSVerify,
		waitReplicas:   s.WaitReplicas,
		logger:         s.Logger,
		signals:        !s.DisableSignals,
		tracking:       !s.DisableTracking,
		lookAhead:      !s.DisableLookAhead,

		schedulerLockPrefix: cmp.Or(s.SchedulerLockPrefix, getenv("RESQUE_SCHEDULER_MASTER_LOCK_PREFIX")),
		nodeScheduler:       s.NodeScheduler,
		dynamicSchedule:     s.DynamicSchedule || dynamicWords[getenv("DYNAMIC_SCHEDULE")],
		environment:         getenv("RAILS_ENV"),
	}
	c.leaveDelayed = s.LeaveDelayed
	c.leaveUnknown = s.LeaveUnknown
	if s.RailsJSON {
		c.style = payload.Rails
	}
	var backend string
	var errs [19]error
	c.queues, errs[0] = s.queues(needQueues)
	c.order, errs[1] = oneOf("Order", cmp.Or(s.Order, c.queues.Order()), OrderStrict, OrderWeighted, OrderRoundRobin)
	c.interval, errs[2] = s.interval()
	c.concurrency, errs[3] = positive("Concurrency", s.Concurrency, DefaultConcurrency)
	c.connections, errs[4] = positive("Connections", s.Connections, DefaultConnections)
	backend, errs[5] = oneOf("FailureBackend", cmp.Or(s.FailureBackend, getenv("FAILURE_BACKEND"), FailureRedis), FailureRedis, FailureRedisMultiQueue)
	c.multiQueueFailures = backend == FailureRedisMultiQueue
	c.hostname, errs[6] = hostname(s.Hostname)
	c.logLevel, errs[7] = logLevel(s.LogLevel)
	c.logFormat, errs[8] = oneOf("LogFormat", cmp.Or(s.LogFormat, DefaultLogFormat), "text", "json")
	if (s.TLSClientCertPath == "") != (s.TLSClientKeyPath == "") {
		errs[9] = fmt.Errorf("settings: TLSClientCertPath is %q and TLSClientKeyPath is %q: a client certificate needs both (flags -tls-client-cert and -tls-client-key)",
			s.TLSClientCertPath, s.TLSClientKeyPath)
	}
	if s.WaitReplicas < 0 {
		errs[10] = fmt.Errorf("settings: WaitReplicas is %d: it must be a number of replicas, or 0 to wait for none", s.WaitReplicas)
	}
	c.maxPayload, errs[11] = positive("MaxPayload", s.MaxPayload, DefaultMaxPayload)
	if c.maxPayload > payload.MaxSize {
		errs[11] = fmt.Errorf("settings: MaxPayload is %d: it must be at most %d bytes, since Redis takes 512 MiB at once", s.MaxPayload, payload.MaxSize)
	}
	c.shutdownTimeout, errs[12] = limit("ShutdownTimeout", s.ShutdownTimeout, DefaultShutdownTimeout, "NoTimeout")
	c.connectTimeout, errs[13] = limit("ConnectTimeout", s.ConnectTimeout, DefaultConnectTimeout, "NoTimeout")
	c.readTimeout, errs[14] = limit("ReadTimeout", s.ReadTimeout, DefaultReadTimeout, "NoTimeout")
	c.writeTimeout, errs[15] = limit("WriteTimeout", s.WriteTimeout, DefaultWriteTimeout, "NoTimeout")
	c.recoverLimit, errs[16] = limit("RecoverLimit", s.RecoverLimit, DefaultRecoverLimit, "NoLimit")
	c.failedMaxSize, errs[17] = limit("FailedMaxSize", s.FailedMaxSize, 0, "NoLimit")
	c.failedMaxAge, errs[18] = limit("FailedMaxAge", s.FailedMaxAge, 0, "NoLimit")
	if err := errors.Join(errs[:]...); err != nil {
		return config{}, err
	}
	return c, nil
}

// environmentURI follows REDIS_PROVIDER as Heroku's add-ons set it: it names
// the variable that holds the URI.
func environmentURI(getenv func(string) string) string {
	if name := getenv("REDIS_PROVIDER"); name != "" {
		if uri := getenv(name); uri != "" {
			return uri
		}
	}
	return getenv("REDIS_URL")
}

func (s WorkerSettings) queues(needed bool) (queues.Spec, error) {
	parts := append(append([]string(nil), s.Queues...), s.QueuesString)
	if !needed && strings.Trim(strings.Join(parts, ","), ", \t\n") == "" {
		return queues.Spec{}, nil
	}
	return queues.Parse(parts)
}

func (s WorkerSettings) interval() (time.Duration, error) {
	switch {
	case s.PollInterval < 0:
		return 0, fmt.Errorf("settings: PollInterval is %v: it must be positive, or 0 for %v", s.PollInterval, DefaultInterval)
	case s.PollInterval > 0:
		return s.PollInterval, nil
	case s.IntervalFloat != 0:
		d, err := secondsToDuration(s.IntervalFloat)
		if err != nil {
			return 0, fmt.Errorf("settings: IntervalFloat is %v: it must be a positive number of seconds, or 0 for %v", s.IntervalFloat, DefaultInterval)
		}
		return d, nil
	case s.Interval < 0:
		return 0, fmt.Errorf("settings: Interval is %v: it must be positive, or 0 for %v", s.Interval, DefaultInterval)
	}
	return cmp.Or(s.Interval.duration(), DefaultInterval), nil
}

// limit turns the settings' 0 = default and -1 = none, which is NoTimeout and NoLimit, into
// 0 = none.
func limit[T int | time.Duration](field string, v, byDefault T, none string) (T, error) {
	switch {
	case v == NoLimit:
		return 0, nil
	case v < 0:
		return 0, fmt.Errorf("settings: %s is %v: it must be positive, 0 for the default, or %s", field, v, none)
	}
	return cmp.Or(v, byDefault), nil
}

func positive(field string, n, byDefault int) (int, error) {
	if n < 0 {
		return 0, fmt.Errorf("settings: %s is %d: it must be at least 1, or 0 for %d", field, n, byDefault)
	}
	return cmp.Or(n, byDefault), nil
}

func oneOf(field, value string, allowed ...string) (string, error) {
	for _, a := range allowed {
		if strings.EqualFold(value, a) {
			return a, nil
		}
	}
	return "", fmt.Errorf("settings: %s is %q: it must be %s", field, value, strings.Join(allowed, " or "))
}

func logLevel(name string) (slog.Level, error) {
	var level slog.Level
	name, err := oneOf("LogLevel", cmp.Or(name, DefaultLogLevel), "debug", "info", "warn", "error")
	if err != nil {
		return level, err
	}
	return level, level.UnmarshalText([]byte(name))
}

// hostname refuses what would break a worker id apart: Resque splits ids at
// colons.
func hostname(name string) (string, error) {
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil || name == "" {
			return "", fmt.Errorf("settings: this machine does not tell its name (%v); set Hostname or the flag -hostname", err)
		}
	}
	if strings.ContainsAny(name, ": \t\r\n") {
		return "", fmt.Errorf("settings: Hostname is %q: worker ids begin with it, so it must contain neither a colon nor a blank; set Hostname or the flag -hostname", name)
	}
	return name, nil
}

// identity tells the daemons of one program apart, in the same way in its children.
func (c config) identity() string { return c.uri + "\x00" + c.namespace + "\x00" + c.queues.Label() }
