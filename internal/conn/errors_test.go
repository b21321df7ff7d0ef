package conn

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
		kind   Kind
		redial bool
	}{
		{nil, KindOther, false},
		{errors.New("x"), KindOther, false},
		{redis.ErrNil, KindOther, false},
		{io.EOF, KindConn, true},
		{io.ErrUnexpectedEOF, KindConn, true},
		{fmt.Errorf("push: %w", net.ErrClosed), KindConn, true},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, KindConn, true},
		{os.ErrDeadlineExceeded, KindConn, true},
		{context.DeadlineExceeded, KindConn, true},
		{context.Canceled, KindConn, true},
		{sentence(nil, "redis: nothing listens"), KindConn, true},
		{sentence(redis.Error("WRONGPASS x"), "redis: wrong password"), kindAuth, false},
		{redis.Error("NOAUTH Authentication required."), kindAuth, true},
		{redis.Error("LOADING Redis is loading"), KindWait, false},
		{redis.Error("READONLY You can't write"), KindWait, true},
		{redis.Error("MASTERDOWN Link with MASTER is down"), KindWait, true},
		{redis.Error("OOM command not allowed"), KindWait, false},
		{redis.Error("BUSY Redis is busy"), KindWait, false},
		{redis.Error("BUSYGROUP Consumer Group name already exists"), KindOther, false},
		{redis.Error("BUSYKEY Target key name already exists."), KindOther, false},
		{redis.Error("CLUSTERDOWN Hash slot not served"), KindWait, false},
		{redis.Error("MOVED 3999 127.0.0.1:6381"), KindWait, true},
		{redis.Error("ASK 3999 127.0.0.1:6381"), KindWait, false},
		{redis.Error("TRYAGAIN Multiple keys request"), KindWait, false},
		{redis.Error("NOREPLICAS Not enough good replicas"), KindWait, false},
		{redis.Error("MISCONF Redis is configured to save RDB"), KindWait, false},
		{redis.Error("ERR max number of clients reached"), KindWait, false},
		{redis.Error("NOSCRIPT No matching script."), kindNoScript, false},
		{redis.Error("NOPERM this user has no permissions"), KindNoPerm, false},
		{redis.Error("ERR The user executing the script can't run this command or subcommand script: x"), KindNoPerm, false},
		{fmt.Errorf("reserve: %w", redis.Error("WRONGTYPE Operation")), KindWrongType, false},
		{redis.Error("ERR Error running script (call to f_ab): @user_script:1: -OOM command not allowed"), KindWait, false},
		{redis.Error("ERR Error running script (call to f_ab): @user_script:3: WRONGTYPE Operation"), KindWrongType, false},
		{redis.Error("ERR Error running script (call to f_ab): @user_script:3: -READONLY You can't"), KindWait, true},
		{redis.Error("ERR Error running script (call to f_ab): nil value"), KindOther, false},
		{redis.Error("ERR Error compiling script (new function): :1: WRONGTYPE Operation stack traceback:"), KindWrongType, false},
		{redis.Error("ERR unknown command"), KindOther, false},
		{redis.Error(""), KindOther, false},
	} {
		if got := Classify(tc.err); got != tc.kind {
			t.Errorf("classify(%v) = %d, want %d", tc.err, got, tc.kind)
		}
		if got := MustRedial(tc.err); got != tc.redial {
			t.Errorf("mustRedial(%v) = %v", tc.err, got)
		}
		if got := isConnError(tc.err); got != (tc.kind == KindConn) {
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
	check := func(want Kind, c redis.Conn, cmd string, args ...any) {
		t.Helper()
		if _, err := c.Do(cmd, args...); Classify(err) != want {
			t.Errorf("%s %v: %v is kind %d, want %d", cmd, args, err, Classify(err), want)
		}
	}
	for _, call := range []string{"return redis.call", "return redis.pcall"} {
		check(KindWrongType, c, "EVAL", call+"('GET', 'list')", 0)
		check(KindNoPerm, poor, "EVAL", call+"('RPUSH', 'mine', 'x')", 0)
		check(KindNoPerm, poor, "EVAL", call+"('LPUSH', 'yours', 'x')", 0)
	}
	check(KindWrongType, c, "GET", "list")
	check(KindNoPerm, poor, "GET", "mine")
	check(kindNoScript, c, "EVALSHA", "0000000000000000000000000000000000000000", 0)

	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	check(KindWait, c, "SET", "a", "b")
	check(KindWait, c, "EVAL", "return redis.call('SET', 'a', 'b')", 0)
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	check(KindWait, c, "SET", "a", "b")
	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	check(KindWait, c, "SET", "a", "b")
	if _, err := c.Do("EVAL", "return redis.call('SET', 'a', 'b')", 0); !MustRedial(err) {
		t.Errorf("%v does not ask for another connection", err)
	}
	s.Do(t, "REPLICAOF", "NO", "ONE")
	s.Kill()
	check(KindConn, c, "PING")
	check(KindConn, c, "PING") // now redigo's own memory of it
	_ = poor.Close()
	check(KindConn, poor, "PING")
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{5 * time.Second: "5s", time.Minute: "1m", 50 * time.Millisecond: "50ms", 90 * time.Second: "1m30s"} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %q", d, got)
		}
	}
}
