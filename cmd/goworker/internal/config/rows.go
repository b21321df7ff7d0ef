package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Row is one setting: it has a name in the file, a variable, and a flag.
type Row struct {
	Name    string
	Also    string // another variable that it is read from
	Default string
	Help    string
	Bool    bool // its flag needs no value

	set  func(c *Config, value string) error
	get  func(c *Config) string // as set takes it
	hide bool                   // the value may have a password
}

// Flag returns the name of the row's flag.
func (r Row) Flag() string { return strings.ReplaceAll(r.Name, "_", "-") }

// Variable returns the name of the row's variable.
func (r Row) Variable() string { return "GOWORKER_HTTP_" + strings.ToUpper(r.Name) }

func (r Row) variables() []string {
	if r.Also != "" {
		return []string{r.Variable(), r.Also}
	}
	return []string{r.Variable()}
}

// Rows are all settings but the groups of the file.
var Rows = []Row{
	secret(text("redis", "redis://localhost:6379/", "where Redis is: redis://, rediss://, unix://, redis+sentinel://, redis+cluster://", func(c *Config) *string { return &c.Redis })),
	text("resque_namespace", "resque:", "the prefix of all keys, as Resque's workers have it", func(c *Config) *string { return &c.ResqueNamespace }),
	text("redis_ca", "", "PEM file of the authorities that may have signed Redis's certificate", func(c *Config) *string { return &c.RedisCA }),
	text("redis_cert", "", "PEM file of the certificate to show to Redis", func(c *Config) *string { return &c.RedisCert }),
	text("redis_key", "", "PEM file of its key", func(c *Config) *string { return &c.RedisKey }),
	text("listen", ":7777", "the address for jobs", func(c *Config) *string { return &c.Listen }),
	text("admin_listen", "127.0.0.1:7778", "the address for tokens, limits and metrics", func(c *Config) *string { return &c.AdminListen }),
	text("tls_cert", "", "PEM file of the server's certificate; it is read again when it changes", func(c *Config) *string { return &c.TLSCert }),
	text("tls_key", "", "PEM file of its key", func(c *Config) *string { return &c.TLSKey }),
	text("tls_client_ca", "", "PEM file of the authorities of client certificates", func(c *Config) *string { return &c.TLSClientCA }),
	flag("h2c", "", "HTTP/2 without TLS, behind a proxy that speaks it", func(c *Config) *bool { return &c.H2C }),
	number("max_connections", "20000", "connections at a time", 1, func(c *Config) *int { return &c.MaxConnections }),
	span("drain_delay", "0s", "how long /readyz is 503 before the listeners close", func(c *Config) *time.Duration { return &c.DrainDelay }),
	flag("require_aof", "", "refuse a Redis without an append-only file", func(c *Config) *bool { return &c.RequireAOF }),
	size("max_payload", "64MiB", "bytes of a job's payload", func(c *Config) *int { return &c.MaxPayload }),
	flag("query_tokens", "true", "take a token from ?token= in /api, as lmstfy does", func(c *Config) *bool { return &c.QueryTokens }),
	flag("public_sizes", "", "answer sizes of queues in /api without a token, as lmstfy does", func(c *Config) *bool { return &c.PublicSizes }),
	size("max_body", "1MiB", "bytes of a job's body", func(c *Config) *int { return &c.MaxBody }),
	size("max_batch", "8MiB", "bytes of a request with many jobs", func(c *Config) *int { return &c.MaxBatch }),
	number("waiters", "1000", "long polls of a token at a time", 1, func(c *Config) *int { return &c.Waiters }),
	number("listeners", "100", "streams of events of a token at a time", 1, func(c *Config) *int { return &c.Listeners }),
	flag("pprof", "", "serve Go's profiles to the accounts of the admin address", func(c *Config) *bool { return &c.Pprof }),
	flag("access_log", "true", "a log line for each request", func(c *Config) *bool { return &c.AccessLog }),
	flag("lmstfy_metrics", "", "lmstfy's metrics beside goworker's", func(c *Config) *bool { return &c.LmstfyMetrics }),
	choice("history", "on", "count jobs for the history that all processes share", []string{"on", "off"}, func(c *Config) *string { return &c.History }),
	text("classes", "", "classes with commas between that have their names in the history, beside those of the namespaces", func(c *Config) *string { return &c.Classes }),
	choice("log_level", "info", "the least level that is logged", []string{"debug", "info", "warn", "error"}, func(c *Config) *string { return &c.LogLevel }),
	choice("log_format", "text", "one line for each record", []string{"text", "json"}, func(c *Config) *string { return &c.LogFormat }),
	span("delay", "0s", "of /api, where a request has none", func(c *Config) *time.Duration { return &c.Delay }),
	span("ttl", "24h", "of /api, where a request has none; 0 is for ever", func(c *Config) *time.Duration { return &c.TTL }),
	span("ttr", "2m", "of /api, where a request has none", func(c *Config) *time.Duration { return &c.TTR }),
	span("timeout", "0s", "of /api, where a request has none", func(c *Config) *time.Duration { return &c.Timeout }),
	number("tries", "1", "of /api, where a request has none", 1, func(c *Config) *int { return &c.Tries }),
}

