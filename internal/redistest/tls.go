package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Authority signs certificates and writes them as files.
type Authority struct {
	Dir  string // where the files are
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority of its own, whose certificate is the file ca.crt.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{Dir: t.TempDir()}
	a.cert, a.key = a.Issue(t, "ca", &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// Crt is the path of a certificate.
func (a *Authority) Crt(name string) string { return filepath.Join(a.Dir, name+".crt") }

// Key is the path of its key.
func (a *Authority) Key(name string) string {
	return filepath.Join(a.Dir, name+".key")
}

// Issue signs c, with itself if there is no authority yet, into name.crt and name.key.
func (a *Authority) Issue(t testing.TB, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
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
	must(os.WriteFile(a.Crt(name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(os.WriteFile(a.Key(name), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	cert, err := x509.ParseCertificate(der)
	must(err)
	return cert, key
}

// Args are the command line of a server that speaks TLS at a port with
// the certificate of that name. clients says whether it asks for theirs: yes or no.
func (a *Authority) Args(port int, name, clients string) []string {
	return []string{"--tls-port", strconv.Itoa(port), "--tls-cert-file", a.Crt(name), "--tls-key-file", a.Key(name),
		"--tls-ca-cert-file", a.Crt("ca"), "--tls-auth-clients", clients}
}

// Start starts a server that speaks TLS at one address and plain Redis at its own.
func (a *Authority) Start(t testing.TB, name, clients string) (tlsAddr string, s *Server) {
	t.Helper()
	port := FreePort(t)
	s = Start(t, a.Args(port, name, clients)...)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), s
}
