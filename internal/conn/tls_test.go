package conn

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

var loopback = []net.IP{net.ParseIP("127.0.0.1")}

func TestDialTLS(t *testing.T) {
	t.Parallel()
	ca, other := redistest.NewAuthority(t), redistest.NewAuthority(t)
	ca.Issue(t, "server", &x509.Certificate{IPAddresses: loopback, DNSNames: []string{"localhost"}})
	ca.Issue(t, "worker", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	other.Issue(t, "worker", &x509.Certificate{})
	addr, server := ca.Start(t, "server", "no")
	plain := server.Addr
	strict, _ := ca.Start(t, "server", "yes")
	_, port, _ := net.SplitHostPort(addr)

	withCA := func(c *Config) { c.CAPath = ca.Crt("ca") }
	otherCA := func(c *Config) { c.CAPath = other.Crt("ca") }
	client := func(c *Config) { c.CertPath, c.KeyPath = ca.Crt("worker"), ca.Key("worker") }
	stranger := func(c *Config) { c.CertPath, c.KeyPath = other.Crt("worker"), other.Key("worker") }
	skip := func(c *Config) { c.SkipVerify = true }
	type changes = []func(*Config)

	for name, tc := range map[string]struct {
		uri    string
		change changes
		want   string // "" for success
	}{
		"ca":                              {"rediss://" + addr, changes{withCA}, ""},
		"valkeys, by name, with database": {"valkeys://localhost:" + port + "/2", changes{withCA}, ""},
		"skip verify":                     {"rediss://" + addr, changes{skip}, ""},
		"skip verify with a ca":           {"rediss://" + addr, changes{otherCA, skip}, ""},
		"client certificate":              {"rediss://" + strict, changes{withCA, client}, ""},
		"skip verify, client certificate": {"rediss://" + strict, changes{skip, client}, ""},
		"all three":                       {"rediss://" + strict, changes{otherCA, skip, client}, ""},
		"files of no use to plain redis":  {"redis://" + plain, changes{func(c *Config) { c.CAPath = "/nowhere" }}, ""},
		"unknown authority": {"rediss://" + addr, nil,
			"redis: the certificate of " + addr + " is signed by an authority unknown here; give its CA file with -tls-cert (TLSCertPath)"},
		"wrong authority": {"rediss://" + addr, changes{otherCA}, "is signed by an authority unknown here"},
		"client certificate missing": {"rediss://" + strict, changes{withCA},
			"if it asks for a client certificate, give one with -tls-client-cert and -tls-client-key (TLSClientCertPath, TLSClientKeyPath)"},
		"client certificate refused": {"rediss://" + strict, changes{withCA, stranger}, "it may not trust the client certificate of -tls-client-cert (TLSClientCertPath)"},
		"plain to tls":               {"redis://u:s3cret@" + addr, nil, "redis: " + addr + " closed the connection without an answer; write rediss:// if it speaks TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := dial(t, tc.uri, tc.change...)
			if tc.want != "" {
				wantSentence(t, err, tc.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Do("ECHO", "x"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestDialTLSCertificates(t *testing.T) {
	t.Parallel()
	ca := redistest.NewAuthority(t)
	ca.Issue(t, "elsewhere", &x509.Certificate{DNSNames: []string{"cache.example.com"}})
	ca.Issue(t, "expired", &x509.Certificate{IPAddresses: loopback,
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)})
	ca.Issue(t, "nameless", &x509.Certificate{})
	for name, want := range map[string]string{
		"elsewhere": "is for cache.example.com, not for 127.0.0.1; connect by a name it holds",
		"expired":   "is outside its period of validity (2020-01-01 to 2021-01-01)",
		"nameless":  "is for no name at all, not for 127.0.0.1",
	} {
		addr, _ := ca.Start(t, name, "no")
		_, err := dial(t, "rediss://"+addr, func(c *Config) { c.CAPath = ca.Crt("ca") })
		wantSentence(t, err, want)
	}
}

func TestDialTLSStrangers(t *testing.T) {
	t.Parallel()
	addr := stranger(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = c.Write([]byte("-ERR unknown command\r\n"))
	})
	_, err := dial(t, "rediss://u:s3cret@"+addr)
	wantSentence(t, err, "redis: the server at "+addr+" does not speak TLS; write redis:// instead of rediss://, or give its tls-port")
	addr = stranger(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) })
	_, err = dial(t, "rediss://u:s3cret@"+addr)
	wantSentence(t, err, "redis: "+addr+" closed the connection in the TLS handshake")
}

func TestTLSConfig(t *testing.T) {
	t.Parallel()
	ca := redistest.NewAuthority(t)
	text := filepath.Join(ca.Dir, "text")
	if err := os.WriteFile(text, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca.Issue(t, "a", &x509.Certificate{})
	ca.Issue(t, "b", &x509.Certificate{})
	for name, tc := range map[string]struct {
		cfg  Config
		want []string
	}{
		"no ca":       {Config{CAPath: "/no/ca.crt"}, []string{"TLSCertPath, -tls-cert", "/no/ca.crt"}},
		"not pem":     {Config{CAPath: text}, []string{text, "holds no certificate in PEM form"}},
		"cert alone":  {Config{CertPath: ca.Crt("a")}, []string{"needs both -tls-client-cert and -tls-client-key (TLSClientCertPath, TLSClientKeyPath)"}},
		"key alone":   {Config{KeyPath: ca.Key("a")}, []string{"needs both -tls-client-cert and -tls-client-key (TLSClientCertPath, TLSClientKeyPath)"}},
		"no cert":     {Config{CertPath: "/no/c", KeyPath: ca.Key("a")}, []string{"TLSClientCertPath", "/no/c"}},
		"no key":      {Config{CertPath: ca.Crt("a"), KeyPath: "/no/k"}, []string{"TLSClientKeyPath", "/no/k"}},
		"not a pair":  {Config{CertPath: ca.Crt("a"), KeyPath: ca.Key("b")}, []string{ca.Crt("a"), ca.Key("b"), "cannot be used together"}},
		"not pem key": {Config{CertPath: ca.Crt("a"), KeyPath: text}, []string{text, "cannot be used together"}},
	} {
		_, err := tlsConfig(tc.cfg)
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", name, err, want)
			}
		}
		tc.cfg.URI = "rediss://cache"
		if _, err := NewDialer(t.Context(), tc.cfg, nil); err == nil {
			t.Errorf("%s: newDialer takes it", name)
		}
	}
	c, err := tlsConfig(Config{CAPath: ca.Crt("ca"), CertPath: ca.Crt("a"), KeyPath: ca.Key("a"), SkipVerify: true})
	if err != nil || c.MinVersion != tls.VersionTLS12 || !c.InsecureSkipVerify || c.RootCAs == nil || len(c.Certificates) != 1 {
		t.Errorf("settings do not compose: %+v, %v", c, err)
	}
}

// A server that closes a connection says so first where it speaks TLS. It is seen without asking it.
func TestHungUp(t *testing.T) {
	t.Parallel()
	ca := redistest.NewAuthority(t)
	ca.Issue(t, "server", &x509.Certificate{IPAddresses: loopback})
	addr, server := ca.Start(t, "server", "no")
	other := server.Dial(t)
	for name, uri := range map[string]string{"plain": "redis://" + server.Addr, "TLS": "rediss://" + addr} {
		c, err := dial(t, uri, func(c *Config) { c.CAPath = ca.Crt("ca") })
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := c.Do("PING"); err != nil || HungUp(c) {
				t.Errorf("%s: a connection that lives: %v", name, err)
			}
		}
		if _, err := other.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, time.Minute, name+": the end is seen", func() bool { return HungUp(c) })
	}
}