func init() {
	Rows[0].Also = "REDIS_URL"
}

func text(name, preset, help string, at func(*Config) *string) Row {
	return Row{
		Name: name, Default: preset, Help: help,
		set: func(c *Config, v string) error { *at(c) = v; return nil },
		get: func(c *Config) string { return *at(c) },
	}
}

func secret(r Row) Row {
	r.hide = true
	return r
}

func choice(name, preset, help string, of []string, at func(*Config) *string) Row {
	r := text(name, preset, help+": "+strings.Join(of, ", "), at)
	r.set = func(c *Config, v string) error {
		for _, o := range of {
			if strings.EqualFold(v, o) {
				*at(c) = o
				return nil
			}
		}
		return fmt.Errorf("%s is %q; it takes one of %s", name, v, strings.Join(of, ", "))
	}
	return r
}

func flag(name, preset, help string, at func(*Config) *bool) Row {
	return Row{
		Name: name, Default: preset, Help: help, Bool: true,
		set: func(c *Config, v string) error {
			b, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%s is %q; it takes true or false", name, v)
			}
			*at(c) = b
			return nil
		},
		get: func(c *Config) string { return strconv.FormatBool(*at(c)) },
	}
}

func number(name, preset, help string, least int, at func(*Config) *int) Row {
	return Row{
		Name: name, Default: preset, Help: help,
		set: func(c *Config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < least {
				return fmt.Errorf("%s is %q; it takes a number of at least %d", name, v, least)
			}
			*at(c) = n
			return nil
		},
		get: func(c *Config) string { return strconv.Itoa(*at(c)) },
	}
}

// units of bytes, the longest names first.
var units = []struct {
	name  string
	bytes int
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

func size(name, preset, help string, at func(*Config) *int) Row {
	return Row{
		Name: name, Default: preset, Help: help,
		set: func(c *Config, v string) error {
			for _, u := range units {
				if number, ok := strings.CutSuffix(v, u.name); ok {
					n, err := strconv.Atoi(strings.TrimSpace(number))
					if err != nil || n < 1 || n > math.MaxInt32/u.bytes {
						break
					}
					*at(c) = n * u.bytes
					return nil
				}
			}
			return fmt.Errorf("%s is %q; it takes a number of bytes, such as 1048576 or 1MiB", name, v)
		},
		get: func(c *Config) string {
			n := *at(c)
			for _, u := range units {
				if n%u.bytes == 0 && n >= u.bytes && u.bytes > 1 {
					return strconv.Itoa(n/u.bytes) + u.name
				}
			}
			return strconv.Itoa(n)
		},
	}
}

func span(name, preset, help string, at func(*Config) *time.Duration) Row {
	return Row{
		Name: name, Default: preset, Help: help,
		set: func(c *Config, v string) error {
			d, err := time.ParseDuration(v)
			if n, err2 := strconv.ParseFloat(v, 64); err != nil && err2 == nil && n < 1e9 {
				d, err = time.Duration(n*float64(time.Second)), nil
			}
			if err != nil || d < 0 {
				return fmt.Errorf("%s is %q; it takes a time, such as 90s, 1m30s or a number of seconds", name, v)
			}
			*at(c) = d
			return nil
		},
		get: func(c *Config) string { return at(c).String() },
	}
}
