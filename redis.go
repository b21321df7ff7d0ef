package goworker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// keepAlive is how often the kernel probes a silent connection. A peer that
// vanished (a firewall that forgot us, a host that lost power) is noticed within
// about ten probes, also on connections that wait without a read timeout.
const keepAlive = 15 * time.Second

// A Dialer makes connections to one Redis. Dial is called from several
// goroutines at once; each call returns a new connection that is authenticated,
// has its database selected and is ready for commands. Its errors are sentences
// without passwords.
//
// A Dialer may have two more methods:
//   - Close() error: called once, when the daemon that uses it is closed and all
//     its connections are.
//   - PollInterval() time.Duration: says that its server cannot tell clients of
//     changed keys, so that the daemon does not try and looks into its queues at
//     this interval instead (the embedded Redis answers 20 ms).
type Dialer interface {
	Dial(ctx context.Context) (redis.Conn, error)
}

// DialerFunc is a function that is a Dialer.
type DialerFunc func(ctx context.Context) (redis.Conn, error)

// Dial calls f.
func (f DialerFunc) Dial(ctx context.Context) (redis.Conn, error) { return f(ctx) }

// An Opener makes the Dialer of a URI whose scheme it was registered for. It is
// given the URI as the user wrote it and must not put its password into an
// error. It need not dial: an unreachable server is the error of Dial.
type Opener func(ctx context.Context, uri string, opts DialOptions) (Dialer, error)

// DialOptions is what the settings say about every connection.
type DialOptions struct {
	ConnectTimeout time.Duration // the whole of a Dial: name lookup, TCP, TLS and greeting; > 0
	ReadTimeout    time.Duration // one reply; > 0
	WriteTimeout   time.Duration // one command; > 0
	// TLS holds the CA, client certificate and verification settings for a scheme
	// that wants TLS. An Opener's is never nil; Clone it and set ServerName before use.
	TLS *tls.Config
	// Namespace is what every key begins with, its colon included.
	Namespace string
}

// Server returns the Dialer of one server, as these options say, for an Opener
// that knows several. The URI is one of redis://, rediss:// or unix://; the errors
// of both are those of a daemon with that URI.
func (o DialOptions) Server(uri string) (Dialer, error) {
	t, err := parseURI(uri)
	if err != nil {
		return nil, err
	}
	return o.dialer(t), nil
}

func (o DialOptions) dialer(t target) *netDialer {
	d := &netDialer{target: t, opts: o}
	d.opts.TLS = nil
	if t.tls {
		d.opts.TLS = o.TLS.Clone()
		d.opts.TLS.ServerName = t.host
	}
	return d
}

// dialConfig is the part of the settings that says where Redis is and how to
// talk to it. A timeout that is zero or negative means its default.
type dialConfig struct {
	uri, namespace                            string
	caPath, certPath, keyPath                 string
	skipVerify                                bool
	connectTimeout, readTimeout, writeTimeout time.Duration
}

func (c dialConfig) options() DialOptions {
	or := func(d, fallback time.Duration) time.Duration {
		if d <= 0 {
			return fallback
		}
		return d
	}
	return DialOptions{
		ConnectTimeout: or(c.connectTimeout, DefaultConnectTimeout),
		ReadTimeout:    or(c.readTimeout, DefaultReadTimeout),
		WriteTimeout:   or(c.writeTimeout, DefaultWriteTimeout),
		Namespace:      c.namespace,
	}
}

// newDialer returns the Dialer of cfg.uri. openers is asked first, by scheme in
// lower case, so a program can also take over a scheme we know. The certificate
// files are read only for schemes that can use them: one set of settings may
// serve redis:// on a laptop and rediss:// in production.
func newDialer(ctx context.Context, cfg dialConfig, openers map[string]Opener) (Dialer, error) {
	scheme, _, _ := strings.Cut(strings.TrimSpace(cfg.uri), ":")
	scheme = strings.ToLower(scheme)
	open := openers[scheme]
	if open == nil {
		return newNetDialer(cfg, openers)
	}
	opts := cfg.options()
	var err error
	if opts.TLS, err = tlsConfig(cfg); err != nil {
		return nil, err
	}
	return open(ctx, cfg.uri, opts)
}

