package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// contender is one program under ../contender, named as its folder. What its
// library prints goes to a log that is shown when it fails.
type contender struct {
	name   string
	binary string
}

// buildContender compiles before anything is measured.
func buildContender(ctx context.Context, name, dir string) (contender, error) {
	c := contender{name: name, binary: filepath.Join(dir, name)}
	build := exec.CommandContext(ctx, "go", "build", "-o", c.binary, "./contender/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		return c, fmt.Errorf("build contender %s (the runner must be started in bench/): %w\n%s", name, err, out)
	}
	return c, nil
}

// process is a running contender and its reports (see package probe).
type process struct {
	contender contender
	cmd       *exec.Cmd
	log       *os.File
	reports   chan report // closed when the process has closed its end
	once      sync.Once
	exit      error
}

type report struct {
	key, value string
}

func (r report) number() (int64, error) { return strconv.ParseInt(r.value, 10, 64) }

// start runs the contender on the server's queue. jobs is how many no-op jobs
// are queued; drain makes it exit when they are done. Killed with ctx.
func (c contender) start(ctx context.Context, s *server, workers, jobs int, drain bool) (*process, error) {
	args := []string{
		"-queues=" + queueName,
		"-uri=redis://" + s.addr + "/",
		"-concurrency=" + strconv.Itoa(workers),
		"-connections=2",
		"-use-number",
	}
	if drain {
		args = append(args, "-exit-on-complete")
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	log, err := os.CreateTemp(filepath.Dir(c.binary), c.name+"-*.log")
	if err != nil {
		read.Close()
		return nil, err
	}
	p := &process{contender: c, log: log, reports: make(chan report, 1024)}
	p.cmd = exec.CommandContext(ctx, c.binary, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.ExtraFiles = []*os.File{write}
	p.cmd.Env = append(os.Environ(), "BENCH_REPORT=3", "BENCH_JOBS="+strconv.Itoa(jobs))
	dieWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		read.Close()
		log.Close()
		return nil, fmt.Errorf("start contender %s: %w", c.name, err)
	}
	go func() {
		defer close(p.reports)
		defer read.Close()
		for lines := bufio.NewScanner(read); lines.Scan(); {
			key, value, _ := strings.Cut(lines.Text(), " ")
			p.reports <- report{key, value}
		}
	}()
	return p, nil
}

// next waits for the next report of this kind and skips others.
func (p *process) next(ctx context.Context, key string, within time.Duration) (report, error) {
	timeout := time.After(within)
	for {
		select {
		case r, ok := <-p.reports:
			if !ok {
				return r, p.failed(fmt.Errorf("ended before it reported %q", key))
			}
			if r.key == key {
				return r, nil
			}
		case <-timeout:
			return report{}, p.failed(fmt.Errorf("did not report %q within %s", key, within))
		case <-ctx.Done():
			return report{}, ctx.Err()
		}
	}
}

// wait collects all reports by key until the process ends by itself.
func (p *process) wait(ctx context.Context) (map[string]int64, error) {
	got := map[string]int64{}
	for r := range p.reports {
		n, err := r.number()
		if err != nil {
			return nil, p.failed(fmt.Errorf("reported %s %q, which is no number", r.key, r.value))
		}
		got[r.key] = n
	}
	if err := p.reap(); err != nil {
		return nil, p.failed(errors.Join(err, ctx.Err()))
	}
	return got, nil
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	go func() {
		for range p.reports { // let its reader end
		}
	}()
	p.reap()
}

func (p *process) reap() error {
	p.once.Do(func() {
		p.exit = p.cmd.Wait()
		p.log.Close()
	})
	return p.exit
}

// cpu is what the process used, known once it has ended.
func (p *process) cpu() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// failed adds the contender's name and the end of its log.
func (p *process) failed(err error) error {
	p.kill()
	text, _ := os.ReadFile(p.log.Name())
	const tail = 2000
	if len(text) > tail {
		text = text[len(text)-tail:]
	}
	return fmt.Errorf("contender %s: %w\n%s", p.contender.name, err, text)
}
