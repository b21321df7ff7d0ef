package goworker

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/roster"
	"github.com/goworker/goworker/internal/setting"
)

var noEnvironment = setting.Sources{Getenv: func(string) string { return "" }}

// sameLogger compares loggers by identity.
var sameLogger = cmp.Comparer(func(a, b *slog.Logger) bool { return a == b })

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	c, err := WorkerSettings{Queues: []string{"high"}}.configFrom(true, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	c.queues, c.origins = queues.Spec{}, nil
	want := config{WorkerSettings: WorkerSettings{
		Queues: []string{"high"}, Order: OrderStrict, PollInterval: 5 * time.Second, Concurrency: 25, ScaleAge: 10 * time.Second, ScaleUp: ScaleCareful, Connections: 2,
		URI: "redis://localhost:6379/", Namespace: "resque:", FailureBackend: FailureRedis,
		RecoverLimit: 3, MaxPayload: 64 << 20, ShutdownTimeout: 17 * time.Second,
		ConnectTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		Hostname: host, LogLevel: "info", LogFormat: "text", History: HistoryOn, Control: ControlOn, Name: filepath.Base(os.Args[0]),
	}, style: payload.Plain, logLevel: slog.LevelInfo}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(config{}, queues.Spec{}), sameLogger); diff != "" {
		t.Error(diff)
	}
}

// An operator sees which settings differ from the defaults, also where the value looks like no value.
func TestSettingsAnOperatorSees(t *testing.T) {
	t.Parallel()
	c, err := WorkerSettings{
		QueuesString: "0,!s", URI: "redis://:secret@cache:6379/", Name: "s", SchedulerLockPrefix: "false", RecoverLimit: NoLimit, ConcurrencyMax: 50, WaitReplicas: 1,
	}.configFrom(true, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	changed := make(map[string]string)
	for _, s := range c.shown(roster.List{Spec: c.queues}) {
		if !s.Default {
			changed[s.Name] = s.Value
		}
		if strings.Contains(s.Value, "secret") {
			t.Errorf("%s shows a password: %s", s.Name, s.Value)
		}
	}
	want := map[string]string{
		"QueuesString": "0,!s", "URI": "redis://:***@cache:6379/", "Name": "s", "SchedulerLockPrefix": "false", "RecoverLimit": "0", "Concurrency": "25..50", "WaitReplicas": "1",
		"Order": c.Order, "Hostname": c.Hostname, // these have no constant as their default
	}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("settings that are not the defaults (-want +got):\n%s", diff)
	}
}

func TestConfigOfSettings(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	c, err := WorkerSettings{
		QueuesString: "low", Queues: []string{"high=2"}, PollInterval: time.Minute, IntervalFloat: 1, Interval: 2,
		Concurrency: 3, Connections: 4, URI: "unix:///s", Namespace: "app",
		ExitOnComplete: true, UseNumber: true, SkipTLSVerify: true,
		TLSCertPath: "ca", TLSClientCertPath: "cert", TLSClientKeyPath: "key",
		ShutdownTimeout: NoTimeout, RecoverLimit: NoLimit, MaxPayload: 1000, WaitReplicas: 2,
		ConnectTimeout: 1, ReadTimeout: NoTimeout, WriteTimeout: 3,
		RailsJSON: true, FailureBackend: FailureRedisMultiQueue, LeaveDelayed: true, LeaveUnknown: true, FailedMaxSize: 5, FailedMaxAge: time.Hour, Hostname: "web-0",
		LogLevel: "debug", LogFormat: "json", Logger: log,
		DisableSignals: true, DisableTracking: true, DisableLookAhead: true,
		SchedulerLockPrefix: "app", NodeScheduler: true,
	}.configFrom(true, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.queues.Label(); got != "high,low" {
		t.Errorf("queues are %s", got)
	}
	c.queues, c.origins = queues.Spec{}, nil
	want := config{WorkerSettings: WorkerSettings{
		QueuesString: "low", Queues: []string{"high=2"}, IntervalFloat: 1, Interval: 2,
		Order: OrderWeighted, PollInterval: time.Minute, Concurrency: 3, ScaleAge: DefaultScaleAge, ScaleUp: ScaleCareful, Connections: 4,
		URI: "unix:///s", Namespace: "app:", ExitOnComplete: true, UseNumber: true, RailsJSON: true, FailureBackend: FailureRedisMultiQueue,
		MaxPayload: 1000, WaitReplicas: 2, LeaveDelayed: true, LeaveUnknown: true, FailedMaxSize: 5, FailedMaxAge: time.Hour,
		ConnectTimeout: 1, WriteTimeout: 3, Hostname: "web-0",
		TLSCertPath: "ca", TLSClientCertPath: "cert", TLSClientKeyPath: "key", SkipTLSVerify: true,
		LogLevel: "debug", LogFormat: "json", Logger: log, DisableSignals: true, DisableTracking: true, DisableLookAhead: true,
		SchedulerLockPrefix: "app", NodeScheduler: true, History: HistoryOn, Control: ControlOn, Name: filepath.Base(os.Args[0]),
	}, style: payload.Rails, multiQueueFailures: true, logLevel: slog.LevelDebug}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(config{}, queues.Spec{}), sameLogger); diff != "" {
		t.Error(diff)
	}
}

