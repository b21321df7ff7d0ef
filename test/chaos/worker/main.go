// Program worker is what chaos attacks: a worker as a user would write one, whose
// handlers keep a ledger. Its flags are goworker's.
//
//	Nap id ms    takes its time, whatever its context says
//	Wait id ms   takes its time, but for its context's end, which it returns
//	Fail id ms   fails; Panic and Goexit do what they are called
//	Noop id      does nothing
//	Die id ms    takes its time and ends the process
//
// Those with policies are in policy.go, those that become one job in many.go, and one that
// goes on where it was in count.go. With CHAOS_TICKS=n in its environment it has
// recurring schedules that fire each n seconds. With CHAOS_PRODUCE=how,prefix,n it enqueues
// n jobs instead, with CHAOS_RUBY=address,n it is a Ruby scheduler, or does what one does; with
// CHAOS_RUBY_WORKER=address it is the Ruby worker of CHAOS_RECORDING on CHAOS_QUEUES. With
// CHAOS_HTTP=address it serves HTTP, and with CHAOS_CONSUME=order it takes jobs over it. With
// CHAOS_LIMITLESS the class Few has no limit. With CHAOS_BRIDGE it works the tasks of delayed's queue "tasks" too.
// With CHAOS_RESIZE=n,m it changes its concurrency to n and then to m.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/delayedbridge"
)

func main() {
	file, err := os.OpenFile(os.Getenv("CHAOS_LEDGER"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker: no ledger; name one in CHAOS_LEDGER:", err)
		os.Exit(3)
	}
	l := ledger{file}
	if order := os.Getenv("CHAOS_PRODUCE"); order != "" {
		l.produce(order)
		return
	}
	if address, every, ok := strings.Cut(os.Getenv("CHAOS_RUBY"), ","); ok {
		n, _ := strconv.ParseInt(every, 10, 64)
		if err := runRubyScheduler(address, n); err != nil {
			fmt.Fprintln(os.Stderr, "scheduler:", err)
			os.Exit(2)
		}
		return
	}
	if address := os.Getenv("CHAOS_RUBY_WORKER"); address != "" {
		if err := l.runRubyWorker(address, os.Getenv("CHAOS_RECORDING"), strings.Split(os.Getenv("CHAOS_QUEUES"), ",")); err != nil {
			fmt.Fprintln(os.Stderr, "Ruby's worker:", err)
			os.Exit(2)
		}
		return
	}
	if address := os.Getenv("CHAOS_HTTP"); address != "" {
		if err := serve(address); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(2)
		}
		return
	}
	if order := os.Getenv("CHAOS_CONSUME"); order != "" {
		l.consume(order)
		return
	}
	l.register()
	l.registerPolicies()
	l.registerMany()
	l.registerCount()
	if every := os.Getenv("CHAOS_TICKS"); every != "" {
		if err := schedule(every); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(3)
		}
	}
	if os.Getenv("CHAOS_BRIDGE") != "" {
		goworker.AddPart(delayedbridge.Part(goworker.Default(), delayedbridge.Queue{Name: "tasks", To: "work"}))
	}
	if steps := os.Getenv("CHAOS_RESIZE"); steps != "" {
		goworker.AddHooks(goworker.Hooks{Ready: func() { go change(strings.Split(steps, ","), resize) }})
	}
	if lists := os.Getenv("CHAOS_RELIST"); lists != "" {
		goworker.AddHooks(goworker.Hooks{Ready: func() { go change(strings.Fields(lists), relist) }})
	}
	go l.gauge()
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, "Work:", err)
		os.Exit(2)
	}
}

// change changes what the daemon works, step by step, and lets some jobs run with each.
func change(steps []string, do func(step string) error) {
	for _, step := range steps {
		if err := do(step); err != nil {
			fmt.Fprintln(os.Stderr, "changing to", step, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func resize(step string) error {
	n, err := strconv.Atoi(step)
	if err == nil {
		_, err = goworker.Default().SetConcurrency(context.Background(), n)
	}
	return err
}

func relist(step string) error {
	_, err := goworker.Default().SetQueues(context.Background(), step)
	return err
}

type ledger struct{ file *os.File }

// note appends one line with one write, so that a kill never leaves half of one.
func (l ledger) note(event byte, id string) { l.write(event, id, "") }

// noteWhole notes the start and the end of a run that takes no time.
func (l ledger) noteWhole(id string) {
	line := make([]byte, 0, 96)
	for _, event := range []byte("se") {
		line = append(append(append(line, event, '\t'), id...), '\t')
		line = append(strconv.AppendInt(line, time.Now().UnixNano(), 10), '\n')
	}
	l.append(line)
}

// begin notes the start of a run, which attempt it is and in which process.
func (l ledger) begin(id string, attempt int) {
	l.write('s', id, fmt.Sprintf("\t%d,%d", attempt, os.Getpid()))
}

func (l ledger) write(event byte, id, more string) {
	line := make([]byte, 0, 64)
	line = append(append(append(line, event, '\t'), id...), '\t')
	line = append(append(strconv.AppendInt(line, time.Now().UnixNano(), 10), more...), '\n')
	l.append(line)
}

func (l ledger) append(line []byte) {
	if _, err := l.file.Write(line); err != nil {
		panic(err)
	}
}

var errAsked = errors.New("asked to fail")

func (l ledger) register() {
	goworker.Register("Nap", func(id string, ms int) {
		l.note('s', id)
		time.Sleep(time.Duration(ms) * time.Millisecond)
		l.note('e', id)
	})
	goworker.Register("Wait", func(ctx context.Context, id string, ms int) error {
		l.note('s', id)
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
			l.note('e', id)
			return nil
		case <-ctx.Done():
			l.note('c', id)
			return ctx.Err()
		}
	})
	failing := func(class string, end func() error) {
		goworker.Register(class, func(id string, ms int) error {
			l.note('s', id)
			time.Sleep(time.Duration(ms) * time.Millisecond)
			l.note('f', id)
			return end()
		})
	}
	failing("Fail", func() error { return errAsked })
	failing("Panic", func() error { panic("asked to panic") })
	failing("Goexit", func() error { runtime.Goexit(); return nil })
	goworker.Register("Noop", func(id string, _ int) { l.noteWhole(id) })
	goworker.Register("Die", func(id string, ms int) {
		l.note('s', id)
		time.Sleep(time.Duration(ms) * time.Millisecond)
		l.note('d', id) // the ledger's time is when the process died
		os.Exit(7)
	})
}

// gauge notes, for each SIGWINCH, what this process uses once garbage is collected.
func (l ledger) gauge() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGWINCH)
	for range asked {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		l.note('g', fmt.Sprintf("%d,%d", runtime.NumGoroutine(), m.HeapInuse))
	}
}
