package scheduler

import (
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

func TestLockIsSharedByParts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Dial(t)
	taken := 0
	m := NewLock(testBase(s), LockConfig{}, &testFleet{self: "localhost:1:a"})
	m.taken = func(string) { taken++ }
	other := NewLock(testBase(s), LockConfig{}, &testFleet{self: "localhost:1:b"})
	const key = "resque:resque:resque_scheduler_master_lock"
	hold := func(m *Lock, user string, want bool) {
		t.Helper()
		if held, _, err := m.Hold(c, user); held != want || m.Held() != want || err != nil {
			t.Errorf("%s: held %v, %v; want %v; %v", user, held, m.Held(), want, err)
		}
	}
	release := func(user string, still bool) {
		t.Helper()
		if err := m.Release(c, user); err != nil {
			t.Error(err)
		}
		if m.Held() != still || (s.Int(t, "EXISTS", key) == 1) != still {
			t.Errorf("after %s released it: held %v, want %v", user, m.Held(), still)
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
		t.Errorf("the pump heard of it %d times, want once", taken)
	}
	hold(m, "pump", true)
	if err := other.Died(c, "localhost:1:a"); err != nil {
		t.Error(err)
	}
	hold(other, "pump", true) // the other found this one dead
	if err := other.Release(c, "pump"); err != nil {
		t.Error(err)
	}
	hold(m, "pump", true)
	s.Do(t, "SET", key, "ruby:1") // it expired while this process stood still
	hold(m, "pump", false)
	if err := m.Release(c, "pump"); err != nil || s.Text(t, "GET", key) != "ruby:1" {
		t.Errorf("Ruby's lock was touched: %v", err)
	}
}

// A release to which Redis did not reply is repeated.
func TestLockIsReleasedAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, broken := s.Dial(t), s.Dial(t)
	m := NewLock(testBase(s), LockConfig{}, &testFleet{self: "localhost:1:a"})
	if held, _, err := m.Hold(c, "pump"); !held || err != nil {
		t.Fatal(held, err)
	}
	broken.Close()
	if err := m.Release(broken, "pump"); err == nil {
		t.Error("it was released over a connection that is closed")
	}
	if err := m.Release(c, "pump"); err != nil || m.Held() || s.Int(t, "EXISTS", "resque:resque:resque_scheduler_master_lock") != 0 {
		t.Errorf("it is still held, %v; %v", m.Held(), err)
	}
}
