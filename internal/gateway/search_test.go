package gateway

import (
	"testing"
	"time"
)

// A queue is searched by one at a time, and then rests for twenty times as long as the search took.
func TestSearchRests(t *testing.T) {
	t.Parallel()
	s, now := new(searches), time.Now()
	may := func(queue string, after time.Duration, want bool) {
		t.Helper()
		if s.begin(queue, now.Add(after)) != want {
			t.Errorf("the queue %s may be searched after %v: %v", queue, after, !want)
		}
	}
	may("mail", 0, true)
	may("mail", 0, false)
	may("other", 0, true)
	s.end("mail", now.Add(time.Second), time.Second)
	may("mail", time.Second, false)
	may("mail", 20*time.Second, false)
	may("mail", 21*time.Second, true)
}

// A server puts a job back three times whose answer could not be written.
func TestReleases(t *testing.T) {
	t.Parallel()
	var r releases
	for i := range mostReleases + 1 {
		if r.may("4:mail1") != (i < mostReleases) {
			t.Errorf("the job may go back %d times", i+1)
		}
	}
	if !r.may("4:mail2") {
		t.Error("another job may not go back")
	}
}
