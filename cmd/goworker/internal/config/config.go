// Package config reads the settings of goworker serve: from a YAML file, from lmstfy's TOML file, from the environment and from flags.
package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"
)

// Config has all settings of a server.
type Config struct {
	Redis           string // URI
	ResqueNamespace string
	RedisCA         string
	RedisCert       string
	RedisKey        string

	Listen, AdminListen          string
	TLSCert, TLSKey, TLSClientCA string
	H2C                          bool
	MaxConnections               int
	DrainDelay                   time.Duration

	RequireAOF bool
	MaxPayload int

	QueryTokens, PublicSizes bool
	MaxBody, MaxBatch        int
	Waiters, Listeners       int
	Pprof, AccessLog         bool
	LmstfyMetrics            bool
	History, Classes         string
	LogLevel, LogFormat      string

	Delay, TTL, TTR, Timeout time.Duration // of v1, where a request has none; a TTL of 0 is for ever
	Tries                    int

	Namespaces   map[string]Namespace
	Pools        map[string]Pool
	Accounts     map[string]string
	Certificates map[string]string

	AdminCertificates []string

	Dev  bool
	From string // the file that was read
}

// Namespace is what differs in a namespace.
type Namespace struct {
	Class           string   `yaml:"class,omitempty"`
	Prefix          *string  `yaml:"prefix,omitempty"` // "": the queues have their names as they stand
	Queues          []string `yaml:"queues,omitempty"`
	MaxLength       int      `yaml:"max_length,omitempty"`
	MaxDelayed      int      `yaml:"max_delayed,omitempty"`
	MaxDelayedQueue int      `yaml:"max_delayed_queue,omitempty"`
}

// Bare reports whether the queues of the namespace have their names as they stand.
func (n Namespace) Bare() bool { return n.Prefix != nil && *n.Prefix == "" }

// Pool is another Redis, or another namespace of Resque.
type Pool struct {
	Redis           string `yaml:"redis,omitempty"`
	ResqueNamespace string `yaml:"resque_namespace,omitempty"`
	MigrateTo       string `yaml:"migrate_to,omitempty"`
}

// Default returns the settings where nothing is set.
func Default() *Config {
	c := new(Config)
	for _, r := range Rows {
		if r.Default == "" {
			continue
		}
		if err := r.set(c, r.Default); err != nil {
			panic(err) // a row is wrong
		}
	}
	return c
}

// Source is where settings come from: a file, the environment, flags.
type Source struct {
	File   string                           // "": none
	Lookup func(name string) (string, bool) // of the environment
	Flags  map[string]string                // by the row's name: those that were given
	Dev    bool
}

// Load returns the settings of a source: a flag wins over the environment, that over the file, and that over the default.
func Load(s Source) (c *Config, notes []string, err error) {
	c = Default()
	if c.Dev = s.Dev; c.Dev {
		c.LogLevel = "error" // the first lines are to be seen
	}
	if s.File != "" {
		if notes, err = c.file(s.File); err != nil {
			return nil, nil, err
		}
	}
	for _, r := range Rows {
		for _, name := range r.variables() {
			value, ok := s.Lookup(name)
			if !ok || value == "" {
				continue
			}
			if err := r.set(c, value); err != nil {
				return nil, nil, fmt.Errorf("the variable %s: %w", name, err)
			}
			break
		}
	}
	for _, r := range Rows {
		if value, ok := s.Flags[r.Name]; ok {
			if err := r.set(c, value); err != nil {
				return nil, nil, fmt.Errorf("the flag --%s: %w", r.Flag(), err)
			}
		}
	}
	return c, notes, c.check()
}

// check returns an error where two settings do not go together.
func (c *Config) check() error {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("tls_cert and tls_key go together: give both, or neither")
	}
	if c.TLSClientCA != "" && c.TLSCert == "" {
		return errors.New("tls_client_ca asks clients for certificates, and that needs TLS: give tls_cert and tls_key too")
	}
	if len(c.Certificates)+len(c.AdminCertificates) > 0 && c.TLSClientCA == "" {
		return errors.New("certificates and admin_certificates name subjects of client certificates, and no client is asked for one: give tls_client_ca too")
	}
	if c.H2C && c.TLSCert != "" {
		return errors.New("h2c is HTTP/2 without TLS, and with tls_cert clients speak HTTP/2 anyway: leave h2c out")
	}
	if c.Pprof && len(c.Accounts) == 0 {
		return errors.New("pprof shows what the server holds in memory: name an account under accounts, or leave pprof out")
	}
	for _, l := range []struct{ name, address string }{{"listen", c.Listen}, {"admin_listen", c.AdminListen}} {
		if _, _, err := net.SplitHostPort(l.address); err != nil && l.address != "" {
			return fmt.Errorf("%s is %q; it takes an address such as :7777 or 127.0.0.1:7777", l.name, l.address)
		}
	}
	if c.Dev {
		return c.checkDev()
	}
	for _, name := range slices.Sorted(maps.Keys(c.Namespaces)) {
		if p := c.Namespaces[name].Prefix; p != nil && *p != "" && *p != name+"." {
			return fmt.Errorf("the namespace %s: prefix is %q; it takes \"\", which leaves queues their names, and is %q otherwise", name, *p, name+".")
		}
	}
	return nil
}

// checkDev returns an error where the settings would show a server without tokens to other machines. An address without a host
// becomes this machine's.
func (c *Config) checkDev() error {
	if c.TLSCert != "" || len(c.Pools) > 0 {
		return errors.New("--dev is for a first try: it takes neither TLS nor pools; leave --dev out to serve for real")
	}
	for _, l := range []struct {
		name    string
		address *string
	}{{"listen", &c.Listen}, {"admin_listen", &c.AdminListen}} {
		host, port, _ := net.SplitHostPort(*l.address)
		if ip := net.ParseIP(host); host != "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("%s is %s, and --dev asks for no token, so it serves this machine only: write 127.0.0.1, or leave --dev out", l.name, *l.address)
		}
		if host == "" && port != "" {
			*l.address = net.JoinHostPort("127.0.0.1", port)
		}
	}
	return nil
}

// known names what a file may have, for the sentence about what it may not.
func known() (names []string) {
	for _, r := range Rows {
		names = append(names, r.Name)
	}
	return append(names, groups...)
}

var groups = []string{"namespaces", "pools", "accounts", "certificates", "admin_certificates"}
