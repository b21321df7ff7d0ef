package stuck

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Jobs
		var lines bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&lines, nil))
		gate, ended := make(chan bool), make(chan bool)
		job := func(id string, l *slog.Logger) Job {
			j := Job{Queue: "mail", Class: "C", ID: id, Worker: "h:1-1:mail", Started: time.Now(), Limit: time.Minute}
			go func() {
				defer func() { ended <- true }()
				defer s.Watch(j, time.Second, l)()
				<-gate
			}()
			return j
		}
		second := job("b", nil)
		second.Worker = "h:1-2:mail"
		first := job("a", logger)
		time.Sleep(time.Minute + time.Second - 1)
		synctest.Wait()
		if got := s.List(); len(got) != 0 {
			t.Errorf("stuck before its time: %+v", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := s.List(); len(got) != 2 {
			t.Errorf("stuck are %+v", got)
		}
		time.Sleep(time.Hour)
		later := job("c", logger)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := s.List(); len(got) != 3 || got[2] != later || got[0].Started != first.Started {
			t.Errorf("stuck are %+v, the oldest is to be the first", got)
		}
		if n := strings.Count(lines.String(), "job is stuck"); n != 2 || strings.Count(lines.String(), "stuck_test.go:") != 2 || !strings.Contains(lines.String(), "id=a ") {
			t.Errorf("logged without the place of the handler, or not once a job:\n%s", lines.String())
		}
		close(gate)
		for range 3 {
			<-ended
		}
		if got := s.List(); len(got) != 0 || strings.Count(lines.String(), "stuck job ended") != 2 {
			t.Errorf("ended but stuck: %+v\n%s", got, lines.String())
		}
	})
}

// All workers are stuck since the last of them is.
func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Jobs
		all := func() time.Duration { return s.All(2, time.Second, time.Now()) }
		one := s.Watch(Job{Started: time.Now(), Limit: time.Second}, time.Second, nil)
		time.Sleep(time.Minute)
		if d := all(); d != 0 {
			t.Errorf("one of two has been stuck: %v", d)
		}
		other := s.Watch(Job{Started: time.Now(), Limit: time.Second}, time.Second, nil)
		time.Sleep(12 * time.Second)
		if d := all(); d != 10*time.Second {
			t.Errorf("both have been stuck for %v", d)
		}
		one()
		if d := all(); d != 0 {
			t.Errorf("one has ended: %v", d)
		}
		other()
	})
}
