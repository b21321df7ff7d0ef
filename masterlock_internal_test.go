package goworker

import (
	"testing"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMasterLockIsSharedByParts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Dial(t)
	config, err := WorkerSettings{Hostname: "localhost"}.configFrom(false, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	m := newMasterLock(config, resque.New(""), func() string { return "localhost:1:a" }, func(string) { taken++ })
	other := newMasterLock(config, resque.New(""), func() string { return "localhost:1:b" }, func(string) {})
	const key = "resque:resque:resque_scheduler_master_lock"
	hold := func(m *masterLock, user string, want bool) {
		t.Helper()
		if held, _, err := m.hold(c, user); held != want || m.held() != want || err != nil {
			t.Errorf("%s: held %v, %v; want %v; %v", user, held, m.held(), want, err)
		}
	}
	release := func(user string, still bool) {
		t.Helper()
		if err := m.release(c, user); err != nil {
			t.Error(err)
		}
		if m.held() != still || (s.Int(t, "EXISTS", key) == 1) != still {
			t.Errorf("after %s released it: held %v, want %v", user, m.held(), still)
		}
	}
	hold(m, "pump", true)
	hold(m, "cron", true)
	hold(other, "pump", false)
	release("pump", true)
	release("pump", true)
	hold(m, "cron", true)
	release("cron", false)
	if taken != 1 {
		t.Errorf("told of it %d times, want once", taken)
	}
	hold(m, "pump", true)
	if err := other.inherit(c, "localhost:1:a"); err != nil {
		t.Error(err)
	}
	hold(other, "pump", true) // the other found this one dead
	if err := other.release(c, "pump"); err != nil {
		t.Error(err)
	}
	hold(m, "pump", true)
	s.Do(t, "SET", key, "ruby:1") // it ran out while we stood still
	hold(m, "pump", false)
	if err := m.release(c, "pump"); err != nil || s.Text(t, "GET", key) != "ruby:1" {
		t.Errorf("Ruby's lock was touched: %v", err)
	}
}

// A release that Redis was not heard of is made up for.
func TestMasterLockIsReleasedAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, broken := s.Dial(t), s.Dial(t)
	config, err := WorkerSettings{Hostname: "localhost"}.configFrom(false, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	m := newMasterLock(config, resque.New(""), func() string { return "localhost:1:a" }, func(string) {})
	if held, _, err := m.hold(c, "pump"); !held || err != nil {
		t.Fatal(held, err)
	}
	broken.Close()
	if err := m.release(broken, "pump"); err == nil {
		t.Error("it was released over a connection that is closed")
	}
	if err := m.release(c, "pump"); err != nil || m.held() || s.Int(t, "EXISTS", "resque:resque:resque_scheduler_master_lock") != 0 {
		t.Errorf("it is still held, %v; %v", m.held(), err)
	}
}
