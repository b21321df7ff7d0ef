package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// dialError is a sentence about why there is no connection. The cause is kept for
// errors.Is and errors.As. Its text, which may be long or quote what was sent, is
// not part of the sentence.
type dialError struct {
	text  string
	cause error
}

func (e *dialError) Error() string { return e.text }
func (e *dialError) Unwrap() error { return e.cause }

// Exception is the name that failure tools know.
func (e *dialError) Exception() string { return "goworker.dialError" }

func sentence(cause error, format string, args ...any) error {
	return &dialError{fmt.Sprintf(format, args...), cause}
}

const otherAddress = "or set another address in the URI or REDIS_URL"

func (d *netDialer) explainConnect(ctx context.Context, err error) error {
	at := d.target.addr
	if err := ended(ctx); err != nil {
		return sentence(err, "redis: connecting to %s was given up because its caller stopped waiting", at)
	}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return sentence(err, "redis: there is no host named %s; correct the name in the URI or REDIS_URL", d.target.host)
	case errors.As(err, &dns):
		return sentence(err, "redis: the name %s could not be looked up; name resolution does not answer", d.target.host)
	case isTimeout(err):
		return d.noAnswer(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return sentence(err, "redis: nothing listens at %s; start Redis there %s", at, otherAddress)
	case errors.Is(err, fs.ErrNotExist):
		return sentence(err, "redis: there is no socket %s; start Redis with unixsocket set to it %s", at, otherAddress)
	case errors.Is(err, fs.ErrPermission):
		return sentence(err, "redis: this user may not open %s; see unixsocketperm of the server", at)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return sentence(err, "redis: there is no route to %s; check the network %s", at, otherAddress)
	}
	return sentence(err, "redis: no connection to %s: %v", at, err)
}

func (d *netDialer) noAnswer(cause error) error {
	return sentence(cause, "redis: no answer from %s within %s; see that the server runs and no firewall is between, %s", d.target.addr, short(d.opts.ConnectTimeout), otherAddress)
}

// explainTLS explains a handshake that failed.
func (d *netDialer) explainTLS(ctx context.Context, err error) error {
	at := d.target.addr
	if ended(ctx) != nil {
		return d.explainConnect(ctx, err)
	}
	var (
		plain   tls.RecordHeaderError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &plain):
		return sentence(err, "redis: the server at %s does not speak TLS; write redis:// instead of rediss://, or give its tls-port", at)
	case errors.As(err, &unknown):
		return sentence(err, "redis: the certificate of %s is signed by an authority unknown here; give its CA file with -tls-cert (TLSCertPath)", at)
	case errors.As(err, &name):
		return sentence(err, "redis: the certificate of %s is for %s, not for %s; connect by a name it holds", at, certNames(name.Certificate), d.target.host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return sentence(err, "redis: the certificate of %s is outside its period of validity (%s to %s); renew it or set the clock", at,
			invalid.Cert.NotBefore.Format(time.DateOnly), invalid.Cert.NotAfter.Format(time.DateOnly))
	case isTimeout(err):
		// A plain Redis waits for the end of a line, which a TLS greeting may not have.
		return sentence(err, "redis: no TLS answer from %s within %s; write redis:// instead of rediss:// if it speaks plain Redis", at, short(d.opts.ConnectTimeout))
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return sentence(err, "redis: %s closed the connection in the TLS handshake; write redis:// instead of rediss:// if it speaks plain Redis", at)
	}
	if alert := d.explainAlert(err); alert != nil {
		return alert
	}
	return sentence(err, "redis: the TLS handshake with %s failed: %v", at, err)
}

// explainAlert explains a TLS alert with which the server refused us.
func (d *netDialer) explainAlert(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return nil
	}
	return d.refusedTLS(err, op.Err.Error())
}

func (d *netDialer) refusedTLS(err error, reason string) error {
	if d.opts.TLS == nil || len(d.opts.TLS.Certificates) == 0 {
		return sentence(err, "redis: %s refused the TLS connection (%s); if it asks for a client certificate, give one with -tls-client-cert and -tls-client-key (TLSClientCertPath, TLSClientKeyPath)", d.target.addr, reason)
	}
	return sentence(err, "redis: %s refused the TLS connection (%s); it may not trust the client certificate of -tls-client-cert (TLSClientCertPath)", d.target.addr, reason)
}

