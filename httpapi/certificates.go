package httpapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificates are those of a Server, read from files, and again when one of them has changed. New ones that cannot be read leave
// the old ones in use.
type certificates struct {
	certificate, key, authority string // files; no authority: clients need no certificate
	protocols                   []string
	log                         *slog.Logger

	mu     sync.Mutex
	looked time.Time
	seen   [3]time.Time // when each file was last changed
	config *tls.Config
	failed string // what the last reading said
}

// rereadEvery is how often the files are looked at, while clients connect.
const rereadEvery = time.Second

// newCertificates reads the files for the first time.
func newCertificates(certificate, key, authority string, h2 bool, log *slog.Logger) (*certificates, error) {
	if certificate == "" || key == "" {
		if certificate == "" && key == "" && authority == "" {
			return nil, nil
		}
		return nil, errors.New("TLS needs the files of a certificate and of its key; give both")
	}
	c := &certificates{certificate: certificate, key: key, authority: authority, protocols: []string{"http/1.1"}, log: log}
	if h2 {
		c.protocols = []string{"h2", "http/1.1"}
	}
	if err := c.read(c.times()); err != nil {
		return nil, err
	}
	return c, nil
}

// server returns the configuration of a listener, which asks for the present one at each connection.
func (c *certificates) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: c.protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil },
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.current().Certificates[0], nil
		},
	}
}

// current returns the configuration by the files as they are.
func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) < rereadEvery {
		return c.config
	}
	c.looked = now
	seen := c.times()
	if seen == c.seen {
		return c.config
	}
	switch err := c.read(seen); {
	case err == nil:
		c.failed = ""
		c.log.Info("the certificates have changed and were read again", "certificate", c.certificate)
	case err.Error() != c.failed:
		c.failed = err.Error()
		c.log.Warn("the certificates have changed and cannot be read, so the old ones stay in use", "error", err)
	}
	return c.config
}

func (c *certificates) times() (seen [3]time.Time) {
	for i, name := range []string{c.certificate, c.key, c.authority} {
		if info, err := os.Stat(name); err == nil {
			seen[i] = info.ModTime()
		}
	}
	return seen
}

func (c *certificates) read(seen [3]time.Time) error {
	pair, err := tls.LoadX509KeyPair(c.certificate, c.key)
	if err != nil {
		return fmt.Errorf("reading the certificate %s and its key %s: %w", c.certificate, c.key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: c.protocols, Certificates: []tls.Certificate{pair}}
	if c.authority != "" {
		text, err := os.ReadFile(c.authority)
		if err != nil {
			return fmt.Errorf("reading the authority of clients' certificates: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("the file %s has no certificate of an authority in PEM", c.authority)
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	c.config, c.seen = config, seen
	return nil
}
