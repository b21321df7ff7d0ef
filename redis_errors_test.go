package goworker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		kind   errorKind
		redial bool
	}{
		{nil, kindOther, false},
		{errors.New("x"), kindOther, false},
		{redis.ErrNil, kindOther, false},
		{io.EOF, kindConn, true},
		{io.ErrUnexpectedEOF, kindConn, true},
		{fmt.Errorf("push: %w", net.ErrClosed), kindConn, true},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, kindConn, true},
		{os.ErrDeadlineExceeded, kindConn, true},
		{context.DeadlineExceeded, kindConn, true},
		{context.Canceled, kindConn, true},
		{sentence(nil, "redis: nothing listens"), kindConn, true},
		{sentence(redis.Error("WRONGPASS x"), "redis: wrong password"), kindAuth, false},
		{redis.Error("NOAUTH Authentication required."), kindAuth, true},
		{redis.Error("LOADING Redis is loading"), kindWait, false},
		{redis.Error("READONLY You can't write"), kindWait, true},
		{redis.Error("MASTERDOWN Link with MASTER is down"), kindWait, true},
		{redis.Error("OOM command not allowed"), kindWait, false},
		{redis.Error("BUSY Redis is busy"), kindWait, false},
		{redis.Error("BUSYGROUP Consumer Group name already exists"), kindOther, false},
		{redis.Error("BUSYKEY Target key name already exists."), kindOther, false},
		{redis.Error("CLUSTERDOWN Hash slot not served"), kindWait, false},
		{redis.Error("MOVED 3999 127.0.0.1:6381"), kindWait, true},
		{redis.Error("ASK 3999 127.0.0.1:6381"), kindWait, false},
		{redis.Error("TRYAGAIN Multiple keys request"), kindWait, false},
		{redis.Error("NOREPLICAS Not enough good replicas"), kindWait, false},
		{redis.Error("MISCONF Redis is configured to save RDB"), kindWait, false},
		{redis.Error("ERR max number of clients reached"), kindWait, false},
		{redis.Error("NOSCRIPT No matching script."), kindNoScript, false},
		{redis.Error("NOPERM this user has no permissions"), kindNoPerm, false},
		{redis.Error("ERR The user executing the script can't run this command or subcommand script: x"), kindNoPerm, false},
		{fmt.Errorf("reserve: %w", redis.Error("WRONGTYPE Operation")), kindWrongType, false},
		{redis.Error("ERR Error running script (call to f_ab): @user_script:1: -OOM command not allowed"), kindWait, false},
		{redis.Error("ERR Error running script (call to f_ab): @user_script:3: WRONGTYPE Operation"), kindWrongType, false},
		{redis.Error("ERR Error running script (call to f_ab): @user_script:3: -READONLY You can't"), kindWait, true},
		{redis.Error("ERR Error running script (call to f_ab): nil value"), kindOther, false},
		{redis.Error("ERR Error compiling script (new function): :1: WRONGTYPE Operation stack traceback:"), kindWrongType, false},
		{redis.Error("ERR unknown command"), kindOther, false},
		{redis.Error(""), kindOther, false},
	} {
		if got := classify(tc.err); got != tc.kind {
			t.Errorf("classify(%v) = %d, want %d", tc.err, got, tc.kind)
		}
		if got := mustRedial(tc.err); got != tc.redial {
			t.Errorf("mustRedial(%v) = %v", tc.err, got)
		}
		if got := isConnError(tc.err); got != (tc.kind == kindConn) {
			t.Errorf("isConnError(%v) = %v", tc.err, got)
		}
	}
}

// TestClassifyReal asks a server for each error, from commands and from scripts.
func TestClassifyReal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "poor", "on", ">s3cret", "~mine", "+eval", "+lpush", "+ping", "+select")
	s.Do(t, "RPUSH", "list", "x")
	c, err := dial(t, s.URI())
	if err != nil {
		t.Fatal(err)
	}
	poor, err := dial(t, "redis://poor:s3cret@"+s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want errorKind, c redis.Conn, cmd string, args ...any) {
		t.Helper()
		if _, err := c.Do(cmd, args...); classify(err) != want {
			t.Errorf("%s %v: %v is kind %d, want %d", cmd, args, err, classify(err), want)
		}
	}
	for _, call := range []string{"return redis.call", "return redis.pcall"} {
		check(kindWrongType, c, "EVAL", call+"('GET', 'list')", 0)
		check(kindNoPerm, poor, "EVAL", call+"('RPUSH', 'mine', 'x')", 0)
		check(kindNoPerm, poor, "EVAL", call+"('LPUSH', 'yours', 'x')", 0)
	}
	check(kindWrongType, c, "GET", "list")
	check(kindNoPerm, poor, "GET", "mine")
	check(kindNoScript, c, "EVALSHA", "0000000000000000000000000000000000000000", 0)

	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	check(kindWait, c, "SET", "a", "b")
	check(kindWait, c, "EVAL", "return redis.call('SET', 'a', 'b')", 0)
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	check(kindWait, c, "SET", "a", "b")
	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	check(kindWait, c, "SET", "a", "b")
	if _, err := c.Do("EVAL", "return redis.call('SET', 'a', 'b')", 0); !mustRedial(err) {
		t.Errorf("%v does not ask for another connection", err)
	}
	s.Do(t, "REPLICAOF", "NO", "ONE")
	s.Kill()
	check(kindConn, c, "PING")
	check(kindConn, c, "PING") // now redigo's own memory of it
	_ = poor.Close()
	check(kindConn, poor, "PING")
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{5 * time.Second: "5s", time.Minute: "1m", 50 * time.Millisecond: "50ms", 90 * time.Second: "1m30s"} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %q", d, got)
		}
	}
}
