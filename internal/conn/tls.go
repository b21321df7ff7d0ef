package conn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
)

// tlsConfig returns the TLS settings of every connection. They compose: a CA file
// adds to the system's authorities, a client certificate is always sent, and
// SkipVerify drops the verification of the server and nothing else.
// The caller sets ServerName.
func tlsConfig(cfg Config) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: cfg.SkipVerify, // the setting asks for it by name
	}
	if cfg.CAPath != "" {
		pem, err := readSetting("the CA certificate (TLSCertPath, -tls-cert)", cfg.CAPath)
		if err != nil {
			return nil, err
		}
		if c.RootCAs, err = x509.SystemCertPool(); err != nil {
			c.RootCAs = x509.NewCertPool() // a system without authorities gets ours alone
		}
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redis: the CA certificate %s (TLSCertPath, -tls-cert) holds no certificate in PEM form", cfg.CAPath)
		}
	}
	if cfg.CertPath == "" && cfg.KeyPath == "" {
		return c, nil
	}
	if cfg.CertPath == "" || cfg.KeyPath == "" {
		return nil, errors.New("redis: a client certificate needs both -tls-client-cert and -tls-client-key (TLSClientCertPath, TLSClientKeyPath), and only one of them is set")
	}
	cert, err := readSetting("the client certificate (TLSClientCertPath, -tls-client-cert)", cfg.CertPath)
	if err != nil {
		return nil, err
	}
	key, err := readSetting("the client key (TLSClientKeyPath, -tls-client-key)", cfg.KeyPath)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("redis: the client certificate %s and key %s cannot be used together: %w", cfg.CertPath, cfg.KeyPath, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// readSetting reads a file that a setting names. The error of os.ReadFile contains the path
// and the reason.
func readSetting(what, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("redis: %s cannot be read: %w", what, err)
	}
	return data, nil
}

// UselessTLS names a setting for TLS that was given for a connection without TLS; "": there is none.
func (cfg Config) UselessTLS() string {
	scheme, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(cfg.URI)), ":")
	if scheme != "redis" && scheme != "valkey" && scheme != "unix" {
		return "" // encrypted, or of a dialer that knows best
	}
	switch {
	case cfg.CAPath != "":
		return "TLSCertPath (-tls-cert)"
	case cfg.CertPath != "":
		return "TLSClientCertPath (-tls-client-cert)"
	case cfg.SkipVerify:
		return "SkipTLSVerify (-insecure-tls)"
	}
	return ""
}
