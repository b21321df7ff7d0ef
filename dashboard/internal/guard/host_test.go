package guard

import (
	"strings"
	"testing"
)

var hostTable = map[string]bool{
	"127.0.0.1": true, "127.0.0.1:9292": true, "10.1.2.3": true, "203.0.113.9:80": true, "127.0.0.1.": true, "127.0.0.1:": true,
	"[::1]": true, "[::1]:9292": true, "[2001:db8::5]:443": true, "[::ffff:127.0.0.1]": true,
	"localhost": true, "localhost:9292": true, "localhost.": true, "LOCALHOST": true, "LocalHost:1": true,
	"a.localhost": true, "goworker.localhost:9292": true, "a.b.localhost": true, "A.LocalHost.": true,
	"ops.example.com": true, "ops.example.com:8443": true, "OPS.Example.COM": true, "ops.example.com.": true,
	"xn--bro-hoa.example": true, "XN--bro-hoa.example": true,

	"": false, ":": false, ":9292": false, ".": false, "..": false, "rebound.example:9292": false, "evil.example": false,
	"127.0.0.1.evil.example": false, "127-0-0-1.nip.io": false, "localhost.evil.example": false, "evillocalhost": false,
	".localhost": false, "a..localhost": false, "localhost..": false, "localhost.localdomain": false,
	"ops.example.com.evil.example": false, "a.ops.example.com": false, "example.com": false, "ops.example.com..": false,
	"user@localhost": false, "localhost@evil.example": false, "user:pass@localhost": false, "localhost:80@evil.example": false,
	"evil.example#localhost": false, "evil.example/localhost": false, "evil.example\\.localhost": false, "evil.example,localhost": false,
	"localhost evil.example": false, " localhost": false, "localhost\t": false, "localhost\x00": false, "büro.example": false, "localhost:9292:1": false,
	"localhost:x": false, "localhost:-1": false, "localhost:123456": false, "localhost:80 ": false,
	"::1": false, "[::1": false, "[::1]x": false, "[::1]:x": false, "[127.0.0.1]": false, "[]": false, "[fe80::1%eth0]": false, "[localhost]": false,
	"2130706433": false, "0x7f000001": false, "0177.0.0.1": false, "127.1": false, "１２７.0.0.1": false,
}

// TestHosts tells the names of the dashboard from others, as a Host header may be written.
func TestHosts(t *testing.T) {
	t.Parallel()
	h, err := newHosts([]string{"ops.example.com", "XN--bro-hoa.example."})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range hostTable {
		if got := h.allow(host); got != want {
			t.Errorf("allow(%q) is %t, want %t", host, got, want)
		}
	}
}

func TestHostsOfSettings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "*.example.com", "https://ops.example.com", "ops.example.com:443", "büro.example", "a..b", "a b"} {
		if _, err := New(Settings{Hosts: []string{name}}); err == nil {
			t.Errorf("the host %q is accepted", name)
		}
	}
	for _, origin := range []string{"ops.example.com", "https://ops.example.com/path", "null"} {
		if _, err := New(Settings{TrustedOrigins: []string{origin}}); err == nil || !strings.Contains(err.Error(), "TrustedOrigin") && !strings.Contains(err.Error(), "trusted origin") {
			t.Errorf("the origin %q: %v", origin, err)
		}
	}
}

// TestHostOverTheWire sends names to a server: the header, the address in the request line, and what proxies add.
func TestHostOverTheWire(t *testing.T) {
	t.Parallel()
	s := serve(t, Settings{Identify: as(User{Name: "alice", Role: Admin})})
	s.ask(t, "GET", "/").want(t, 200)
	s.ask(t, "GET", "/", "Host: a.localhost").want(t, 200)
	s.ask(t, "GET", "/", "Host: rebound.example:9292").want(t, 403).says(t, "Hosts").says(t, "--host").says(t, "rebound.example:9292")
	s.ask(t, "POST", "/queues/a/clear", "Host: rebound.example", "Origin: http://rebound.example", "Sec-Fetch-Site: same-origin").want(t, 403)
	for _, open := range []string{"/assets/1/app.css", "/healthz", "/readyz"} {
		s.ask(t, "GET", open, "Host: rebound.example").want(t, 403)
	}
	// A page of a rebound name sets any header but the name.
	s.ask(t, "GET", "/", "Host: rebound.example", "X-Forwarded-Host: localhost", "Forwarded: host=localhost", "X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 127.0.0.1").want(t, 403)
	s.ask(t, "GET", "/", "X-Forwarded-Host: rebound.example").want(t, 200)
	for request, want := range map[string]string{
		"GET / HTTP/1.0\r\n\r\n":                                                                  "403",
		"GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n":                                    "403",
		"GET http://rebound.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":    "403",
		"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":          "200",
		"GET / HTTP/1.1\r\nHost: user@localhost\r\nConnection: close\r\n\r\n":                     "400",
		"GET / HTTP/1.1\r\nHost: localhost\r\nHost: rebound.example\r\nConnection: close\r\n\r\n": "400",
		"GET http://localhost@rebound.example/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":  "403",
		"GET / HTTP/1.1\r\nHost: b\xfcro.example\r\nConnection: close\r\n\r\n":                    "400",
		"GET http://rebound.example/healthz HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n": "403",
		"GET / HTTP/1.1\r\nHost: rebound.example.localhost.evil\r\nConnection: close\r\n\r\n":     "403",
		"GET / HTTP/1.1\r\nHost: [::1]:9292\r\nConnection: close\r\n\r\n":                         "200",
	} {
		if line := s.raw(t, request); !strings.Contains(line, " "+want+" ") {
			t.Errorf("%q is answered with %q, want %s", request, line, want)
		}
	}
}

// FuzzHost looks for a Host header that is let through and names another host.
func FuzzHost(f *testing.F) {
	for host := range hostTable {
		f.Add(host)
	}
	h, err := newHosts([]string{"ops.example.com"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if !h.allow(host) {
			return
		}
		if strings.ContainsAny(host, "@/\\#?% ,\t\r\n\x00") {
			t.Errorf("%q is let through", host)
		}
		name := strings.ToLower(host)
		if strings.HasPrefix(name, "[") {
			if strings.Trim(name, "[]:.0123456789abcdef") != "" {
				t.Errorf("%q is let through as an address", host)
			}
			return
		}
		name, _, _ = strings.Cut(name, ":")
		name = strings.TrimSuffix(name, ".")
		if name != "ops.example.com" && name != "localhost" && !strings.HasSuffix(name, ".localhost") && strings.Trim(name, "0123456789.") != "" {
			t.Errorf("%q is let through as a name", host)
		}
	})
}
