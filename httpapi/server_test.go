package httpapi_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// No log line, error or metric has a token, a body, a header or a query, whatever goes wrong.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{LmstfyMetrics: true})
	token, id := g.token(`{"namespace":"shop","limits":{"read":1000,"write":1000,"interval":60},"description":"of the shop"}`)
	const own, body, meta, query = "own-token-of-the-test-0123", "BODY-OF-THE-TEST", "META-OF-THE-TEST", "QUERY-OF-THE-TEST"
	g.want("an own token", g.ask("POST", g.admin+"/token/shop?description=x&token="+own, ""), 201, own)
	g.redis.Do(t, "SET", "resque:queue:shop.bad", "1")
	var document struct{ Paths map[string]map[string]any }
	g.must(json.Unmarshal([]byte(g.ask("GET", g.url+"/openapi.json", "").body), &document))
	calls := [][2]string{
		{"GET", "/api/shop"}, {"GET", "/api/shop/mail/size"}, {"GET", "/api/shop/mail/peek"}, {"GET", "/api/shop/mail/job/x"}, {"PUT", "/api/shop/mail/job/x"},
		{"PUT", "/api/shop/mail/job/x/nack"}, {"PUT", "/api/shop/mail/job/x/touch"}, {"POST", "/api/shop/acks"}, {"GET", "/api/shop/mail/deadletter"},
		{"PUT", "/api/shop/mail/deadletter"}, {"DELETE", "/api/shop/mail/deadletter"}, {"PUT", "/api/shop/mail/call"}, {"DELETE", "/api/shop/mail"},
	}
	in := strings.NewReplacer("{ns}", "shop", "{queue}", "mail", "{id}", "x")
	for path, methods := range document.Paths {
		for method := range methods {
			if method = strings.ToUpper(method); slices.Contains([]string{"GET", "PUT", "POST", "DELETE"}, method) && !strings.HasSuffix(path, "/events") && path != "/openapi.json" {
				calls = append(calls, [2]string{method, in.Replace(path)})
			}
		}
	}
	requests := func() (answers []string) {
		for _, call := range calls { // each call there is, with what it knows and with what it does not
			for _, body := range []string{body, `{"error":"` + body + `","body":"` + body + `"}`} {
				r, err := g.try(t.Context(), call[0], g.url+call[1]+"?wait_ms=1&token="+own, body, bearer(token), "Content-Type: application/vnd.goworker.job+json", "Idempotency-Key: "+meta)
				if err != nil {
					t.Error(err)
				}
				if r.status >= 400 {
					answers = append(answers, r.body+fmt.Sprint(r.header))
				}
			}
		}
		for _, secret := range []string{token, own, "guess-of-the-test-0123456789", "default:" + token, "east:" + own} {
			for _, call := range [][3]string{
				{"PUT", "/api/shop/mail?x=" + query + "&token=" + secret, body}, {"PUT", "/api/shop/bad?token=" + secret, body},
				{"PUT", "/api/shop/mail?delay=" + query + "&token=" + secret, body}, {"PUT", "/api/shop/mail/bulk?token=" + secret, `[{"x":"` + body},
				{"GET", "/api/shop/bad?token=" + secret, ""}, {"GET", "/api//shop/../" + query + "?token=" + secret, ""}, {"DELETE", "/api/shop/mail/job/x?token=" + secret, ""},
				{"POST", "/v2/shop/queues/mail/jobs?ttl_ms=" + query, body}, {"POST", "/v2/shop/queues/bad/jobs", body}, {"POST", "/v2/shop/reservations", `{"queues":["bad"],"x":"` + body + `"}`},
				{"POST", "/v2/shop/acks", body}, {"GET", "/v2/shop/queues/bad?" + query, ""}, {"POST", "/v2/shop/queues/mail/jobs/x/nack", `{"error":"` + body + `"}`},
				{"GET", "/v2/" + secret + "/queues", ""},
			} {
				r, err := g.try(t.Context(), call[0], g.url+call[1], call[2], bearer(secret), "Goworker-Meta-K: "+meta, "Job-Attr-K: "+meta, "Cookie: "+meta, "Referer: http://x/?token="+own)
				if err != nil {
					t.Error(err)
				}
				if !strings.Contains(call[1], "/v2/") || r.status >= 400 { // an answer may have what the client sent; of a token no part but four characters
					answers = append(answers, r.body+fmt.Sprint(r.header))
				}
			}
		}
		g.ask("GET", g.admin+"/token/shop/"+own+"/limit", "")
		g.ask("GET", g.admin+"/token/shop/"+own+"0/limit", "")
		return append(answers, g.ask("GET", g.admin+"/tokens", "").body, g.ask("GET", g.admin+"/token/shop", "").body, g.ask("GET", g.admin+"/limits", "").body)
	}
	answers := requests()
	answers = append(answers, g.ask("GET", g.admin+"/metrics", "").body)
	g.want("the revocation", g.ask("DELETE", g.admin+"/tokens/"+id, ""), 204, "")
	answers = append(answers, requests()...)
	g.redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	answers = append(answers, requests()...)
	g.redis.Kill()
	answers = append(answers, requests()...)
	answers = append(answers, g.ask("GET", g.admin+"/metrics", "").body)
	g.redis.Restart(t)
	g.must(g.stop())
	answers = append(answers, g.redis.List(t, "LRANGE", "resque:go:audit", 0, -1)...)
	said := g.said.String()
	if !strings.Contains(said, `"msg":"request"`) || !strings.Contains(said, "not valid was refused") {
		t.Fatal("nothing was logged")
	}
	for _, secret := range []string{token, own, "guess-of-the-test"} {
		for i, text := range append([]string{said}, answers...) {
			if at := strings.Index(text, secret); at >= 0 && !(i > 0 && strings.Contains(text, "/v2/"+secret)) {
				t.Errorf("a token is in %s", text[max(0, at-300):min(len(text), at+100)])
			}
		}
	}
	for _, text := range []string{body, meta, query, "no such query"} {
		if at := strings.Index(said, text); at >= 0 {
			t.Errorf("%s is in the log: %s", text, said[max(0, at-300):min(len(said), at+100)])
		}
	}
}

