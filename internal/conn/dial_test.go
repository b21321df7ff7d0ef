package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// dial makes a dialer of uri and dials once.
func dial(t *testing.T, uri string, change ...func(*Config)) (redis.Conn, error) {
	t.Helper()
	cfg := Config{URI: uri, ConnectTimeout: time.Minute}
	for _, f := range change {
		f(&cfg)
	}
	d, err := NewDialer(t.Context(), cfg, nil)
	if err != nil {
		return nil, err
	}
	c, err := d.Dial(t.Context())
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// wantSentence fails unless err is want, begins with "redis: ", is one line and
// shows no password: every password of these tests contains "s3cret".
func wantSentence(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error is %v; want %q", err, want)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := fmt.Sprintf("%v %+v %#v", e, e, e); strings.Contains(text, "s3cret") {
			t.Errorf("the password is in %s", text)
		}
	}
	if text := err.Error(); !strings.HasPrefix(text, "redis: ") || strings.ContainsAny(text, "\r\n") {
		t.Errorf("%q is not one sentence that begins with redis:", text)
	}
}

func TestDial(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">s3cret/@:", "~*", "+@all")
	s.Do(t, "ACL", "SETUSER", "open", "on", "nopass", "~*", "+@all")
	s.Do(t, "ACL", "SETUSER", "noping", "on", ">s3cret", "~*", "+@all", "-ping")
	_, port, _ := net.SplitHostPort(s.Addr)
	for name, tc := range map[string]struct{ uri, user, db string }{
		"tcp":                     {"redis://" + s.Addr, "default", "db=0"},
		"valkey and a database":   {"valkey://" + s.Addr + "/3", "default", "db=3"},
		"localhost by default":    {"redis://:" + port + "?db=2", "default", "db=2"},
		"acl user":                {"redis://worker:s3cret%2F%40%3A@" + s.Addr + "/1", "worker", "db=1"},
		"user without a password": {"redis://open:@" + s.Addr, "open", "db=0"},
		"user who may not PING":   {"redis://noping:s3cret@" + s.Addr, "noping", "db=0"},
		"socket":                  {"unix://" + s.Socket() + "?db=4", "default", "db=4"},
		"socket, plain path":      {s.Socket(), "default", "db=0"},
		"socket, acl user":        {"unix://worker:s3cret%2F%40%3A@" + s.Socket(), "worker", "db=0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := dial(t, tc.uri)
			if err != nil {
				t.Fatal(err)
			}
			info, err := redis.String(c.Do("CLIENT", "INFO"))
			if err != nil || !strings.Contains(info, "user="+tc.user+" ") || !strings.Contains(info, " "+tc.db+" ") {
				t.Errorf("CLIENT INFO says %s, %v; want user %s, %s", info, err, tc.user, tc.db)
			}
		})
	}
}

func TestDialPasswordOnly(t *testing.T) {
	redistest.OwnUser(t)
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "s3cret")
	for _, uri := range []string{"redis://:s3cret@" + s.Addr, "redis://s3cret@" + s.Addr, "redis://default:s3cret@" + s.Addr} {
		if _, err := dial(t, uri); err != nil {
			t.Errorf("%s: %v", RedactURI(uri), err)
		}
	}
	_, err := dial(t, s.URI())
	wantSentence(t, err, "redis: "+s.Addr+" wants a password; set it in the URI or REDIS_URL, as in redis://user:password@host")
	if Classify(err) != kindAuth {
		t.Errorf("kind of NOAUTH is %v", Classify(err))
	}
	_, err = dial(t, "redis://:s3cretX@"+s.Addr)
	wantSentence(t, err, "redis: wrong password at "+s.Addr+"; set it in the URI or REDIS_URL")
}

func TestDialRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">s3cret", "~*", "+@all", "-select")
	_, err := dial(t, "redis://worker:s3cretX@"+s.Addr)
	wantSentence(t, err, "redis: wrong password for user worker at "+s.Addr+"; set it in the URI or REDIS_URL")
	_, err = dial(t, "redis://worker:s3cret@"+s.Addr+"/1")
	wantSentence(t, err, "redis: user worker may not use SELECT at "+s.Addr+"; add the ACL rule +select")
	_, err = dial(t, "redis://:s3cret@"+s.Addr)
	wantSentence(t, err, "redis: "+s.Addr+" has no password, and the URI gives one; take it out of the URI or REDIS_URL")
	_, err = dial(t, s.URI()+"/99")
	wantSentence(t, err, "redis: "+s.Addr+" has no database 99")

	muted := redistest.Start(t, "--rename-command", "AUTH", "")
	_, err = dial(t, "redis://worker:s3cret@"+muted.Addr)
	wantSentence(t, err, "redis: "+muted.Addr+" does not know AUTH")
	if _, err := muted.Dial(t).Do("CONFIG", "SET", "maxclients", "1"); err != nil { // this connection is the one
		t.Fatal(err)
	}
	_, err = dial(t, muted.URI())
	wantSentence(t, err, "redis: "+muted.Addr+" has no connection left; raise its maxclients setting")
	if Classify(err) != KindWait {
		t.Errorf("kind of maxclients is %v", Classify(err))
	}
}

