package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// shown is a goworker dashboard that runs.
type shown struct {
	address   string // the first that it prints
	out, errs *output
	stop      func() int
}

var addressLine = regexp.MustCompile(`(?m)^  (https?://\S+)$`)

// dashboardOf starts goworker dashboard, and waits for its address.
func dashboardOf(t *testing.T, lookup func(string) (string, bool), args ...string) *shown {
	t.Helper()
	s := &shown{out: new(output), errs: new(output)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, append([]string{"dashboard", "--listen=127.0.0.1:0"}, args...), lookup, s.out, s.errs)
	}()
	s.stop = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { s.stop() })
	redistest.Eventually(t, time.Minute, "the dashboard says where it is", func() bool {
		if len(ended) > 0 {
			t.Fatalf("it ended with %d:\n%s%s", s.stop(), s.out.String(), s.errs.String())
		}
		m := addressLine.FindStringSubmatch(s.out.String())
		if m != nil {
			s.address = m[1]
		}
		return m != nil
	})
	return s
}

// The printed address lets a browser in, to the queues that are there. A stranger gets nothing. A stop ends the command while a page
// is looked at.
func TestDashboard(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SADD", "resque:queues", "mail")
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"SendMail","args":["ann"]}`)
	d := dashboardOf(t, none, "--uri="+server.URI(), "--environment=shop")
	base, token, _ := strings.Cut(d.address, "?token=")
	if !strings.Contains(d.out.String(), "http://goworker.localhost:") || len(token) < 26 {
		t.Fatalf("it printed\n%s", d.out.String())
	}
	if status, text := call(t, "GET", base+"queues", ""); status != http.StatusUnauthorized || strings.Contains(text, "mail") {
		t.Errorf("a stranger: %d %s", status, text)
	}
	status, text := call(t, "GET", base+"api/v1/queues", "", "Authorization", "Bearer "+token)
	if status != http.StatusOK || !strings.Contains(text, `"mail"`) {
		t.Errorf("the queues: %d %s", status, text)
	}

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	browser := &http.Client{Jar: jar, Transport: transport}
	for _, address := range []string{d.address, base + "live?page=%2F"} {
		answer, err := browser.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", address, answer.Status)
		}
	}
	if code := d.stop(); code != exitInterrupted && code != exitDone {
		t.Errorf("it ended with %d\n%s", code, d.errs.String())
	}
}

// only is an environment with one variable.
func only(variable, value string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if name != variable {
			return "", false
		}
		return value, true
	}
}

// basic is the header of a name and a password.
func basic(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }

// Each way in lets in its users with their roles, and nobody else.
func TestDashboardUsers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	uri, dir := "--uri="+server.URI(), t.TempDir()
	server.Do(t, "SADD", "resque:queues", "mail")
	pause := func(t *testing.T, base string, headers ...string) int {
		t.Helper()
		status, _ := call(t, "POST", base+"api/v1/queues/mail/pause", "{}", append(headers, "Content-Type", "application/json")...)
		return status
	}
	t.Run("a token file", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(dir, "token")
		d := dashboardOf(t, none, uri, "--token-file="+file, "--role=viewer")
		token, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		header := "Bearer " + strings.TrimSpace(string(token))
		if text := d.out.String(); strings.Contains(text, header[len("Bearer "):]) || !strings.Contains(text, file) {
			t.Errorf("it printed\n%s", text)
		}
		if status, text := call(t, "GET", d.address, "", "Authorization", header); status != http.StatusOK {
			t.Errorf("with the token: %d %s", status, text)
		}
		if status := pause(t, d.address, "Authorization", header); status != http.StatusForbidden {
			t.Errorf("a viewer pauses: %d", status)
		}
	})
	t.Run("passwords", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(dir, "users")
		code, line, errs := typing(t, "correct horse\n", "dashboard", "passwd", "ann", "--role=operator")
		if code != exitDone || !strings.HasPrefix(line, "ann:operator::pbkdf2-sha256$") || strings.Contains(line, "horse") {
			t.Fatalf("passwd: %d %s %s", code, line, errs)
		}
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		d := dashboardOf(t, none, uri, "--basic-auth-file="+file)
		if strings.Contains(d.out.String(), "token") {
			t.Errorf("it printed\n%s", d.out.String())
		}
		for password, want := range map[string]int{"ann:correct horse": http.StatusOK, "ann:wrong horse": http.StatusUnauthorized} {
			if status, text := call(t, "GET", d.address, "", "Authorization", basic(password)); status != want {
				t.Errorf("%s: %d %s", password, status, text)
			}
		}
		if status := pause(t, d.address, "Authorization", basic("ann:correct horse")); status/100 != 2 {
			t.Errorf("an operator pauses: %d", status)
		}
	})
	t.Run("a proxy", func(t *testing.T) {
		t.Parallel()
		d := dashboardOf(t, none, uri, "--auth-header=X-User", "--proxy=127.0.0.1", "--role=operator")
		if status, text := call(t, "GET", d.address, "", "X-User", "bob"); status != http.StatusOK || !strings.Contains(text, "bob") {
			t.Errorf("bob: %d %s", status, text)
		}
		if status, text := call(t, "GET", d.address, ""); status != http.StatusUnauthorized {
			t.Errorf("nobody: %d %s", status, text)
		}
		if status := pause(t, d.address, "X-User", "bob"); status/100 != 2 {
			t.Errorf("an operator pauses: %d", status)
		}
	})
	t.Run("read only", func(t *testing.T) {
		t.Parallel()
		d := dashboardOf(t, only("GOWORKER_READ_ONLY", "1"), uri, "--auth-header=X-User", "--proxy=127.0.0.1", "--role=admin")
		if status := pause(t, d.address, "X-User", "bob"); status/100 == 2 {
			t.Errorf("it pauses: %d", status)
		}
	})
}

// Several Resques are shown by one dashboard, over TLS. The browser gets a file that only its user can read.
func TestDashboardFleets(t *testing.T) {
	t.Parallel()
	eu, us, dir := redistest.Start(t), redistest.Start(t), t.TempDir()
	eu.Do(t, "SADD", "resque:queues", "in-eu")
	us.Do(t, "SADD", "shop:queues", "in-us")
	ca := redistest.NewAuthority(t)
	issued, _ := ca.Issue(t, "dashboard", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	known := x509.NewCertPool()
	known.AddCert(issued)
	browser, opened := filepath.Join(dir, "browser"), filepath.Join(dir, "opened")
	script := "#!/bin/sh\nstat -c %a \"$1\" > '" + opened + "' && cat \"$1\" >> '" + opened + "' && mv '" + opened + "' '" + opened + ".done'\n"
	if err := os.WriteFile(browser, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	lookup := only("BROWSER", browser)
	d := dashboardOf(t, lookup, "--fleet=eu="+eu.URI(), "--fleet=us="+us.URI()+",shop:", "--tls-cert="+ca.Crt("dashboard"), "--tls-key="+ca.Key("dashboard"), "--open")
	base, token, _ := strings.Cut(d.address, "?token=")
	if !strings.HasPrefix(base, "https://127.0.0.1:") {
		t.Fatalf("it printed\n%s", d.out.String())
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: known}}}
	for fleet, queue := range map[string]string{"eu": "in-eu", "us": "in-us"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", base+"fleets/"+fleet+"/api/v1/queues", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), queue) {
			t.Errorf("%s: %s %s", fleet, answer.Status, text)
		}
	}
	redistest.Eventually(t, time.Minute, "the browser has opened its file", func() bool {
		_, err := os.Stat(opened + ".done")
		return err == nil
	})
	page, err := os.ReadFile(opened + ".done")
	if err != nil || !strings.HasPrefix(string(page), "600\n") || !strings.Contains(string(page), token) {
		t.Errorf("the browser got %v\n%s", err, page)
	}
}

func TestDashboardRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"--listen=0.0.0.0:0", "can be reached from other machines"},
		{"--listen=:0", "can be reached from other machines"},
		{"--auth-header=X-User", "--proxy go together"},
		{"--proxy=10.0.0.5", "--proxy go together"},
		{"--auth-header=X-User --proxy=10.0.0.0/8", "is a net"},
		{"--token-file=/nowhere/token", "/nowhere"},
		{"--token-file=a --basic-auth-file=b", "give one of them"},
		{"--basic-auth-file=/nowhere --role=admin", "leave out --role"},
		{"--basic-auth-file=/nowhere", "/nowhere"},
		{"--role=king", "viewer, operator or admin"},
		{"--args=all", "mask, hide or show"},
		{"--fleet=eu", "name=uri,namespace"},
		{"--fleet=e/u=redis://localhost:1", "letters, digits"},
		{"--fleet=eu=http://localhost:1", "http"},
		{"--host=https://ops", "ops.example.com"},
		{"--tls-cert=a", "--tls-key go together"},
		{"--tls-cert=/nowhere --tls-key=/nowhere", "/nowhere"},
		{"--uri=redis://localhost:1 --uri=redis://localhost:2", "--fleet"},
		{"word", "there is no command dashboard word; there are passwd"},
		{"passwd", "the name of one user"},
	} {
		code, out, errs := run(t, append([]string{"dashboard"}, strings.Fields(tt.args)...)...)
		if code != exitUsage || !strings.Contains(errs, tt.want) || out != "" {
			t.Errorf("%s: %d\n%s%s\nand not\n%s", tt.args, code, out, errs, tt.want)
		}
	}
	taken := dashboardOf(t, none)
	at := strings.TrimPrefix(strings.TrimSuffix(strings.Split(taken.address, "?")[0], "/"), "http://")
	if code, _, errs := run(t, "dashboard", "--listen="+at); code != exitFailed || !strings.Contains(errs, "another address") {
		t.Errorf("a taken address: %d %s", code, errs)
	}
	for input, want := range map[string]string{"short\n": "at least 8", "": "at least 8"} {
		if code, out, errs := typing(t, input, "dashboard", "passwd", "ann"); code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("the password %q: %d %s %s", input, code, out, errs)
		}
	}
}

// Other machines get a warning without TLS, and the address by the name of the dashboard.
func TestDashboardElsewhere(t *testing.T) {
	t.Parallel()
	d := dashboardOf(t, none, "--listen=0.0.0.0:0", "--host=ops.example.com", "--token-file="+filepath.Join(t.TempDir(), "token"))
	if !strings.Contains(d.errs.String(), "not encrypted") || !strings.HasPrefix(d.address, "http://ops.example.com:") {
		t.Errorf("it said\n%s%s", d.out.String(), d.errs.String())
	}
}

func TestFleetAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"redis://a:1":                       {"redis://a:1", ""},
		"redis://a:1,shop":                  {"redis://a:1", "shop"},
		"redis://:p,w@a:1/2,shop:eu":        {"redis://:p,w@a:1/2", "shop:eu"},
		"redis+cluster://a:1,b:2":           {"redis+cluster://a:1,b:2", ""},
		"redis+cluster://a:1,b:2/,shop":     {"redis+cluster://a:1,b:2/", "shop"},
		"redis+sentinel://a:1,b:2/main,x:y": {"redis+sentinel://a:1,b:2/main", "x:y"},
		"a:1,shop":                          {"a:1", "shop"},
	} {
		if uri, namespace := fleetAddress(text); uri != want[0] || namespace != want[1] {
			t.Errorf("%s: %q %q", text, uri, namespace)
		}
	}
}
