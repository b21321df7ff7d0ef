package goworker

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// limited performs a job of a class with a time limit of a minute, in a goroutine of
// its own, and returns the registry and what tells of the end.
func limited(t *testing.T, book *safeBuffer, handler any) (*registry, <-chan error) {
	r := newRegistry()
	r.register("C", handler, []Option{Timeout(time.Minute)})
	d, err := prepared(t, r, `{"class":"C","args":[],"id":"a7"}`)
	if err != nil {
		t.Fatal(err)
	}
	d.Worker, d.logger = "host:1-3:mail", slog.New(slog.NewTextHandler(book, nil))
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
				gate, book, began := make(chan bool), new(safeBuffer), time.Now()
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
				if n := book.count("job is stuck"); n != 1 || book.count("stuck_internal_test.go:") != 1 {
					t.Errorf("it is logged %d times, without the handler's place perhaps:\n%s", n, book.String())
				}
				close(gate)
				<-ended
				if got := r.stuckJobs(); len(got) != 0 {
					t.Errorf("ended but stuck: %+v", got)
				}
				if book.count("stuck job ended") != 1 {
					t.Errorf("its end is not logged:\n%s", book.String())
				}
			})
		})
	}
}

func TestNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := new(safeBuffer)
		r, ended := limited(t, book, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		time.Sleep(time.Hour)
		if book.String() != "" || len(r.stuckJobs()) != 0 {
			t.Errorf("stuck %+v, logged:\n%s", r.stuckJobs(), book.String())
		}
	})
}
