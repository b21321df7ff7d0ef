package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// options are what the command line says.
type options struct {
	seed     uint64
	kills    int           // of the fault "kill"
	jobs     int           // the same
	workers  int           // processes of "kill" and "mixed"
	duration time.Duration // of "mixed"
	keep     bool          // keep the ledgers of good runs too
	short    bool          // one short case of each fault that takes minutes
	dir      string        // of all that is written
	worker   string        // the program under attack
}

// prepare builds the program under attack.
func (o *options) prepare() (cleanup func(), err error) {
	if o.dir, err = os.MkdirTemp("", "goworker-chaos-"); err != nil {
		return nil, err
	}
	o.worker = filepath.Join(o.dir, "worker")
	if out, err := exec.Command("go", "build", "-ldflags=-s", "-o", o.worker, "./worker").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the worker: %w\n%s", err, out)
	}
	return func() { _ = os.Remove(o.worker); _ = os.Remove(o.dir) }, nil // what is kept keeps the folder
}

// contain runs body in an arena of its own and judges what came of it.
func contain(opts options, name string, redisArgs []string, body func(*arena)) result {
	return containOn(opts, name, "", redisArgs, body)
}

// containOn is contain with another program than redis-server.
func containOn(opts options, name, binary string, redisArgs []string, body func(*arena)) (r result) {
	r = newResult()
	var a *arena
	defer func() {
		if trouble := recover(); trouble != nil {
			f, ok := trouble.(fatal)
			if !ok {
				panic(trouble)
			}
			if a == nil {
				r.problems = append(r.problems, f.text)
				return
			}
			a.problem("%s", f.text)
			r.problems = a.problems
		}
		if a == nil {
			return
		}
		a.close()
		if r.bad() {
			r.problems = append(r.problems, "ledgers and logs are in "+a.dir)
		} else if !opts.keep {
			_ = os.RemoveAll(a.dir)
		}
	}()
	a = newArena(opts, name, binary, redisArgs)
	body(a)
	return a.finish()
}

// without adds that nothing may have run twice.
func without(r result) result {
	if n := r.repeats(); n > 0 {
		r.problems = append(r.problems, fmt.Sprintf("%d jobs ran twice although nothing here may have that happen", n))
	}
	return r
}

func skipped(why string) result {
	r := newResult()
	r.notes = []string{"skipped: " + why}
	return r
}