func TestDialUnreachable(t *testing.T) {
	t.Parallel()
	const addr = "127.0.0.1:1" // a free port may be taken by another test meanwhile
	_, err := dial(t, "redis://u:s3cret@"+addr)
	wantSentence(t, err, "redis: nothing listens at "+addr+"; start Redis there or set another address in the URI or REDIS_URL")
	if !errors.Is(err, syscall.ECONNREFUSED) || Classify(err) != KindConn {
		t.Errorf("cause and kind are lost: %v", Classify(err))
	}

	_, err = dial(t, "redis://u:s3cret@no-such-host.invalid")
	if Classify(err) != KindConn {
		t.Errorf("kind is %v", Classify(err))
	}
	wantSentence(t, err, "no-such-host.invalid") // not found, or no resolver answers

	path := t.TempDir() + "/no.sock"
	_, err = dial(t, "unix://u:s3cret@"+path)
	wantSentence(t, err, "redis: there is no socket "+path)
	if !errors.Is(err, os.ErrNotExist) {
		t.Error("the cause is lost")
	}
}

// An Opener dials by the options alone, and its errors are those of the settings.
func TestServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "s3cret")
	var given Options
	open := func(ctx context.Context, uri string, opts Options) (Dialer, error) {
		given = opts
		return opts.Server(strings.Replace(uri, "there", "redis", 1))
	}
	d, err := NewDialer(t.Context(), Config{URI: "there://:s3cret@" + s.Addr + "/3", Namespace: "{a}:"}, map[string]Opener{"there": open})
	if err != nil || given.Namespace != "{a}:" {
		t.Fatal(given, err)
	}
	c, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if info, err := redis.String(c.Do("CLIENT", "INFO")); !strings.Contains(info, " db=3 ") {
		t.Error(info, err)
	}
	if d, err = given.Server("redis://:s3cretX@" + s.Addr); err == nil {
		_, err = d.Dial(t.Context())
	}
	wantSentence(t, err, "redis: wrong password at "+s.Addr)
	_, err = given.Server("nowhere://:s3cret@" + s.Addr)
	wantSentence(t, err, `redis: the scheme "nowhere" of the Redis URI is unknown`)
	_, err = given.Server("redis://:s3cret@a:b")
	wantSentence(t, err, "redis: the Redis URI redis://:***@")
}

// stranger listens and does to each connection what serve does.
func stranger(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func TestDialStrangers(t *testing.T) {
	t.Parallel()
	reply := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1024))
			_, _ = io.WriteString(c, text)
		}
	}
	for name, tc := range map[string]struct {
		serve func(net.Conn)
		want  string
	}{
		"closes":         {func(c net.Conn) { _, _ = c.Read(make([]byte, 1024)) }, "closed the connection without an answer; write rediss:// if it speaks TLS"},
		"http":           {reply("HTTP/1.1 400 Bad Request\r\n\r\n"), "is not the Redis protocol"},
		"loading":        {reply("-LOADING Redis is loading the dataset in memory\r\n"), "is still loading its data"},
		"protected mode": {reply("-DENIED Redis is running in protected mode because …\r\n"), "is in protected mode"},
		"echo":           {reply("-ERR strange: u s3cret\r\n"), "refused AUTH: ERR strange: u ***"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dial(t, "redis://u:s3cret@"+stranger(t, tc.serve))
			wantSentence(t, err, tc.want)
		})
	}
}

func TestDialHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Pause()
	t.Cleanup(s.Resume)
	// quick dials until the network has connected in time: what comes after it hangs.
	quick := func(uri string) (err error) {
		redistest.Eventually(t, time.Minute, "it is connected in time", func() bool {
			_, err = dial(t, uri, func(c *Config) { c.ConnectTimeout = 2 * time.Second })
			return err == nil || !strings.HasPrefix(err.Error(), "redis: no answer from ")
		})
		return err
	}
	err := quick(s.URI())
	wantSentence(t, err, "redis: "+s.Addr+" accepts connections but does not answer within 2s")
	if Classify(err) != KindConn || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("kind is %v, cause %v", Classify(err), errors.Unwrap(err))
	}
	err = quick("rediss://" + s.Addr)
	wantSentence(t, err, "redis: no TLS answer from "+s.Addr+" within 2s; write redis:// instead of rediss:// if it speaks plain Redis")

	ctx, cancel := context.WithCancel(t.Context())
	mute := stranger(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1024)) // the greeting
		cancel()
		_, _ = io.Copy(io.Discard, c)
	})
	d, err := NewDialer(t.Context(), Config{URI: "redis://" + mute, ConnectTimeout: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Dial(ctx)
	wantSentence(t, err, "did not answer before the call's context ended")
	if !errors.Is(err, context.Canceled) {
		t.Error("the cause is lost")
	}
}

func TestDialerExtras(t *testing.T) {
	t.Parallel()
	if _, polls := PollInterval(&netDialer{}); polls {
		t.Error("a real server is polled")
	}
	if err := CloseDialer(&netDialer{}); err != nil {
		t.Error(err)
	}
	x := &extraDialer{}
	if d, polls := PollInterval(x); !polls || d != time.Second {
		t.Error("PollInterval is not asked")
	}
	if err := CloseDialer(x); err != io.EOF {
		t.Error("Close is not called")
	}
}

type extraDialer struct{ netDialer }

func (*extraDialer) PollInterval() time.Duration { return time.Second }
func (*extraDialer) Close() error                { return io.EOF }
