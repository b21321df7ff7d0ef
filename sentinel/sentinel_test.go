package sentinel_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/sentinel"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncLoopLogger).processQueue"),
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncAdaptiveLogger).processQueue"),
	)
}

var opts = goworker.DialOptions{
	ConnectTimeout: redistest.ElectionLimit, ReadTimeout: redistest.ElectionLimit, WriteTimeout: 10 * time.Second,
	TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Namespace: "resque:",
}

func open(t *testing.T, uri string, opts goworker.DialOptions) goworker.Dialer {
	t.Helper()
	d, err := sentinel.Open(t.Context(), uri, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.(interface{ Close() error }).Close() })
	return d
}

// dialed says which of the fleet's servers the dialer leads to, and to which
// database.
func dialed(t *testing.T, d goworker.Dialer) string {
	t.Helper()
	c, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	info, err := c.Do("CLIENT", "INFO")
	if err != nil {
		t.Fatal(err)
	}
	var laddr, db string
	for _, field := range strings.Fields(fmt.Sprintf("%s", info)) {
		if v, ok := strings.CutPrefix(field, "laddr="); ok {
			laddr = v
		}
		if v, ok := strings.CutPrefix(field, "db="); ok {
			db = v
		}
	}
	return laddr + "/" + db
}

func TestOpen(t *testing.T) {
	t.Parallel()
	f := redistest.StartSentinel(t)
	a, b := f.Sentinels[0].Addr, f.Sentinels[1].Addr
	dead := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	master := f.Redis[0].Addr

	t.Run("spellings", func(t *testing.T) {
		for uri, db := range map[string]string{
			"redis+sentinel://" + a + "," + b + "/mymaster":                   "0",
			"REDIS+sentinel://" + a + "/mymaster/":                            "0",
			"redis+sentinel://" + a + "/mymaster/3":                           "3",
			"redis+sentinel://" + a + "/mymaster?db=3":                        "3",
			"redis-sentinel://" + a + "," + b + "/3#mymaster":                 "3",
			"redis-sentinel://" + a + "/3?sentinelMasterId=mymaster":          "3",
			"redis-sentinel://" + a + "?master=mymaster":                      "0",
			"redis+sentinel://" + dead + "," + a + "/mymaster":                "0",
			"redis+sentinel://" + a + "?service_name=mymaster&db=3":           "3",
			"redis+sentinel://" + dead + "," + dead + "," + b + "/m%79master": "0",
		} {
			if got := dialed(t, open(t, uri, opts)); got != master+"/"+db {
				t.Errorf("%s leads to %s, want %s/%s", uri, got, master, db)
			}
		}
	})

	t.Run("errors of Dial", func(t *testing.T) {
		for uri, want := range map[string]string{
			"redis+sentinel://:s3cret@" + dead + "/mymaster":                               "redis: no master was found by way of the Sentinels of mymaster; none of them answers: redis: nothing listens at " + dead,
			"redis+sentinel://:s3cret@" + a + "/other":                                     "redis: no master was found by way of the Sentinels of other: the Sentinel at " + a + ` watches no master named "other"`,
			"redis+sentinel://:s3cret@" + a + "/mymaster":                                  "redis: " + master + " has no password, and the URI gives one",
			"redis+sentinel://" + a + "/mymaster/99":                                       "redis: " + master + " has no database 99",
			"redis+sentinel://" + a + "/mymaster?sentinel_user=u&sentinel_password=s3cret": "redis: no master was found by way of the Sentinels of mymaster: redis: wrong password for user u at " + a,
		} {
			begin := time.Now()
			_, err := open(t, uri, opts).Dial(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v; want %q", uri, err, want)
			}
			if time.Since(begin) >= opts.ConnectTimeout {
				t.Errorf("%s: it was retried without need", uri)
			}
		}
	})
}

