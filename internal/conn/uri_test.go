package conn

import (
	"context"
	"net/url"
	"strings"
	"testing"
)

func TestParseURI(t *testing.T) {
	t.Parallel()
	tcp := func(host, addr string) target { return target{network: "tcp", host: host, addr: addr} }
	with := func(t target, f func(*target)) target { f(&t); return t }
	local := tcp("localhost", "localhost:6379")
	for uri, want := range map[string]target{
		"":                           local,
		"redis://":                   local,
		" redis://localhost:6379/\n": local,
		"valkey://localhost/0":       local,
		"redis://:6380":              tcp("localhost", "localhost:6380"),
		"REDIS://cache":              tcp("cache", "cache:6379"),
		"redis://[::1]:7000/":        tcp("::1", "[::1]:7000"),
		"redis://[::1]":              tcp("::1", "[::1]:6379"),
		"redis://cache/3":            with(tcp("cache", "cache:6379"), func(t *target) { t.db = 3 }),
		"redis://cache?db=4":         with(tcp("cache", "cache:6379"), func(t *target) { t.db = 4 }),
		"redis://cache/4?db=4":       with(tcp("cache", "cache:6379"), func(t *target) { t.db = 4 }),
		"rediss://cache":             with(tcp("cache", "cache:6379"), func(t *target) { t.tls = true }),
		"valkeys://cache:1":          with(tcp("cache", "cache:1"), func(t *target) { t.tls = true }),
		"redis://w:s3@cache":         with(tcp("cache", "cache:6379"), func(t *target) { t.user, t.password = "w", "s3" }),
		"redis://:s3@cache":          with(tcp("cache", "cache:6379"), func(t *target) { t.password = "s3" }),
		"redis://s3@cache":           with(tcp("cache", "cache:6379"), func(t *target) { t.password = "s3" }),
		"redis://w:@cache":           with(tcp("cache", "cache:6379"), func(t *target) { t.user = "w" }),
		"redis://:p@ss@cache":        with(tcp("cache", "cache:6379"), func(t *target) { t.password = "p@ss" }),
		"redis://w:a%2Fb%40%3A@cache/1": with(tcp("cache", "cache:6379"), func(t *target) {
			t.user, t.password, t.db = "w", "a/b@:", 1
		}),
		"/run/redis.sock":            {network: "unix", addr: "/run/redis.sock"},
		"unix:///run/redis.sock":     {network: "unix", addr: "/run/redis.sock"},
		"unix:/run/redis.sock":       {network: "unix", addr: "/run/redis.sock"},
		"unix:///run/a@b/redis.sock": {network: "unix", addr: "/run/a@b/redis.sock"},
		"unix:///run/r.sock?db=2":    {network: "unix", addr: "/run/r.sock", db: 2},
		"unix://w:s3@/run/r.sock":    {network: "unix", addr: "/run/r.sock", user: "w", password: "s3"},
	} {
		got, err := parseURI(uri)
		if err != nil || got != want {
			t.Errorf("parseURI(%q) = %+v, %v; want %+v", uri, got, err, want)
		}
	}
}

func TestParseURIErrors(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"cache:6379":              `redis: the Redis URI cache:6379 does not begin with a scheme; write redis://host:6379, rediss://host:6379 or unix:///path`,
		"127.0.0.1:6379":          `does not begin with a scheme`,
		"cache":                   `does not begin with a scheme`,
		"1redis://cache":          `does not begin with a scheme`,
		"redis:cache":             `does not begin with a scheme`,
		"redis://cache/x":         `redis: the database in redis://cache/x is not a number; write a number from 0, as in redis://host:6379/2`,
		"redis://cache/-1":        `is negative`,
		"redis://cache/1/2":       `is not a number`,
		"redis://cache?db=":       `is not a number`,
		"redis://cache/1?db=2":    `is given twice, as 1 and 2`,
		"redis://cache?timeout=3": `redis: the parameter "timeout" in redis://cache?*** is unknown; only ?db=<number> may follow the ?, timeouts and TLS have settings of their own`,
		"redis://cache?db=%zz":    `cannot be read; only ?db=<number> may stand there`,
		"redis://cache:0":         `is not a number from 1 to 65535`,
		"redis://cache:70000":     `is not a number from 1 to 65535`,
		"redis://cache:port":      `redis: the Redis URI redis://cache:*** cannot be read: its port is not a number`,
		"redis://a b":             `its host has a character that no host name has`,
		"redis://w:%zz@cache":     `redis: the Redis URI redis://w:***@cache cannot be read: a % is not followed by two hexadecimal digits; special characters in a user or password must be percent-encoded`,
		"redis://w:a/b@cache":     `must be percent-encoded`,
		"redis://w:1/b@cache":     `must be percent-encoded`,
		"redis://w:1?b@cache":     `must be percent-encoded`,
		"redis://w:1#b@cache":     `must be percent-encoded`,
		"redis://cache/1#":        `must be percent-encoded`,
		"redis://ca\x01che":       `it contains a control character`,
		"redis://[::1":            `cannot be read`,
		"unix://run/redis.sock":   `redis: unix://run/redis.sock does not name a socket by its whole path; write unix:///path/redis.sock, with three slashes`,
		"unix://":                 `does not name a socket`,
		"unix:redis.sock":         `does not name a socket`,
		"http://cache":            `redis: the scheme "http" of the Redis URI is unknown`,
	} {
		_, err := parseURI(uri)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseURI(%q): %v; want %q", uri, err, want)
		}
	}
}

