package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
)

// server is a redis-server of our own: loopback only, nothing on disk, gone with
// the runner. One measurement uses it at a time.
type server struct {
	cmd  *exec.Cmd
	conn redis.Conn // the runner's own connection, silent while something is measured
	addr string
	log  string // the path of its log
}

// startServer starts one in about 20 ms. It keeps the server's files below dir. Freeing a port and
// starting on it can lose a race to another program, so it tries a few. The command comes behind what is before it.
func startServer(binary, dir string, before ...string) (*server, error) {
	var failures []error
	for range 3 {
		s, err := tryServer(binary, dir, before)
		if err == nil {
			return s, nil
		}
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("start Redis: %w; install redis-server or name it with -redis-server", err)
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

func tryServer(binary, dir string, before []string) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()

	home, err := os.MkdirTemp(dir, "redis")
	if err != nil {
		return nil, err
	}
	s := &server{addr: "127.0.0.1:" + port, log: filepath.Join(home, "log")}
	command := append(slices.Clone(before), binary)
	s.cmd = exec.Command(command[0], append(command[1:], "--port", port, "--bind", "127.0.0.1", "--dir", home,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--maxclients", "15000",
		"--logfile", s.log)...)
	if err := startToDieWithParent(s.cmd); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if s.conn, err = redis.Dial("tcp", s.addr); err == nil {
			var info string
			if info, err = redis.String(s.conn.Do("INFO", "server")); err == nil {
				if strings.Contains(info, fmt.Sprintf("\r\nprocess_id:%d\r\n", s.cmd.Process.Pid)) {
					return s, nil
				}
				s.stop()
				return nil, fmt.Errorf("another redis-server has got the port of %s", s.addr)
			}
		}
		if time.Now().After(deadline) {
			s.stop()
			return nil, fmt.Errorf("redis-server on %s does not answer: %w", s.addr, err)
		}
	}
}

func (s *server) stop() {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.cmd.Process != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	}
}

// explain adds to an error what became of a server that no longer answers.
func (s *server) explain(err error) error {
	if err == nil || s.conn.Err() == nil {
		return err
	}
	s.stop()
	log, _ := os.ReadFile(s.log)
	return fmt.Errorf("%w; redis-server has ended: %s; its log says:\n%s", err, s.cmd.ProcessState, ending(log))
}

// fill queues the counted jobs of a work as bytes, the way Resque's clients do.
func (s *server) fill(c probe.Config) error {
	for q := range c.Queues {
		if err := s.fillQueue(c, q); err != nil {
			return err
		}
	}
	return nil
}

// fillQueue queues those of the counted jobs that are in one of the queues.
func (s *server) fillQueue(c probe.Config, q int) error {
	name := c.Queues[q]
	if _, err := s.conn.Do("SADD", "resque:queues", name); err != nil {
		return err
	}
	const batch = 1000
	for i := q; i < c.Jobs; {
		args := redis.Args{}.Add("resque:queue:" + name)
		for size := 0; len(args) <= batch && i < c.Jobs && size < 1<<20; i += len(c.Queues) {
			filler, number := probe.Args(c.Class, i, c.Size)
			payload := `{"class":"` + c.Class + `","args":["` + filler + `",` + strconv.Itoa(number) + `]}`
			args = args.Add(payload)
			size += len(payload)
		}
		if _, err := s.conn.Do("RPUSH", args...); err != nil {
			return err
		}
	}
	return nil
}

// push queues one job with one string argument.
func (s *server) push(class, arg string) error {
	payload := fmt.Sprintf(`{"class":%q,"args":[%q]}`, class, arg)
	_, err := s.conn.Do("RPUSH", resqueDepth, payload)
	return err
}

// usage is what the server has spent since it started.
type usage struct {
	cpu   time.Duration // user and system, main thread and helpers
	bytes int64         // in and out
}

func (s *server) usage() (usage, error) {
	fields := map[string]string{}
	for _, section := range []string{"stats", "cpu"} {
		info, err := redis.String(s.conn.Do("INFO", section))
		if err != nil {
			return usage{}, err
		}
		parseInfo(fields, info)
	}
	user, err1 := strconv.ParseFloat(fields["used_cpu_user"], 64)
	system, err2 := strconv.ParseFloat(fields["used_cpu_sys"], 64)
	in, err3 := strconv.ParseInt(fields["total_net_input_bytes"], 10, 64)
	out, err4 := strconv.ParseInt(fields["total_net_output_bytes"], 10, 64)
	return usage{
		cpu:   time.Duration((user + system) * float64(time.Second)),
		bytes: in + out,
	}, errors.Join(err1, err2, err3, err4)
}

// memory is what the server's data takes, with what it needs to find it.
func (s *server) memory() (int64, error) {
	info, err := redis.String(s.conn.Do("INFO", "memory"))
	if err != nil {
		return 0, err
	}
	fields := map[string]string{}
	parseInfo(fields, info)
	return strconv.ParseInt(fields["used_memory"], 10, 64)
}

func (s *server) version() string {
	fields := map[string]string{}
	info, _ := redis.String(s.conn.Do("INFO", "server"))
	parseInfo(fields, info)
	return fields["redis_version"]
}

func parseInfo(into map[string]string, text string) {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			into[key] = value
		}
	}
}