// raw sends bytes and returns all that comes back until the server closes the connection.
func (g *gate) raw(send func(c net.Conn)) string {
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	g.must(err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	var all sync.WaitGroup
	all.Go(func() { send(c) })
	text, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.Errorf("the server has not closed the connection: %q", text)
	}
	_ = c.Close()
	all.Wait()
	return string(text)
}

// Clients that send a header or a body byte by byte, or read no answer, are cut, and cost nothing else.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{})
	token, _ := g.token(`{"namespace":"shop"}`)
	drip := func(c net.Conn) { // until the server closes the connection
		for {
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	publish := "PUT /api/shop/mail HTTP/1.1\r\nHost: x\r\nX-Token: " + token + "\r\n"
	var all sync.WaitGroup
	for name, start := range map[string]string{
		"header": "GET /api/shop/mail HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"body":   publish + "Content-Length: 20000\r\n\r\n",
		"v2":     "POST /v2/shop/queues/mail/jobs HTTP/1.1\r\nHost: x\r\nX-Token: " + token + "\r\nContent-Length: 20000\r\n\r\n",
		"chunks": publish + "Transfer-Encoding: chunked\r\n\r\nfff\r\n",
		"unread": "GET /api/shop/mail HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n",
	} {
		all.Go(func() {
			answer := g.raw(func(c net.Conn) {
				_, _ = io.WriteString(c, start)
				drip(c)
			})
			if name == "body" && !strings.Contains(answer, "failed to read body") || name == "v2" && !strings.Contains(answer, " 408 ") {
				t.Errorf("a slow body got %q", answer)
			}
		})
	}
	all.Go(func() {
		answer := g.raw(func(c net.Conn) {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
		})
		if !strings.Contains(answer, " 431 ") {
			t.Errorf("a long header got %q", answer[:min(len(answer), 100)])
		}
	})
	all.Go(func() {
		r := g.raw(func(c net.Conn) {
			_, _ = io.WriteString(c, publish+"Connection: close\r\nContent-Length: 2000000\r\n\r\n")
		})
		if !strings.Contains(r, " 413 ") {
			t.Errorf("a large body got %q", r)
		}
	})
	all.Go(func() {
		r := g.raw(func(c net.Conn) { // its size is not declared
			_, _ = io.WriteString(c, publish+"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n110000\r\n"+strings.Repeat("x", 0x110000)+"\r\n0\r\n\r\n")
		})
		if !strings.Contains(r, " 413 ") {
			t.Errorf("a large body in chunks got %q", r)
		}
	})
	all.Wait()
	if n := g.redis.Int(t, "EXISTS", "resque:queue:shop.mail"); n != 0 {
		t.Error("half a body was published")
	}
	g.want("afterwards", g.ask("PUT", g.url+"/api/shop/mail", "x", "X-Token: "+token), 201, "")
	g.client.CloseIdleConnections()
	g.eventually("the connections are closed", func() bool { return g.api.Stats().Connections == 0 })
}

// More connections than may be wait until one ends.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{}, func(s *httpapi.Server) { s.MaxConnections = 2 })
	var open []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		g.must(err)
		defer c.Close()
		open = append(open, c)
	}
	g.eventually("two are open", func() bool { return g.api.Stats().Connections == 2 })
	done := make(chan got, 1)
	go func() {
		r, err := g.try(context.Background(), "GET", g.url+"/healthz", "")
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	for range 20 {
		if n := g.api.Stats().Connections; n > 2 {
			t.Fatalf("%d connections are open", n)
		}
		time.Sleep(time.Millisecond)
	}
	_ = open[0].Close()
	if r := <-done; r.status != 200 {
		t.Errorf("the one that waited got %d", r.status)
	}
}

