package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// redisServer is a redis-server that is stopped and started again with what it had.
type redisServer struct {
	dir  string
	mu   sync.Mutex
	port string
	cmd  *exec.Cmd
	gone chan struct{}
}

func (s *redisServer) address() string { return "127.0.0.1:" + s.port }
func (s *redisServer) uri() string     { return "redis://" + s.address() + "/" }

// start starts it, and returns when it answers.
func (s *redisServer) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return nil
	}
	if s.port != "" {
		return s.listen(ctx)
	}
	var err error
	for range 50 { // until a port is free
		s.port = strconv.Itoa(10000 + rand.IntN(12000)) // below those of outgoing connections, so that it is free when the server starts again
		var l net.Listener
		if l, err = net.Listen("tcp", s.address()); err != nil {
			continue
		}
		_ = l.Close()
		if err = s.listen(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// listen starts it at its port, and returns when it answers. mu is held.
func (s *redisServer) listen(ctx context.Context) error {
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	cmd := exec.Command(program, "--bind", "127.0.0.1", "--port", s.port, "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--logfile", filepath.Join(s.dir, "redis.log"), "--maxmemory-policy", "noeviction")
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	s.cmd, s.gone = cmd, gone
	for {
		c, err := redis.DialContext(ctx, "tcp", s.address())
		if err == nil {
			_, err = c.Do("PING")
			_ = c.Close()
		}
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			s.cmd = nil
			return errors.New("redis-server has ended: " + err.Error())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop stops it. It writes what it has into its directory.
func (s *redisServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	if c, err := redis.Dial("tcp", s.address()); err == nil {
		_, _ = c.Do("SHUTDOWN", "SAVE")
		_ = c.Close()
	} else {
		_ = s.cmd.Process.Kill()
	}
	<-s.gone
	s.cmd = nil
}
