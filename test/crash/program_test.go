// Package crash kills, stops and starves real processes and checks that no job is
// lost. The test binary is the worker program as well: with a ledger named in its
// environment it works instead of testing.
package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/clock"
)

// ledgerVar names the file in which a worker program notes what its handlers do.
const ledgerVar = "GOWORKER_CRASH_LEDGER"

// lingerVar makes the program wait for its death after Work has returned.
const lingerVar = "GOWORKER_CRASH_LINGER"

func TestMain(m *testing.M) {
	if path := os.Getenv(ledgerVar); path != "" {
		os.Exit(program(path))
	}
	flag.Parse()
	// These tests wait far more than they compute: for leases that run out.
	_ = flag.Set("test.parallel", "16")
	os.Exit(m.Run())
}

// program is a worker as a user would write one. Its flags are goworker's. Each
// class notes its start and its end; those that wait do so until the file that is
// the ledger's name with ".gate" or ".gate.<pid>" appended is there.
//
//	Nap id ms   takes its time
//	Hold id     waits for the gate; cancelled, it notes the cause and returns it
//	Deaf id     waits for the gate, whatever its context says
//	Die id      ends the process
//	Nothing     does not even note that it ran
//	Rival id    enqueues Hold("unique") to the queue "rare", uniquely, and notes what came of it
//	Fat id      has 160 MiB of memory and waits for the gate
//	Weigh id    notes how many goroutines there are and how many bytes the heap holds
func program(path string) int {
	if os.Getenv(swiftVar) != "" {
		clock.System = swift{clock.System}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	// One write a line: it is appended as a whole, even if other processes append too.
	note := func(event, id, detail string) {
		if _, err := fmt.Fprintf(file, "%s\t%s\t%d\t%s\n", event, id, os.Getpid(), detail); err != nil {
			panic(err)
		}
	}
	gates := []string{path + ".gate", path + ".gate." + strconv.Itoa(os.Getpid())}
	wait := func(done <-chan struct{}) bool {
		for {
			for _, g := range gates {
				if _, err := os.Stat(g); err == nil {
					return true
				}
			}
			select {
			case <-done:
				return false
			case <-time.After(20 * time.Millisecond):
			}
		}
	}

	goworker.Register("Nap", func(id string, ms int) {
		note("start", id, "")
		time.Sleep(time.Duration(ms) * time.Millisecond)
		note("end", id, "")
	})
	goworker.Register("Hold", func(ctx context.Context, id string) error {
		note("start", id, "")
		if wait(ctx.Done()) {
			note("end", id, "")
			return nil
		}
		note("cancel", id, causes[context.Cause(ctx)])
		return ctx.Err()
	})
	goworker.Register("Deaf", func(id string) {
		note("start", id, "")
		wait(nil)
		note("end", id, "")
	})
	goworker.Register("Die", func(id string) {
		note("start", id, "")
		os.Exit(7)
	})
	goworker.Register("Nothing", func() {})
	goworker.Register("Rival", func(id string) error {
		_, err := goworker.EnqueueWith(&goworker.Job{Queue: "rare", Payload: goworker.Payload{Class: "Hold", Args: []any{"unique"}}}, goworker.Unique())
		if duplicate := new(goworker.DuplicateError); errors.As(err, &duplicate) {
			note("refused", id, duplicate.Holder)
			return nil
		}
		note("enqueued", id, "")
		return err
	})
	goworker.Register("Weigh", func(id string) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		note("weighed", id, fmt.Sprint(runtime.NumGoroutine(), " ", m.HeapAlloc))
	})
	goworker.Register("Fat", fat(note, wait))
	addBadPart()
	registerRetries(note, wait)
	registerLong(note, wait)
	if os.Getenv(limitsVar) != "" {
		registerLimited(note)
	}
	if os.Getenv(aggregateVar) != "" {
		registerGathered(note)
	}
	work := goworker.Work
	if os.Getenv(shardVar) != "" {
		work = func() error { return workShards(note, wait) }
	}
	if err := work(); err != nil {
		if os.Getenv(partVar) != "" {
			log.Fatal(err) // as docs/deploying.md has it
		}
		fmt.Fprintln(os.Stderr, "Work:", err)
		return 2
	}
	note("returned", "", "")
	if os.Getenv(lingerVar) != "" {
		time.Sleep(time.Minute)
	}
	return 0
}

var causes = map[error]string{
	goworker.ErrLeaseLost: "lease lost",
	goworker.ErrShutdown:  "shutdown",
	goworker.ErrCancelled: "cancelled",
}

// exitStatus is what a program that has ended reports, -1 if a signal ended it.
func exitStatus(err error) int {
	var exit interface{ ExitCode() int }
	if err == nil {
		return 0
	}
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -2
}