// A stop ends within its time whatever clients asked for: readyz fails first, waits end with their empty answers.
func TestStopOfServer(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	g := guardedOn(t, redis, httpapi.Settings{}, func(s *httpapi.Server) { s.DrainDelay = 300 * time.Millisecond })
	token, _ := g.token(`{"namespace":"shop"}`)
	g.want("ready", g.ask("GET", g.url+"/readyz", ""), 200, "")
	if takers := redis.List(t, "ZRANGE", "resque:go:takers", "0", "-1"); len(takers) != 1 ||
		redis.Text(t, "HGET", "resque:go:taker:"+takers[0], "address") != strings.TrimPrefix(g.url, "http://") {
		t.Errorf("the server's records %v do not say that it listens at %s", takers, g.url)
	}
	type result struct {
		got
		err error
	}
	results := make(chan result, 2)
	for _, call := range [][3]string{{"GET", "/api/shop/mail?timeout=600", ""}, {"POST", "/v2/shop/reservations", `{"queues":["mail"],"wait_ms":600000}`}} {
		go func() {
			r, err := g.try(context.Background(), call[0], g.url+call[1], call[2], bearer(token))
			results <- result{r, err}
		}()
	}
	request, err := http.NewRequest("GET", g.url+"/v2/shop/events", nil)
	g.must(err)
	request.Header.Set("X-Token", token)
	events, err := g.client.Do(request)
	g.must(err)
	defer events.Body.Close()
	idle, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	g.must(err)
	defer idle.Close()
	slow, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	g.must(err)
	defer slow.Close()
	_, err = io.WriteString(slow, "PUT /api/shop/mail HTTP/1.1\r\nHost: x\r\nX-Token: "+token+"\r\nContent-Length: 100000\r\n\r\nx")
	g.must(err)
	g.eventually("two wait", func() bool { return g.waiters() == 2 })
	ended := make(chan error, 1)
	go func() { ended <- g.stop() }()
	g.eventually("readyz fails while requests are served", func() bool {
		r, err := g.try(t.Context(), "GET", g.url+"/readyz", "")
		return err == nil && r.status == 503 && r.header.Get("Connection") == "close" || err != nil
	})
	for range cap(results) {
		r := <-results
		if r.err != nil || r.status != 404 && r.status != 204 {
			t.Errorf("a request that waited got %d %s, %v", r.status, r.body, r.err)
		}
	}
	_, _ = io.ReadAll(events.Body)
	g.must(<-ended)
	if _, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://")); err == nil {
		t.Error("the server still listens")
	}
}

