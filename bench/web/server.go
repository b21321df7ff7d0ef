package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
)

const (
	namespace = "bench"
	mostWait  = 20_000
)

// serve is the HTTP server, in a process of its own. It makes a token, and says it on its standard output.
func serve(address, redis string) error {
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://" + redis, LogLevel: "warn"})
	if err != nil {
		return err
	}
	defer client.Close()
	token, err := httpapi.NewTokens(client, "").Create(context.Background(), httpapi.Token{Namespace: namespace, Description: "bench"})
	if err != nil {
		return err
	}
	fmt.Println(token.Token)
	api, err := httpapi.New(client, httpapi.Settings{QuietAccess: true, Waiters: mostWait})
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	server := httpapi.Server{API: api, Listen: address, MaxConnections: mostWait}
	return server.Run(ctx)
}

// setup is a redis-server and an HTTP server, ours or lmstfy.
type setup struct {
	name           string
	address, token string
	redis          redis.Conn
	server, store  *exec.Cmd
	end            context.CancelFunc
	dir            string
}

func start(name string) (s *setup, err error) {
	s = &setup{name: name}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "goworker-bench-web-"); err != nil {
		return nil, err
	}
	store, err := free()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(store)
	if s.store, err = child(ctx, nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "everysec", "--logfile", s.dir+"/log"); err != nil {
		return nil, err
	}
	if err := eventually(func() error { s.redis, err = redis.Dial("tcp", store); return err }); err != nil {
		return nil, err
	}
	if s.address, err = free(); err != nil {
		return nil, err
	}
	if name == lmstfy {
		return s, s.startLmstfy(ctx, store)
	}
	return s, s.startOurs(ctx, store)
}

func (s *setup) startOurs(ctx context.Context, store string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.server = exec.CommandContext(ctx, self)
	s.server.Env = append(os.Environ(), "BENCH_WEB="+s.address, "BENCH_REDIS="+store)
	s.server.Stderr = os.Stderr
	said, err := s.server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.server.Start(); err != nil {
		return err
	}
	line := make([]byte, 256)
	n, err := said.Read(line)
	if err != nil {
		return fmt.Errorf("the server did not start: %w", err)
	}
	s.token = strings.TrimSpace(string(line[:n]))
	return eventually(func() error { return answers("http://" + s.address + "/readyz") })
}

// answers returns why a server does not answer that it is ready.
func answers(url string) error {
	reply, err := http.Get(url)
	if err == nil {
		if reply.Body.Close(); reply.StatusCode != http.StatusOK {
			err = errors.New(reply.Status)
		}
	}
	return err
}

func (s *setup) stop() {
	s.end()
	for _, cmd := range []*exec.Cmd{s.server, s.store} {
		if cmd != nil && cmd.Process != nil {
			_ = cmd.Wait()
		}
	}
	_ = os.RemoveAll(s.dir)
}

func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func eventually(f func() error) (err error) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = f(); err == nil {
			return nil
		}
	}
	return err
}

// rests waits until the HTTP server has done what it was asked: in a second it takes at most ten milliseconds
// of processor time.
func (s *setup) rests() error {
	return eventually(func() error {
		before, _, err1 := used(s.server)
		time.Sleep(time.Second)
		after, _, err2 := used(s.server)
		if took := after - before; took > 10_000 {
			err2 = errors.Join(err2, fmt.Errorf("the server took %d µs of processor time in a second, and no client asked", took))
		}
		return errors.Join(err1, err2)
	})
}

// used is the processor time of a process since its start, in µs, and its resident memory in bytes. Linux tells it in
// hundredths of a second.
func used(cmd *exec.Cmd) (cpu, memory int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the program's name
	fields := strings.Fields(rest)
	if len(fields) < 22 {
		return 0, 0, errors.New("/proc/pid/stat is not as expected")
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	pages, _ := strconv.ParseInt(fields[21], 10, 64)
	return (user + system) * 10_000, pages * int64(os.Getpagesize()), nil
}

// info reads a number of INFO.
func (s *setup) info(name string) (int64, error) {
	text, err := redis.String(s.redis.Do("INFO"))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(text, "\r\n"+name+":")
	if !ok {
		return 0, fmt.Errorf("INFO has no %s", name)
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return strconv.ParseInt(value, 10, 64)
}