func newNetDialer(cfg dialConfig, openers map[string]Opener) (Dialer, error) {
	t, err := parseURI(cfg.uri)
	var unknown *unknownSchemeError
	if errors.As(err, &unknown) {
		return nil, explainScheme(unknown.scheme, openers)
	}
	if err != nil {
		return nil, err
	}
	opts := cfg.options()
	if t.tls {
		if opts.TLS, err = tlsConfig(cfg); err != nil {
			return nil, err
		}
	}
	return opts.dialer(t), nil
}

// explainScheme says which schemes there are, and for those this module offers
// elsewhere how to get them.
func explainScheme(scheme string, openers map[string]Opener) error {
	switch scheme {
	case "embedded":
		return notLinked("the embedded Redis", scheme, "embedded")
	case "redis+sentinel", "rediss+sentinel", "redis-sentinel", "rediss-sentinel":
		return notLinked("the way by Sentinels", scheme, "sentinel")
	case "redis+cluster", "rediss+cluster", "redis-cluster", "rediss-cluster":
		return notLinked("the way into a Redis Cluster", scheme, "cluster")
	}
	known := slices.Clone(knownSchemes)
	for s := range openers {
		if !slices.Contains(known, s) {
			known = append(known, s)
		}
	}
	slices.Sort(known)
	return fmt.Errorf("redis: the scheme %q of the Redis URI is unknown; there are %s", scheme, strings.Join(known, ", "))
}

func notLinked(what, scheme, pkg string) error {
	return fmt.Errorf(`redis: %s is not linked into this program; import "github.com/goworker/goworker/%s" `+
		`and call goworker.RegisterDialer("%s", %s.Open) before Work`, what, pkg, scheme, pkg)
}

// pollInterval returns how often to look into the queues of a server that cannot
// tell us of changes, and whether d's server is one.
func pollInterval(d Dialer) (time.Duration, bool) {
	p, ok := d.(interface{ PollInterval() time.Duration })
	if !ok {
		return 0, false
	}
	return p.PollInterval(), true
}

// closeDialer closes a Dialer that can be closed.
func closeDialer(d Dialer) error {
	if c, ok := d.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// netDialer dials one server over TCP, TLS or a Unix socket.
type netDialer struct {
	target target
	opts   DialOptions // TLS is nil for a plain connection
}

// Dial connects, shakes hands, and in one round trip sends AUTH, SELECT and PING.
// The PING makes a server that wants a password, is loading or refuses us say so
// here, where it can be explained, and not at the first command.
func (d *netDialer) Dial(ctx context.Context) (redis.Conn, error) {
	dctx, cancel := context.WithTimeout(ctx, d.opts.ConnectTimeout)
	defer cancel()
	nc, err := (&net.Dialer{KeepAlive: keepAlive}).DialContext(dctx, d.target.network, d.target.addr)
	if err != nil {
		return nil, d.explainConnect(ctx, err)
	}
	if d.opts.TLS != nil {
		tc := tls.Client(nc, d.opts.TLS)
		if err := tc.HandshakeContext(dctx); err != nil {
			_ = nc.Close()
			return nil, d.explainTLS(ctx, err)
		}
		nc = tc
	}
	c := redis.NewConn(nc, d.opts.ReadTimeout, d.opts.WriteTimeout)
	// redigo sets its own deadlines at each command, so an end of the context can
	// only reach a pending read by closing what it reads from.
	stop := context.AfterFunc(dctx, func() { _ = nc.Close() })
	err = d.greet(c)
	if !stop() && dctx.Err() != nil {
		err = d.explainGreeting(ctx, dctx.Err())
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (d *netDialer) greet(c redis.Conn) error {
	t := d.target
	var sent []string
	send := func(cmd string, args ...any) {
		_ = c.Send(cmd, args...) // into a buffer; Flush reports what goes wrong
		sent = append(sent, cmd)
	}
	switch {
	case t.user != "":
		send("AUTH", t.user, t.password)
	case t.password != "":
		send("AUTH", t.password)
	}
	if t.db != 0 {
		send("SELECT", t.db)
	}
	send("PING")
	if err := c.Flush(); err != nil {
		return d.explainGreeting(context.Background(), err)
	}
	for _, cmd := range sent {
		if _, err := c.Receive(); err != nil {
			var reply redis.Error
			if !errors.As(err, &reply) {
				return d.explainGreeting(context.Background(), err)
			}
			if cmd == "PING" && classify(err) == kindNoPerm {
				continue // we are in; which commands this user needs is not asked here
			}
			return d.explainReply(cmd, reply)
		}
	}
	return nil
}
