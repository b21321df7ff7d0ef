package guard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func newRequest(method, target string, body io.Reader) (*http.Request, *httptest.ResponseRecorder) {
	r := httptest.NewRequest(method, target, body)
	r.Host = "localhost"
	return r, httptest.NewRecorder()
}

// TestCrossSite sends what browsers send with a form and a script of this site and of others.
func TestCrossSite(t *testing.T) {
	t.Parallel()
	s := serve(t, Settings{Identify: as(User{Name: "ada", Role: Admin}), Hosts: []string{"ops.example.com"}, TrustedOrigins: []string{"https://portal.example.com"}})
	for name, row := range map[string]struct {
		headers []string
		status  int
	}{
		"this site":                            {[]string{"Host: localhost:9292", "Origin: http://localhost:9292", "Sec-Fetch-Site: same-origin"}, 200},
		"the user's own entry":                 {[]string{"Sec-Fetch-Site: none"}, 200},
		"another site":                         {[]string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}, 403},
		"another port of the host":             {[]string{"Host: localhost:9292", "Origin: http://localhost:3000", "Sec-Fetch-Site: same-site"}, 403},
		"another name of the domain":           {[]string{"Host: ops.example.com", "Origin: https://blog.example.com", "Sec-Fetch-Site: same-site"}, 403},
		"a sandboxed page":                     {[]string{"Origin: null", "Sec-Fetch-Site: cross-site"}, 403},
		"a page without referrer, same origin": {[]string{"Origin: null", "Sec-Fetch-Site: same-origin"}, 200},
		"a sandboxed page over http to a name": {[]string{"Host: ops.example.com", "Origin: null"}, 403},
		"this site over http to a name":        {[]string{"Host: ops.example.com", "Origin: http://ops.example.com"}, 200},
		"another site over http to a name":     {[]string{"Host: ops.example.com", "Origin: http://evil.example"}, 403},
		"a port that differs":                  {[]string{"Host: ops.example.com", "Origin: http://ops.example.com:8080"}, 403},
		"an origin that is none":               {[]string{"Origin: ://"}, 403},
		"a value that no browser sends":        {[]string{"Sec-Fetch-Site: Same-Origin"}, 403},
		"a trusted site":                       {[]string{"Origin: https://portal.example.com", "Sec-Fetch-Site: cross-site"}, 200},
		"a trusted name over http":             {[]string{"Origin: http://portal.example.com", "Sec-Fetch-Site: cross-site"}, 403},
		"no browser":                           {nil, 200},
		"a method that is overridden":          {[]string{"X-Http-Method-Override: GET", "Sec-Fetch-Site: cross-site"}, 403},
		"behind nginx over https":              {[]string{"Host: 127.0.0.1:9292", "Origin: https://ops.example.com", "Sec-Fetch-Site: same-origin"}, 200},
		"behind nginx over http":               {[]string{"Host: 127.0.0.1:9292", "Origin: http://ops.example.com"}, 403},
	} {
		if a := s.ask(t, "POST", "/queues/a/clear", row.headers...); a.StatusCode != row.status {
			t.Errorf("%s: %d, want %d", name, a.StatusCode, row.status)
		}
		for _, method := range []string{"PUT", "DELETE", "PATCH", "POST"} {
			if a := s.ask(t, method, "/nowhere", row.headers...); (a.StatusCode == 403) != (row.status == 403) {
				t.Errorf("%s with %s: %d", name, method, a.StatusCode)
			}
		}
		s.ask(t, "GET", "/", row.headers...).want(t, 200)
		s.ask(t, "GET", "/queues/a/clear", row.headers...).want(t, 405)
	}
	s.ask(t, "POST", "/queues/a/clear", "Host: 127.0.0.1:9292", "Origin: http://ops.example.com").
		says(t, "proxy_set_header Host $http_host;").says(t, "TrustedOrigins").says(t, "http://ops.example.com")
	s.ask(t, "POST", "/queues/a/clear", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site").says(t, "another site")
}