// A Sentinel that knows less than the others leads to a replica: it is refused, and
// another Sentinel asked.
func TestStaleSentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", strings.Replace(master.Addr, ":", " ", 1))
	stale, current := fakeSentinel(t, replica.Addr), fakeSentinel(t, master.Addr)
	hasty := opts
	hasty.ConnectTimeout = 3 * time.Second
	var err error
	redistest.Eventually(t, time.Minute, "the last attempt in its time reaches the Sentinel", func() bool {
		_, err = open(t, "redis+sentinel://"+stale+"/m", hasty).Dial(t.Context())
		return err == nil || !strings.Contains(err.Error(), "none of them answers") && err.Error() != context.DeadlineExceeded.Error()
	})
	if want := "redis: " + replica.Addr + ", which the Sentinels give as the master m, is a replica"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
	d := open(t, "redis+sentinel://"+stale+","+current+"/m", opts)
	if got := dialed(t, d); got != master.Addr+"/0" {
		t.Errorf("led to %s, want %s", got, master.Addr)
	}
}

// A stopped master costs a waiting client about as long as the Sentinels need, and
// not its read timeout; the connections to Sentinels that hang are not waited for.
func TestSilentMaster(t *testing.T) {
	t.Parallel()
	f := redistest.StartSentinel(t)
	d := open(t, f.URI(), opts)
	c, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := f.Master(t)
	old.Pause()
	f.Sentinels[2].Pause()
	if _, err := c.Do("PING"); err == nil || os.IsTimeout(err) {
		t.Errorf("a stopped master: %v, want a closed connection", err)
	}
	if got := dialed(t, d); got == old.Addr+"/0" {
		t.Error("still the old master")
	}
	f.Sentinels[2].Resume()
	old.Resume()
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const form = "; write redis+sentinel://user:password@host:26379,host2:26379/master-name/0"
	for uri, want := range map[string]string{
		"redis+sentinel://:s3cret@h":                       "goworker: the Sentinels' URI cannot be used: it does not name the master" + form,
		"redis+sentinel://:s3cret@h/m?timeout=3":           `goworker: the Sentinels' URI cannot be used: it has an unknown parameter "timeout"` + form,
		"redis+sentinel://:s3cret@h/m/x":                   "goworker: the Sentinels' URI cannot be used: its database is not a number from 0" + form,
		"redis+sentinel://:s3cret@h/m/1/2":                 "goworker: the Sentinels' URI cannot be used: after the master's name",
		"redis+sentinel://:s3cret@h/m/1?db=2":              "goworker: the Sentinels' URI cannot be used: after the master's name",
		"redis+sentinel://:s3cret@h,,g/m":                  "goworker: the Sentinels' URI cannot be used: a host is missing" + form,
		"redis+sentinel://h/m?db=1&db=2":                   "goworker: the Sentinels' URI cannot be used: db is given twice" + form,
		"redis+sentinel:h":                                 "goworker: the Sentinels' URI cannot be used: its scheme is not followed by //" + form,
		"redis+sentinel://h/%zz":                           "goworker: the Sentinels' URI cannot be used: its path cannot be read" + form,
		"redis+sentinel://u:s3cret@h:x/m":                  "goworker: the Redis URI redis://u:***@",
		"redis+sentinel://u:s3c/ret@h/m":                   "goworker: the Redis URI redis://u:***@",
		"redis+sentinel://u:s3cret@h/m?sentinel_password=": "",
	} {
		d, err := sentinel.Open(context.Background(), uri, opts)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", uri, err)
			}
			_ = d.(interface{ Close() error }).Close()
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "s3c") {
			t.Errorf("%s: %v; want %q", uri, err, want)
		}
	}
}

// fakeSentinel answers that the master is at an address, whatever it is asked.
func fakeSentinel(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(addr)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c, fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port))
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func answer(c net.Conn, master string) {
	defer c.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := c.Read(buffer)
		if err != nil {
			return
		}
		switch text := string(buffer[:n]); {
		case strings.Contains(text, "PING"):
			_, _ = c.Write([]byte("+PONG\r\n"))
		case strings.Contains(text, "GET-MASTER"):
			_, _ = c.Write([]byte(master))
		default:
			_, _ = c.Write([]byte("*0\r\n"))
		}
	}
}