func TestConfigInterval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s    WorkerSettings
		want time.Duration
	}{
		{WorkerSettings{Interval: 5.0}, 5 * time.Second},
		{WorkerSettings{Interval: 999}, 999 * time.Second},
		{WorkerSettings{Interval: intervalFlag(time.Microsecond)}, time.Microsecond},
		{WorkerSettings{Interval: intervalFlag(time.Minute)}, time.Minute},
		{WorkerSettings{Interval: 3, IntervalFloat: 0.5}, 500 * time.Millisecond},
		{WorkerSettings{IntervalFloat: 0.5, PollInterval: 7}, 7},
		{WorkerSettings{}, DefaultInterval},
	} {
		c, err := tt.s.configFrom(false, noEnvironment)
		if err != nil || c.PollInterval != tt.want {
			t.Errorf("%+v: interval %v, %v; want %v", tt.s, c.PollInterval, err, tt.want)
		}
	}
}

func TestConfigEnvironment(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		env  map[string]string
		uri  string
		want string
	}{
		{map[string]string{"REDIS_URL": "u"}, "", "u"},
		{map[string]string{"REDIS_PROVIDER": "P", "P": "p", "REDIS_URL": "u"}, "", "p"},
		{map[string]string{"REDIS_PROVIDER": "P", "REDIS_URL": "u"}, "", "u"},
		{map[string]string{"REDIS_PROVIDER": "P"}, "", DefaultURI},
		{map[string]string{"REDIS_URL": "u"}, "given", "given"},
	} {
		c, err := WorkerSettings{URI: tt.uri}.configFrom(false, setting.Sources{Getenv: func(name string) string { return tt.env[name] }})
		if err != nil || c.URI != tt.want {
			t.Errorf("%v, %q: %q, %v", tt.env, tt.uri, c.URI, err)
		}
	}
	multi := func(name string) string {
		return map[string]string{"FAILURE_BACKEND": FailureRedisMultiQueue}[name]
	}
	if c, err := (WorkerSettings{}).configFrom(false, setting.Sources{Getenv: multi}); err != nil || !c.multiQueueFailures {
		t.Errorf("FAILURE_BACKEND was not heard: %v", err)
	}
	if c, err := (WorkerSettings{FailureBackend: FailureRedis}).configFrom(false, setting.Sources{Getenv: multi}); err != nil || c.multiQueueFailures {
		t.Errorf("FAILURE_BACKEND was stronger than the setting: %v", err)
	}
}

func TestConfigOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range [][3]string{
		{"a,b", "", OrderStrict},
		{"a=2,b", "", OrderWeighted},
		{"a=2,b", OrderStrict, OrderStrict},
		{"a,b", OrderWeighted, OrderWeighted},
		{"a=2", "Round-Robin", OrderRoundRobin},
	} {
		c, err := WorkerSettings{QueuesString: tt[0], Order: tt[1]}.configFrom(true, noEnvironment)
		if err != nil || c.Order != tt[2] {
			t.Errorf("%q with order %q is %q, %v", tt[0], tt[1], c.Order, err)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]WorkerSettings{
		"Concurrency is -1":         {Concurrency: -1},
		"Connections is -2":         {Connections: -2},
		"PollInterval is -1s":       {PollInterval: -time.Second},
		"IntervalFloat is NaN":      {IntervalFloat: math.NaN()},
		"Interval is -2ns":          {Interval: -2},
		`Order is "fair"`:           {Order: "fair"},
		`FailureBackend is "kafka"`: {FailureBackend: "kafka"},
		`Hostname is "a:b"`:         {Hostname: "a:b"},
		`LogLevel is "loud"`:        {LogLevel: "loud"},
		`LogFormat is "xml"`:        {LogFormat: "xml"},
		`TLSClientKeyPath is ""`:    {TLSClientCertPath: "c"},
		"must be a numeric value":   {QueuesString: "a=b"},
		"RecoverLimit is -3: it must be positive, 0 for the default, or NoLimit": {RecoverLimit: -3},
		"FailedMaxSize is -3":  {FailedMaxSize: -3},
		"FailedMaxAge is -2ns": {FailedMaxAge: -2},
		"ShutdownTimeout is -5s: it must be positive, 0 for the default, or NoTimeout": {ShutdownTimeout: -5 * time.Second},
		"ConnectTimeout is -1s":       {ConnectTimeout: -time.Second},
		"ReadTimeout is -1s":          {ReadTimeout: -time.Second},
		"WriteTimeout is -1s":         {WriteTimeout: -time.Second},
		"specify at least one queue:": {QueuesString: "!a"},
	} {
		s.URI = "redis://:secret@host"
		_, err := s.configFrom(false, noEnvironment)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	_, err := WorkerSettings{Queues: []string{" "}}.configFrom(true, noEnvironment)
	if err == nil || !strings.Contains(err.Error(), "you must specify at least one queue") {
		t.Errorf("no queues: %v", err)
	}
	if _, err := (WorkerSettings{Queues: []string{" "}}).configFrom(false, noEnvironment); err != nil {
		t.Errorf("no queues where none are needed: %v", err)
	}
	_, err = WorkerSettings{Concurrency: -1, Order: "x"}.configFrom(true, noEnvironment)
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three mistakes: %v", err)
	}
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]slog.Level{"": slog.LevelInfo, "debug": slog.LevelDebug, "WARN": slog.LevelWarn, "error": slog.LevelError} {
		if c, err := (WorkerSettings{LogLevel: name}).configFrom(false, noEnvironment); c.logLevel != want || err != nil {
			t.Errorf("level %q is %v: %v", name, c.logLevel, err)
		}
	}
	if _, err := (WorkerSettings{LogLevel: "loud"}).configFrom(false, noEnvironment); err == nil || !strings.Contains(err.Error(), `LogLevel is "loud"`) {
		t.Errorf("an unknown level: %v", err)
	}
}

// The literals and calls that programs written for benmanns/goworker contain.
func TestSettingsCompileAsTheyAlwaysDid(t *testing.T) {
	t.Parallel()
	s := WorkerSettings{
		QueuesString:   "myqueue",
		Queues:         []string{"myqueue", "delimited", "queues"},
		IntervalFloat:  5.0,
		Interval:       5.0,
		Concurrency:    10,
		Connections:    100,
		URI:            "redis://localhost:6379/",
		Namespace:      "resque:",
		ExitOnComplete: false,
		IsStrict:       true,
		UseNumber:      true,
		SkipTLSVerify:  true,
		TLSCertPath:    "ca.pem",
	}
	if s.Interval.String() != "5s" {
		t.Errorf("Interval: 5.0 is %v", s.Interval)
	}
	if err := s.Interval.SetFloat(2.5); err != nil || s.Interval != intervalFlag(2500*time.Millisecond) {
		t.Errorf("SetFloat(2.5) gives %v, %v", s.Interval, err)
	}
	if err := s.Interval.SetFloat(-1); err == nil || s.Interval.String() != "2.5s" {
		t.Errorf("SetFloat(-1) gives %v, %v", s.Interval, err)
	}
	if err := s.Queues.Set("a=2, b"); err != nil {
		t.Error(err)
	}
	if err := s.Queues.Set(""); err == nil {
		t.Error("no queue at all was accepted")
	}
	want := queuesFlag{"myqueue", "delimited", "queues", "a=2", "b"}
	if diff := cmp.Diff(want, s.Queues); diff != "" {
		t.Error(diff)
	}
	if got := s.Queues.String(); got != "myqueue,delimited,queues,a=2,b" {
		t.Errorf("String gives %q", got)
	}
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0.25": 250 * time.Millisecond, "500ms": 500 * time.Millisecond,
		"1m30s": 90 * time.Second, "0": 0, " 2 ": 2 * time.Second, "1e-300": 1,
	} {
		var i intervalFlag
		if err := i.Set(value); err != nil || time.Duration(i) != want {
			t.Errorf("interval %q is %v, %v", value, i, err)
		}
	}
	for _, value := range []string{"", "x", "-1", "-1s", "NaN", "Inf", "1e300", "5 s", "9223372037"} {
		i := intervalFlag(7)
		if err := i.Set(value); err == nil || i != 7 {
			t.Errorf("interval %q is %v, %v", value, i, err)
		}
	}
}

// A program that has a logger of its own gets that very logger: nothing is built beside it.
func TestOwnLoggerIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	own := slog.New(slog.DiscardHandler)
	if log, _, _ := (config{WorkerSettings: WorkerSettings{Logger: own}}).log(); log != own {
		t.Error("the daemon logs by another logger than the program's")
	}
}
