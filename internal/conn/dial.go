package conn

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

// The limits of a connection whose settings name none.
const (
	DefaultConnectTimeout = 5 * time.Second
	DefaultReadTimeout    = 10 * time.Second
	DefaultWriteTimeout   = 10 * time.Second
)

// keepAlive is how often the kernel probes a silent connection. It notices a peer that
// vanished (a firewall dropped the connection, a host lost power) within about ten
// probes, also on connections that wait without a read timeout.
const keepAlive = 15 * time.Second

// Dialer makes connections to one Redis. Dial is safe for concurrent use.
type Dialer interface {
	Dial(ctx context.Context) (redis.Conn, error)
}

// Opener makes the dialer of a URI whose scheme it was registered for.
type Opener func(ctx context.Context, uri string, opts Options) (Dialer, error)

// Options are the settings of every connection. All durations are above 0.
type Options struct {
	ConnectTimeout time.Duration // the whole of a Dial: name lookup, TCP, TLS and greeting
	ReadTimeout    time.Duration // one reply
	WriteTimeout   time.Duration // one command
	TLS            *tls.Config   // nil unless the scheme wants TLS
	Namespace      string

	// Login reads user and password at each dial, in place of those of the URI; nil: the URI's hold.
	Login func() (user, password string, err error)
}

// Server returns the dialer of one server. The URI is one of redis://, rediss:// or unix://.
func (o Options) Server(uri string) (Dialer, error) {
	t, err := parseURI(uri)
	if err != nil {
		return nil, err
	}
	return o.dialer(t), nil
}

func (o Options) dialer(t target) *netDialer {
	d := &netDialer{target: t, opts: o}
	d.opts.TLS = nil
	if t.tls {
		d.opts.TLS = o.TLS.Clone()
		d.opts.TLS.ServerName = t.host
	}
	return d
}

// Config is the part of the settings that says where Redis is and how to
// talk to it. A timeout that is zero or negative means its default.
type Config struct {
	URI, Namespace                            string
	URIFile, PasswordFile                     string // "": none; user and password are read from them at each dial
	CAPath, CertPath, KeyPath                 string
	SkipVerify                                bool
	ConnectTimeout, ReadTimeout, WriteTimeout time.Duration
}

func (c Config) Options() Options {
	or := func(d, fallback time.Duration) time.Duration {
		if d <= 0 {
			return fallback
		}
		return d
	}
	return Options{
		ConnectTimeout: or(c.ConnectTimeout, DefaultConnectTimeout),
		ReadTimeout:    or(c.ReadTimeout, DefaultReadTimeout),
		WriteTimeout:   or(c.WriteTimeout, DefaultWriteTimeout),
		Namespace:      c.Namespace,
		Login:          c.login(),
	}
}

// NewDialer returns the Dialer of cfg.URI. It asks openers first, by scheme in
// lower case, so a program can also take over a scheme we know. It reads the certificate
// files only for schemes that can use them: the same settings may
// serve redis:// on a laptop and rediss:// in production.
func NewDialer(ctx context.Context, cfg Config, openers map[string]Opener) (Dialer, error) {
	scheme, _, _ := strings.Cut(strings.TrimSpace(cfg.URI), ":")
	scheme = strings.ToLower(scheme)
	open := openers[scheme]
	if open == nil {
		return newNetDialer(cfg, openers)
	}
	opts := cfg.Options()
	var err error
	if opts.TLS, err = tlsConfig(cfg); err != nil {
		return nil, err
	}
	return open(ctx, cfg.URI, opts)
}

func newNetDialer(cfg Config, openers map[string]Opener) (Dialer, error) {
	t, err := parseURI(cfg.URI)
	var unknown *unknownSchemeError
	if errors.As(err, &unknown) {
		return nil, explainScheme(unknown.scheme, openers)
	}
	if err != nil {
		return nil, err
	}
	opts := cfg.Options()
	if t.tls {
		if opts.TLS, err = tlsConfig(cfg); err != nil {
			return nil, err
		}
	}
	return opts.dialer(t), nil
}

// explainScheme lists the schemes there are. For a scheme that this module offers
// in another package it says how to get it.
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

// PollInterval returns how often to look into the queues of a server that cannot
// notify us of changes, and whether d's server is one.
func PollInterval(d Dialer) (time.Duration, bool) {
	p, ok := d.(interface{ PollInterval() time.Duration })
	if !ok {
		return 0, false
	}
	return p.PollInterval(), true
}

// CloseDialer closes a Dialer that can be closed.
func CloseDialer(d Dialer) error {
	if c, ok := d.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// netDialer dials one server over TCP, TLS or a Unix socket.
type netDialer struct {
	target target
	opts   Options // TLS is nil for a plain connection
}

// Address returns where a dialer connects to: host and port, or the path of a socket. It is "" for one that may connect elsewhere the
// next time.
func Address(d Dialer) string {
	if d, ok := d.(*netDialer); ok {
		return d.target.addr
	}
	return ""
}

// Dial connects, shakes hands, and sends AUTH, SELECT and PING in one round trip.
// A server that wants a password, is loading or refuses us then answers the PING so. The
// error is explained here, and does not come with the first command.
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
	// redigo sets its own deadlines at each command. To end a pending read with the
	// context, close its connection.
	stop := context.AfterFunc(dctx, func() { _ = nc.Close() })
	err = d.greet(c)
	if !stop() && dctx.Err() != nil {
		err = d.explainGreeting(ctx, dctx.Err())
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return watched(c, nc, d.opts.WriteTimeout), nil
}

func (d *netDialer) greet(c redis.Conn) error {
	t := d.target
	if d.opts.Login != nil {
		var err error
		if t.user, t.password, err = d.opts.Login(); err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		d = &netDialer{t, d.opts} // whose errors name the user
	}
	var sent []string
	send := func(cmd string, args ...any) {
		_ = c.Send(cmd, args...) // into a buffer; Flush returns the error
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
			if cmd == "PING" && Classify(err) == KindNoPerm {
				continue // we are connected; the permissions are checked elsewhere
			}
			return d.explainReply(cmd, reply)
		}
	}
	return nil
}
