package goworker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
