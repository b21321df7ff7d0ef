package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/bench/probe"
)

// process is a running contender and its reports (see package probe). What its
// library prints goes to a log that is shown when it fails.
type process struct {
	name    string
	cmd     *exec.Cmd
	log     *os.File
	reports chan report // closed when the process has closed its end
	once    sync.Once
	exit    error
}

type report struct {
	key   string
	value string
}

func (r report) number() (int64, error) { return strconv.ParseInt(r.value, 10, 64) }

// start runs the contender; dir holds its binary and gets its log. Killed with ctx.
func (c contender) start(ctx context.Context, dir string, config probe.Config) (*process, error) {
	config.Variant = c.variant
	if c.prefix != "" {
		config.Queues = slices.Clone(config.Queues)
		for i, name := range config.Queues {
			config.Queues[i] = c.prefix + name
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	log, err := os.CreateTemp(dir, c.name+"-*.log")
	if err != nil {
		read.Close()
		return nil, err
	}
	p := &process{name: c.name, log: log, reports: make(chan report, 1024)}
	command := append(slices.Clone(c.before), c.command(dir)...)
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.ExtraFiles = []*os.File{write}
	p.cmd.Env = append(os.Environ(), "BENCH="+string(text))
	if err := startToDieWithParent(p.cmd); err != nil {
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

// until gathers reports by key up to and with one of this kind.
func (p *process) until(ctx context.Context, key string, within time.Duration) (map[string]int64, error) {
	got := map[string]int64{}
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		select {
		case r, ok := <-p.reports:
			if !ok {
				return got, p.failed(fmt.Errorf("ended before it reported %q", key))
			}
			n, err := r.number()
			if err != nil {
				return got, p.failed(fmt.Errorf("reported %s %q, which is no number", r.key, r.value))
			}
			got[r.key] = n
			if r.key == key {
				return got, nil
			}
		case <-timeout.C:
			return got, p.failed(fmt.Errorf("did not report %q within %s", key, within))
		case <-ctx.Done():
			return got, ctx.Err()
		}
	}
}

// next waits for the next report of this kind and skips others.
func (p *process) next(ctx context.Context, key string, within time.Duration) (report, error) {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		select {
		case r, ok := <-p.reports:
			if !ok {
				return r, p.failed(fmt.Errorf("ended before it reported %q", key))
			}
			if r.key == key {
				return r, nil
			}
		case <-timeout.C:
			return report{}, p.failed(fmt.Errorf("did not report %q within %s", key, within))
		case <-ctx.Done():
			return report{}, ctx.Err()
		}
	}
}

// surplus reports whether a report of this kind has come without a wait for it.
func (p *process) surplus(key string) bool {
	for {
		select {
		case r, ok := <-p.reports:
			if !ok {
				return false
			}
			if r.key == key {
				return true
			}
		default:
			return false
		}
	}
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	p.once.Do(func() {
		p.cmd.Process.Kill()
		go func() {
			for range p.reports { // let its reader end
			}
		}()
		p.exit = p.cmd.Wait()
		p.log.Close()
	})
}

// failed adds the contender's name and the end of its log.
func (p *process) failed(err error) error {
	p.kill()
	text, _ := os.ReadFile(p.log.Name())
	return fmt.Errorf("contender %s: %w\n%s", p.name, err, ending(text))
}

// ending is the last of a log.
func ending(log []byte) []byte { return log[max(0, len(log)-1000):] }