func TestRedactURI(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"":                               "",
		"redis://cache:6379/2":           "redis://cache:6379/2",
		"redis://[::1]:6379":             "redis://[::1]:6379",
		"redis://w:secret@cache:6379/2":  "redis://w:***@cache:6379/2",
		"rediss://:secret@cache?db=2":    "rediss://:***@cache?db=2",
		"redis://secret@cache":           "redis://***@cache",
		"redis://w:se@cr/et@cache":       "redis://w:***@cache",
		"redis://w:secret":               "redis://w:***",
		"redis://:se/cret":               "redis://:***",
		"redis://cache?password=secret":  "redis://cache?***",
		"redis://cache#secret":           "redis://cache#***",
		"w:secret@cache:6379":            "w:***@cache:6379",
		"secret@cache":                   "***@cache",
		"redis:secret":                   "redis:***",
		"unix://w:secret@/run/r.sock":    "unix://w:***@/run/r.sock",
		"unix:///run/r.sock?db=1":        "unix:///run/r.sock?db=1",
		"/run/r.sock":                    "/run/r.sock",
		"embedded:":                      "embedded:",
		"redis+sentinel://:secret@a:1,b": "redis+sentinel://:***@a:1,b",
		"redis://w:secret@ca%20che":      "redis://w:***@***",
	} {
		if got := RedactURI(uri); got != want {
			t.Errorf("redactURI(%q) = %q, want %q", uri, got, want)
		}
	}
}

func TestSchemes(t *testing.T) {
	t.Parallel()
	var opened string
	openers := map[string]Opener{
		"tunnel": func(_ context.Context, uri string, opts Options) (Dialer, error) {
			opened = uri
			if opts.TLS == nil || opts.ConnectTimeout != DefaultConnectTimeout || opts.ReadTimeout != DefaultReadTimeout || opts.WriteTimeout != DefaultWriteTimeout {
				t.Errorf("options are %+v", opts)
			}
			return &netDialer{}, nil
		},
	}
	if _, err := NewDialer(t.Context(), Config{URI: "Tunnel:x"}, openers); err != nil || opened != "Tunnel:x" {
		t.Errorf("opened %q: %v", opened, err)
	}
	for uri, want := range map[string]string{
		"http://:secret@cache":           `redis: the scheme "http" of the Redis URI is unknown; there are redis, rediss, tunnel, unix, valkey, valkeys`,
		"embedded:":                      `redis: the embedded Redis is not linked into this program; import "github.com/goworker/goworker/embedded" and call goworker.RegisterDialer("embedded", embedded.Open) before Work`,
		"redis+sentinel://:secret@a,b/m": `redis: the way by Sentinels is not linked into this program; import "github.com/goworker/goworker/sentinel" and call goworker.RegisterDialer("redis+sentinel", sentinel.Open) before Work`,
		"redis+cluster://:secret@a,b":    `redis: the way into a Redis Cluster is not linked into this program; import "github.com/goworker/goworker/cluster" and call goworker.RegisterDialer("redis+cluster", cluster.Open) before Work`,
	} {
		_, err := NewDialer(t.Context(), Config{URI: uri}, openers)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("newDialer(%q): %v; want %q", uri, err, want)
		}
	}
}

// FuzzParseURI puts a password into a URI as people do, encoded or not, and looks
// for it in what is printed.
func FuzzParseURI(f *testing.F) {
	for _, seed := range []string{"", "p@ss", "pa/ss", "12/34", "1?b", "1#b", "%zz", "a:b", "[", "x y", "\x00", "a@b?c", "a@b/c", "é%"} {
		f.Add("redis", seed, "cache:6379/1")
		f.Add("unix", seed, "/run/r.sock")
	}
	f.Fuzz(func(t *testing.T, scheme, part, place string) {
		if strings.ContainsAny(scheme+place, "@") || strings.Contains(scheme, "://") {
			t.Skip() // what is before the last @ is the password by definition
		}
		const marker = "S3cr3tM4rk3r"
		for _, password := range []string{marker + part, part + marker, part + marker + part, url.QueryEscape(marker + part)} {
			uri := scheme + "://user:" + password + "@" + place
			t.Log(uri)
			if got := RedactURI(uri); strings.Contains(got, marker) {
				t.Errorf("redactURI tells the password: %q", got)
			}
			if _, err := parseURI(uri); err != nil && strings.Contains(err.Error(), marker) {
				t.Errorf("parseURI tells the password: %v", err)
			}
		}
	})
}

// FuzzRedactURI tries any text: the result never holds what follows a colon before
// the last @, nor what could break a log line.
func FuzzRedactURI(f *testing.F) {
	for _, seed := range []string{"", ":", "@", "://", "redis://a:b@c", "a:b@", "redis://a:b/c?d=e#f", "\n", "redis://[::1]:1", "redis://*@@"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		got := RedactURI(uri)
		if strings.ContainsAny(got, "\n\r\x00") {
			t.Errorf("redactURI(%q) = %q breaks the line", uri, got)
		}
		place, err := parseURI(uri)
		shown := strings.ReplaceAll(got, "***", "\x00") // of the password "*@", "***@" shows nothing
		if p := place.password; err == nil && p != "" && strings.Count(uri, p) == 1 && strings.Contains(shown, p) {
			t.Errorf("redactURI(%q) = %q tells the password %q", uri, got, p)
		}
	})
}
