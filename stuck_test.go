package goworker

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// limited performs a job of a class with a time limit of a minute, in a goroutine of
// its own, and returns the registry and what tells of the end.
func limited(t *testing.T, book *logBook, handler any) (*registry, <-chan error) {
	r := new(registry)
	r.register("C", handler, []Option{Timeout(time.Minute)})
	d, err := prepared(t, r, `{"class":"C","args":[],"id":"a7"}`)
	if err != nil {
		t.Fatal(err)
	}
	d.Worker, d.workers = "host:1-3:mail", &workers{logger: slog.New(book)}
	ended := make(chan error, 1)
	go func() {
		returned := false
		defer func() {
			if !returned {
				ended <- ErrGoexit
			}
		}()
		err := d.perform(context.Background())
		returned = true
		ended <- err
	}()
	return r, ended
}

func TestStuck(t *testing.T) {
	for name, end := range map[string]func() error{
		"done":     func() error { return nil },
		"failed":   func() error { return errors.New("no luck") },
		"panicked": func() error { panic("boom") },
		"goexit":   func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate, book, began := make(chan bool), new(logBook), time.Now()
				r, ended := limited(t, book, func() error {
					<-gate // it never looks at its context
					return end()
				})
				time.Sleep(time.Minute + StuckAfter - 1)
				synctest.Wait()
				if got := r.stuckJobs(); len(got) != 0 {
					t.Errorf("stuck before its time: %+v", got)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				want := StuckJob{Queue: "mail", Class: "C", ID: "a7", Worker: "host:1-3:mail", Started: began, Limit: time.Minute}
				if got := r.stuckJobs(); len(got) != 1 || got[0] != want {
					t.Errorf("stuck are %+v, want %+v", got, want)
				}
				time.Sleep(time.Hour)
				if n := book.count("job is stuck"); n != 1 || book.count("stuck_test.go:") != 1 {
					t.Errorf("it is logged %d times, without the handler's place perhaps:\n%s", n, book.text())
				}
				close(gate)
				<-ended
				if got := r.stuckJobs(); len(got) != 0 {
					t.Errorf("ended but stuck: %+v", got)
				}
				if book.count("stuck job ended") != 1 {
					t.Errorf("its end is not logged:\n%s", book.text())
				}
			})
		})
	}
}

func TestNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := new(logBook)
		r, ended := limited(t, book, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		time.Sleep(time.Hour)
		if book.text() != "" || len(r.stuckJobs()) != 0 {
			t.Errorf("stuck %+v, logged:\n%s", r.stuckJobs(), book.text())
		}
	})
}

// A stuck job of a real daemon: its worker stays taken, its outcome counts.
func TestStuckJobCountsAsItEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.Concurrency = 2 })
	b.daemon.Register("Limited", func(id string) { b.runs.start(id); <-b.gate; b.runs.end(id) }, Timeout(time.Millisecond))
	b.start()
	b.push(job("Limited", "slow"))
	b.eventually("the job is stuck", func() bool { return len(b.daemon.Stuck()) == 1 })
	if s := b.daemon.Stuck()[0]; s.Class != "Limited" || s.Queue != "work" || !strings.HasSuffix(s.Worker, ":work") {
		t.Errorf("stuck is %+v", s)
	}
	b.push(jobs("Mark", 10)...)
	b.eventually("the other worker works", func() bool { return b.stat("processed") == 10 })
	if n := b.runs.ends("slow"); n != 0 {
		t.Error("the stuck job ended")
	}
	b.open()
	b.eventually("it is done", func() bool { return b.stat("processed") == 11 && len(b.daemon.Stuck()) == 0 })
	if f := b.failures(); len(f) > 0 {
		t.Errorf("failures %+v", f)
	}
}
