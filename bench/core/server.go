package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// server is a redis-server of our own: loopback only, nothing on disk, gone with
// the runner. One measurement uses it at a time.
type server struct {
	cmd  *exec.Cmd
	conn redis.Conn // the runner's own connection, silent while something is measured
	addr string
}

// startServer keeps the server's files below dir. Freeing a port and starting on
// it can lose a race to another program, so it tries a few.
func startServer(binary, dir string) (*server, error) {
	var failures []error
	for range 3 {
		s, err := tryServer(binary, dir)
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

func tryServer(binary, dir string) (*server, error) {
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
	s := &server{addr: "127.0.0.1:" + port}
	s.cmd = exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--dir", home,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
		"--logfile", filepath.Join(home, "log"))
	dieWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if s.conn, err = redis.Dial("tcp", s.addr); err == nil {
			if _, err = s.conn.Do("PING"); err == nil {
				return s, nil
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

// queueKey is where every contender looks for the benchmark's jobs.
const (
	queueName = "bench"
	queueKey  = "resque:queue:" + queueName
)

// reset empties the server and queues n no-op jobs, 44 bytes each.
func (s *server) reset(n int) error {
	if _, err := s.conn.Do("FLUSHALL"); err != nil {
		return err
	}
	if _, err := s.conn.Do("SADD", "resque:queues", queueName); err != nil {
		return err
	}
	const batch = 1000
	for done := 0; done < n; {
		args := redis.Args{}.Add(queueKey)
		for i := 0; i < batch && done < n; i++ {
			args = args.Add(noopPayload)
			done++
		}
		if _, err := s.conn.Do("RPUSH", args...); err != nil {
			return err
		}
	}
	return nil
}

const noopPayload = `{"class":"Noop","args":["aaaaaaaaaaaaaa",1]}`

// push queues one job with one string argument.
func (s *server) push(class, arg string) error {
	payload := fmt.Sprintf(`{"class":%q,"args":[%q]}`, class, arg)
	_, err := s.conn.Do("RPUSH", queueKey, payload)
	return err
}

// usage is what the server has spent since it started.
type usage struct {
	cpu      time.Duration // user and system, main thread and helpers
	commands int64         // clients' and scripts' together
}

func (s *server) usage() (usage, error) {
	info, err := redis.String(s.conn.Do("INFO"))
	if err != nil {
		return usage{}, err
	}
	fields := parseInfo(info)
	user, err1 := strconv.ParseFloat(fields["used_cpu_user"], 64)
	system, err2 := strconv.ParseFloat(fields["used_cpu_sys"], 64)
	commands, err3 := strconv.ParseInt(fields["total_commands_processed"], 10, 64)
	return usage{
		cpu:      time.Duration((user + system) * float64(time.Second)),
		commands: commands,
	}, errors.Join(err1, err2, err3)
}

// ranScripts says whether any script ran since the last FLUSHALL and RESETSTAT.
func (s *server) ranScripts() (bool, error) {
	info, err := redis.String(s.conn.Do("INFO", "commandstats"))
	if err != nil {
		return false, err
	}
	fields := parseInfo(info)
	for _, name := range []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"} {
		if _, ok := fields["cmdstat_"+name]; ok {
			return true, nil
		}
	}
	return false, nil
}

func (s *server) version() string {
	info, _ := redis.String(s.conn.Do("INFO", "server"))
	return parseInfo(info)["redis_version"]
}

func parseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields
}