// The certificate is read again when its file has changed, and one that cannot be read leaves the old one in use.
func TestCertificates(t *testing.T) {
	t.Parallel()
	ca := redistest.NewAuthority(t)
	issue := func(name string, usage x509.ExtKeyUsage) {
		ca.Issue(t, name, &x509.Certificate{
			DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		})
	}
	issue("server", x509.ExtKeyUsageServerAuth)
	issue("shop", x509.ExtKeyUsageClientAuth)
	issue("ops", x509.ExtKeyUsageClientAuth)
	foreign := redistest.NewAuthority(t)
	foreign.Issue(t, "shop", &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	g := guarded(t, httpapi.Settings{Certificates: map[string]string{"shop": "shop"}, AdminCertificates: []string{"ops"}}, func(s *httpapi.Server) {
		s.Certificate, s.Key, s.ClientCA = ca.Crt("server"), ca.Key("server"), ca.Crt("ca")
	})
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(ca.Crt("ca"))
	g.must(err)
	roots.AppendCertsFromPEM(pem)
	url, admin := strings.Replace(g.url, "http:", "https:", 1), strings.Replace(g.admin, "http:", "https:", 1)
	as := func(from *redistest.Authority, name string) *gate {
		config := &tls.Config{RootCAs: roots}
		if name != "" {
			pair, err := tls.LoadX509KeyPair(from.Crt(name), from.Key(name))
			g.must(err)
			config.Certificates = []tls.Certificate{pair}
		}
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		return &gate{TB: t, client: &http.Client{Transport: transport}}
	}
	nobody, shop, ops := as(ca, ""), as(ca, "shop"), as(ca, "ops")
	g.want("no certificate and no token", nobody.ask("PUT", url+"/api/shop/mail", "x"), 401, "token not found")
	g.want("the namespace's certificate", shop.ask("PUT", url+"/api/shop/mail", "x"), 201, "job_id")
	g.want("for another namespace", shop.ask("PUT", url+"/api/blog/mail", "x"), 401, "token not found")
	g.want("one without a namespace", ops.ask("PUT", url+"/api/shop/mail", "x"), 401, "token not found")
	if _, err := as(foreign, "shop").try(t.Context(), "PUT", url+"/api/shop/mail", "x"); err == nil {
		t.Error("a certificate of another authority is taken")
	}
	g.want("an admin without a certificate", nobody.ask("GET", admin+"/tokens", ""), 401, "")
	g.want("an admin with a client's", shop.ask("GET", admin+"/tokens", ""), 401, "")
	g.want("an admin with its own", ops.ask("GET", admin+"/tokens", ""), 200, "tokens")
	for version, served := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		c, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != served {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			_ = c.Close()
		}
	}

	serial := func() string {
		c, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: roots})
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	issue("server", x509.ExtKeyUsageServerAuth)
	g.eventually("the new certificate is shown", func() bool { return serial() != first })
	second := serial()
	g.must(os.WriteFile(ca.Crt("server"), []byte("no certificate"), 0o600))
	g.eventually("the server says that it cannot be read", func() bool {
		return serial() == second && strings.Contains(g.said.String(), "the old ones stay in use")
	})
	g.want("still served", shop.ask("PUT", url+"/api/shop/mail", "x"), 201, "job_id")
	old, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS11})
	if err == nil {
		_ = old.Close()
		t.Error("TLS 1.1 is spoken")
	}
	s := httpapi.Server{API: g.api, Listen: "127.0.0.1:0", Certificate: ca.Crt("server")}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "give both") {
		t.Errorf("a certificate without a key: %v", err)
	}
}