// ended returns the error of a context that is over. The sockets' timers may be a moment ahead of the
// context's own.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// explainGreeting explains a connection that broke before the server answered.
func (d *netDialer) explainGreeting(ctx context.Context, err error) error {
	at := d.target.addr
	if err := ended(ctx); err != nil {
		return sentence(err, "redis: %s accepts connections but did not answer before the call's context ended; the server hangs or is overloaded", at)
	}
	if alert := d.explainAlert(err); alert != nil {
		return alert
	}
	cut := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case isTimeout(err):
		return sentence(err, "redis: %s accepts connections but does not answer within %s; the server hangs or is overloaded", at, short(min(d.opts.ConnectTimeout, d.opts.ReadTimeout)))
	case cut && d.opts.TLS != nil:
		// With TLS 1.3 the server refuses a client certificate after the handshake, and
		// the refusal may be lost if we write at that moment.
		return d.refusedTLS(err, "it closed it without an answer")
	case cut:
		return sentence(err, "redis: %s closed the connection without an answer; write rediss:// if it speaks TLS", at)
	case strings.HasPrefix(err.Error(), "redigo: "):
		return sentence(err, "redis: what %s answered is not the Redis protocol; check the address in the URI or REDIS_URL", at)
	}
	return sentence(err, "redis: the connection to %s broke before the server answered: %v", at, err)
}

// explainReply explains the server's refusal of one of the greeting's commands.
func (d *netDialer) explainReply(cmd string, reply redis.Error) error {
	t := d.target
	if cmd == "AUTH" && strings.HasPrefix(string(reply), "ERR unknown command") {
		// The reply quotes the arguments: keep the password out of the error chain.
		return sentence(redis.Error("ERR unknown command 'AUTH'"), "redis: %s does not know AUTH; take user and password out of the URI", t.addr)
	}
	who := "the default user"
	if t.user != "" {
		who = "user " + t.user
	}
	text := string(reply)
	switch code := replyCode(reply); {
	case code == "WRONGPASS" && t.user == "":
		return sentence(reply, "redis: wrong password at %s; set it in the URI or REDIS_URL", t.addr)
	case code == "WRONGPASS":
		return sentence(reply, "redis: wrong password for user %s at %s; set it in the URI or REDIS_URL", t.user, t.addr)
	case code == "NOAUTH":
		return sentence(reply, "redis: %s wants a password; set it in the URI or REDIS_URL, as in redis://user:password@host", t.addr)
	case code == "NOPERM":
		return sentence(reply, "redis: %s may not use %s at %s; add the ACL rule +%s", who, cmd, t.addr, strings.ToLower(cmd))
	case code == "DENIED":
		return sentence(reply, "redis: %s is in protected mode and serves its own host only; give it a password and a bind address", t.addr)
	case code == "LOADING":
		return sentence(reply, "redis: %s is still loading its data", t.addr)
	case cmd == "AUTH" && (strings.Contains(text, "without any password configured") || strings.Contains(text, "no password is set")):
		return sentence(reply, "redis: %s has no password, and the URI gives one; take it out of the URI or REDIS_URL", t.addr)
	case cmd == "SELECT" && strings.Contains(text, "out of range"):
		return sentence(reply, "redis: %s has no database %d; choose a smaller one or raise the server's databases setting", t.addr, t.db)
	case cmd == "SELECT" && strings.Contains(text, "cluster"):
		return sentence(reply, "redis: %s is a cluster, which has database 0 only, and the URI asks for %d", t.addr, t.db)
	case strings.Contains(text, "max number of clients"):
		return sentence(reply, "redis: %s has no connection left; raise its maxclients setting or lower -connections", t.addr)
	}
	if t.password != "" {
		reply = redis.Error(strings.ReplaceAll(text, t.password, "***"))
	}
	return sentence(reply, "redis: %s refused %s: %s", t.addr, cmd, reply)
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &network) && network.Timeout()
}

func certNames(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name at all"
	}
	return strings.Join(names, ", ")
}

// short prints a duration as a person writes it: 5s, not 5.0s or 5m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}
