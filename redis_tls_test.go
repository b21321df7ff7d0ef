package goworker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// authority signs certificates and writes them as files.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

func (a *authority) crt(name string) string { return filepath.Join(a.dir, name+".crt") }
func (a *authority) keyFile(name string) string {
	return filepath.Join(a.dir, name+".key")
}

// issue signs c, with itself if there is no authority yet, into name.crt and name.key.
func (a *authority) issue(t *testing.T, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	must(os.WriteFile(a.crt(name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(os.WriteFile(a.keyFile(name), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	cert, err := x509.ParseCertificate(der)
	must(err)
	return cert, key
}

// server starts a redis-server with the certificate name; its TLS address is returned.
func (a *authority) server(t *testing.T, name, clients string) (tlsAddr, plainAddr string) {
	t.Helper()
	port := fmt.Sprint(redistest.FreePort(t))
	s := redistest.Start(t, "--tls-port", port, "--tls-cert-file", a.crt(name), "--tls-key-file", a.keyFile(name),
		"--tls-ca-cert-file", a.crt("ca"), "--tls-auth-clients", clients)
	return net.JoinHostPort("127.0.0.1", port), s.Addr
}

var loopback = []net.IP{net.ParseIP("127.0.0.1")}

func TestDialTLS(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	ca.issue(t, "server", &x509.Certificate{IPAddresses: loopback, DNSNames: []string{"localhost"}})
	ca.issue(t, "worker", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	other.issue(t, "worker", &x509.Certificate{})
	addr, plain := ca.server(t, "server", "no")
	strict, _ := ca.server(t, "server", "yes")
	_, port, _ := net.SplitHostPort(addr)

	withCA := func(c *dialConfig) { c.caPath = ca.crt("ca") }
	otherCA := func(c *dialConfig) { c.caPath = other.crt("ca") }
	client := func(c *dialConfig) { c.certPath, c.keyPath = ca.crt("worker"), ca.keyFile("worker") }
	stranger := func(c *dialConfig) { c.certPath, c.keyPath = other.crt("worker"), other.keyFile("worker") }
	skip := func(c *dialConfig) { c.skipVerify = true }
	type changes = []func(*dialConfig)

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
		"files of no use to plain redis":  {"redis://" + plain, changes{func(c *dialConfig) { c.caPath = "/nowhere" }}, ""},
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
	ca := newAuthority(t)
	ca.issue(t, "elsewhere", &x509.Certificate{DNSNames: []string{"cache.example.com"}})
	ca.issue(t, "expired", &x509.Certificate{IPAddresses: loopback,
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)})
	ca.issue(t, "nameless", &x509.Certificate{})
	for name, want := range map[string]string{
		"elsewhere": "is for cache.example.com, not for 127.0.0.1; connect by a name it holds",
		"expired":   "is outside its period of validity (2020-01-01 to 2021-01-01)",
		"nameless":  "is for no name at all, not for 127.0.0.1",
	} {
		addr, _ := ca.server(t, name, "no")
		_, err := dial(t, "rediss://"+addr, func(c *dialConfig) { c.caPath = ca.crt("ca") })
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
	ca := newAuthority(t)
	text := filepath.Join(ca.dir, "text")
	if err := os.WriteFile(text, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca.issue(t, "a", &x509.Certificate{})
	ca.issue(t, "b", &x509.Certificate{})
	for name, tc := range map[string]struct {
		cfg  dialConfig
		want []string
	}{
		"no ca":       {dialConfig{caPath: "/no/ca.crt"}, []string{"TLSCertPath, -tls-cert", "/no/ca.crt"}},
		"not pem":     {dialConfig{caPath: text}, []string{text, "holds no certificate in PEM form"}},
		"cert alone":  {dialConfig{certPath: ca.crt("a")}, []string{"needs both -tls-client-cert and -tls-client-key (TLSClientCertPath, TLSClientKeyPath)"}},
		"key alone":   {dialConfig{keyPath: ca.keyFile("a")}, []string{"needs both -tls-client-cert and -tls-client-key (TLSClientCertPath, TLSClientKeyPath)"}},
		"no cert":     {dialConfig{certPath: "/no/c", keyPath: ca.keyFile("a")}, []string{"TLSClientCertPath", "/no/c"}},
		"no key":      {dialConfig{certPath: ca.crt("a"), keyPath: "/no/k"}, []string{"TLSClientKeyPath", "/no/k"}},
		"not a pair":  {dialConfig{certPath: ca.crt("a"), keyPath: ca.keyFile("b")}, []string{ca.crt("a"), ca.keyFile("b"), "cannot be used together"}},
		"not pem key": {dialConfig{certPath: ca.crt("a"), keyPath: text}, []string{text, "cannot be used together"}},
	} {
		_, err := tlsConfig(tc.cfg)
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", name, err, want)
			}
		}
		tc.cfg.uri = "rediss://cache"
		if _, err := newDialer(t.Context(), tc.cfg, nil); err == nil {
			t.Errorf("%s: newDialer takes it", name)
		}
	}
	c, err := tlsConfig(dialConfig{caPath: ca.crt("ca"), certPath: ca.crt("a"), keyPath: ca.keyFile("a"), skipVerify: true})
	if err != nil || c.MinVersion != tls.VersionTLS12 || !c.InsecureSkipVerify || c.RootCAs == nil || len(c.Certificates) != 1 {
		t.Errorf("settings do not compose: %+v, %v", c, err)
	}
}
