package guard

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// nginx runs the nginx of the distribution before an address, and returns a client whose requests go through it. more are lines
// beside proxy_pass. apt-get install nginx-light brings it, and make deps does. Without it the test is skipped, but not where CI is true.
func nginx(t *testing.T, address string, more ...string) *http.Client {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/nginx")
	}
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("nginx is not installed: apt-get install nginx-light")
	}
	if err != nil {
		t.Skip("nginx is not installed: apt-get install nginx-light")
	}
	dir, err := os.MkdirTemp("", "nginx") // a short path, as the address of a socket has to be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	config := fmt.Sprintf(`
daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server {
		listen unix:%[2]s;
		location / {
			proxy_pass http://%[3]s;
			%[4]s
		}
	}
}
`, dir, socket, address, strings.Join(more, "\n\t\t\t"))
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &lines{}
	cmd := exec.Command(program, "-p", dir, "-e", "stderr", "-c", file)
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log("nginx said", out)
		}
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	redistest.Eventually(t, 30*time.Second, "nginx listens", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return &http.Client{Transport: transport}
}

// TestNginx puts nginx before a dashboard, with proxy_pass and nothing else: the requests of strangers then
// come from 127.0.0.1 and are sent to it.
func TestNginx(t *testing.T) {
	t.Parallel()
	const public = "http://ops.example.com"

	t.Run("a stranger", func(t *testing.T) {
		t.Parallel()
		token := NewToken()
		passwords, err := BasicAuth(usersFile(t))
		if err != nil {
			t.Fatal(err)
		}
		for name, settings := range map[string]Settings{"nothing": {}, "a token": {Token: gate(t, token)}, "passwords": {Identify: passwords}} {
			s := serve(t, settings)
			through := nginx(t, s.address)
			want := 401
			if name == "nothing" {
				want = 403
			}
			for _, path := range []string{"/", "/queues/a", "/live", "/api/v1/queues/a"} {
				send(t, through, "GET", public+path).want(t, want)
				send(t, through, "GET", public+path, "X-Forwarded-User: ada", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: localhost").want(t, want)
			}
			send(t, through, "POST", public+"/queues/a/clear").want(t, want)
			send(t, through, "GET", public+"/healthz").want(t, 200)
			send(t, through, "GET", public+"/assets/../queues/a").want(t, want)
			send(t, through, "GET", public+"/assets/%2e%2e/queues/a").want(t, want)
			if name == "passwords" {
				send(t, through, "GET", public+"/", login("vera", "vera")).want(t, 200)
			}
			if name == "a token" {
				send(t, through, "GET", public+"/", "Authorization: Bearer "+token).want(t, 200)
			}
		}
	})

	t.Run("another site", func(t *testing.T) {
		t.Parallel()
		s := serve(t, Settings{Identify: as(me), Hosts: []string{"ops.example.com"}})
		through := nginx(t, s.address)
		send(t, through, "POST", public+"/queues/a/clear", "Origin: "+public).want(t, 403).says(t, "proxy_set_header Host $http_host;")
		send(t, through, "POST", public+"/queues/a/clear", "Origin: https://ops.example.com", "Sec-Fetch-Site: same-origin").want(t, 200)
		send(t, through, "POST", public+"/queues/a/clear", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site").want(t, 403)

		mended := nginx(t, s.address, "proxy_set_header Host $http_host;")
		send(t, mended, "POST", public+"/queues/a/clear", "Origin: "+public).want(t, 200)
		send(t, mended, "POST", public+"/queues/a/clear", "Origin: http://evil.example").want(t, 403)
		send(t, mended, "GET", "http://evil.example/").want(t, 403).says(t, "evil.example")

		trusting := serve(t, Settings{Identify: as(me), TrustedOrigins: []string{public}})
		through = nginx(t, trusting.address)
		send(t, through, "POST", public+"/queues/a/clear", "Origin: "+public).want(t, 200)
		send(t, through, "POST", public+"/queues/a/clear", "Origin: http://evil.example").want(t, 403)
	})

	t.Run("a proxy's header", func(t *testing.T) {
		t.Parallel()
		elsewhere, err := HeaderAuth("X-Forwarded-User", []string{"10.0.0.5"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := serve(t, Settings{Identify: elsewhere})
		s.ask(t, "GET", "/", "X-Forwarded-User: ada", "X-Forwarded-For: 10.0.0.5").want(t, 401)
		send(t, nginx(t, s.address), "GET", public+"/", "X-Forwarded-User: ada").want(t, 401)

		here, err := HeaderAuth("X-Forwarded-User", []string{"127.0.0.1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s = serve(t, Settings{Identify: here})
		through := nginx(t, s.address, "proxy_set_header X-Forwarded-User $http_x_test_login;")
		send(t, through, "GET", public+"/", "X-Test-Login: vera", "X-Forwarded-User: ada").want(t, 200).says(t, "hello vera viewer")
		send(t, through, "GET", public+"/", "X-Forwarded-User: ada").want(t, 401)
	})
}