// An open server serves its own machine only.
func TestOpenServer(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{Open: true})
	url := strings.Replace(g.url, "127.0.0.1", "localhost", 1)
	g.want("by name", g.ask("POST", url+"/v2/dev/queues/mail/jobs", "x"), 201, "id")
	g.want("by address", g.ask("POST", g.url+"/v2/dev/queues/mail/jobs", "x"), 201, "id")
	g.want("a page of this machine", g.ask("POST", g.url+"/v2/dev/queues/mail/jobs", "x", "Origin: http://localhost:3000"), 201, "id")
	for _, header := range []string{"Host: evil.example", "Host: 10.0.0.1:7777", "Origin: https://evil.example", "Origin: null"} {
		g.want(header, g.ask("POST", g.url+"/v2/dev/queues/mail/jobs", "x", header), 403, "own machine")
	}
}

// Each answer has an id: the proxy's, if it has sent one that is a name.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{})
	for sent, kept := range map[string]bool{"": false, "abc-1.2_3": true, strings.Repeat("x", 65): false, "a b": false, "ä": false} {
		r := g.ask("GET", g.url+"/healthz", "", "X-Request-ID: "+sent)
		if id := r.header.Get("X-Request-Id"); (id == sent) != kept || id == "" {
			t.Errorf("the id of %q is %q", sent, id)
		}
	}
	r := g.ask("GET", g.url+"/v2/shop/queues", "", "X-Request-ID: of-the-proxy")
	g.want("a problem", r, 401, `"instance":"of-the-proxy"`)
	if !strings.Contains(g.said.String(), `"request":"of-the-proxy"`) {
		t.Error("the log has no id")
	}
}

// Whatever a client sends as its token, it is answered and refused.
func FuzzTokens(f *testing.F) {
	redis := redistest.Start(f)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: redis.URI()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(client.Close)
	api, err := httpapi.New(client, httpapi.Settings{QuietAccess: true})
	if err != nil {
		f.Fatal(err)
	}
	if err := api.Start(context.Background()); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = api.Stop(context.Background()) })
	for _, seed := range []string{"", ":", "default:", "a:b:c", "Bearer ", "Bearer default:x", "\x00", strings.Repeat("x", 300), "default:\xff", "Basic eA=="} {
		f.Add(seed, seed, "shop")
	}
	f.Fuzz(func(t *testing.T, authorization, token, namespace string) {
		for _, path := range []string{"/v2/shop/queues", "/api/shop/mail/size"} {
			r := httptest.NewRequest("GET", path, nil)
			r.URL.Path = strings.Replace(path, "shop", namespace, 1)
			r.Header["Authorization"], r.Header["X-Token"] = []string{authorization}, []string{token}
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			if w.Code < 300 || w.Code >= 500 && w.Code != 503 {
				t.Errorf("%q, %q at %q: %d %s", authorization, token, r.URL.Path, w.Code, w.Body)
			}
			if len(token) > 20 && strings.Contains(w.Body.String(), token) && !strings.Contains(namespace, token) {
				t.Errorf("the answer has the token %q: %s", token, w.Body)
			}
			if _, err := bufio.NewReader(w.Body).Peek(1); err != nil && w.Code != 204 {
				t.Errorf("%d without a body", w.Code)
			}
		}
	})
}

// A handler that panics costs its own request, and the log says where, but not with what.
func TestPanics(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{})
	const secret = "VALUE-OF-THE-PANIC"
	on := newServer(t, g.api.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/late":
			w.WriteHeader(http.StatusOK)
			panic(secret)
		case "/index":
			var none []int
			_ = none[len(r.URL.Path)]
		}
		panic(fmt.Errorf("it is %s", secret))
	})))
	g.want("a panic", g.ask("GET", on.URL+"/", ""), 500, "the server has a defect")
	g.want("a runtime error", g.ask("GET", on.URL+"/index", ""), 500, "the server has a defect")
	if r, err := g.try(t.Context(), "GET", on.URL+"/late", ""); err == nil && r.body != "" {
		t.Errorf("a late panic got %d %s", r.status, r.body)
	}
	said := g.said.String()
	if strings.Contains(said, secret) || strings.Count(said, "a handler of the HTTP API panicked") != 3 || !strings.Contains(said, "index out of range [6]") || !strings.Contains(said, "server_test.go") {
		t.Errorf("the log is\n%s", said)
	}
}
