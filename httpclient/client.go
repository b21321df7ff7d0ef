package httpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// DefaultRetries is how often a request is repeated at most, where it may be.
	DefaultRetries = 4

	// DefaultTimeout bounds one attempt, beside the time that the server is asked to wait.
	DefaultTimeout = 30 * time.Second

	firstPause = 100 * time.Millisecond
	mostPause  = 10 * time.Second

	// mostProblem is how much of an error's body is read.
	mostProblem = 64 << 10
)

// Client calls the API for one namespace. It is safe for concurrent use.
type Client struct {
	base    string // with the namespace, without a slash at the end
	token   string
	http    *http.Client
	retries int
	timeout time.Duration
}

// Option is an option of New.
type Option func(*Client)

// Token gives the client a token. It is sent as Authorization: Bearer.
func Token(token string) Option { return func(c *Client) { c.token = token } }

// HTTPClient has the requests sent by a client of the program's, for TLS, proxies and tracing. A Timeout of it must be
// longer than the server is asked to wait.
func HTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// Retries sets how often a request is repeated at most that may be; 0 for never. The default is DefaultRetries.
func Retries(n int) Option { return func(c *Client) { c.retries = n } }

// Timeout bounds one attempt of a request, beside the time that the server is asked to wait. The default is DefaultTimeout.
func Timeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// New returns a Client for a namespace of the API at a URL, which may have a path.
func New(server, namespace string, opts ...Option) (*Client, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil:
		return nil, errors.New("httpclient: the URL of the server cannot be read; write it as https://jobs.example.com")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("httpclient: %s is no URL of a server; write it as https://jobs.example.com", u.Redacted())
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("httpclient: the URL %s has more than a host and a path; give the token with Token", u.Redacted())
	case namespace == "":
		return nil, errors.New("httpclient: the namespace is empty; give the one that the token is of")
	}
	c := &Client{
		base: strings.TrimSuffix(u.String(), "/") + "/v2/" + url.PathEscape(namespace),
		http: http.DefaultClient, retries: DefaultRetries, timeout: DefaultTimeout,
	}
	for _, opt := range opts {
		opt(c)
	}
	if c.http == nil || c.retries < 0 || c.timeout <= 0 {
		return nil, errors.New("httpclient: an option of New is nil, negative or zero; leave it out for its default")
	}
	return c, nil
}

// request is a request that may be sent several times.
type request struct {
	method string
	path   string // behind the namespace
	query  url.Values
	header http.Header
	body   []byte

	again bool          // it may be repeated although an attempt may have been done
	gone  bool          // a repetition that finds nothing is no error: the attempt before has done it
	wait  time.Duration // how long the server is asked to wait
}

// path joins segments of a path.
func path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// answer is what the server answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// decode reads the JSON of an answer.
func (a *answer) decode(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("httpclient: the server's answer cannot be read, so it is none of this API: %w", err)
	}
	return nil
}

// do sends a request, and repeats it while it fails in a way that may pass. An answer with an error is a *Problem.
func (c *Client) do(ctx context.Context, r request) (*answer, error) {
	for attempt, lost := 0, false; ; attempt++ {
		a, sent, err := c.once(ctx, &r)
		if err == nil || lost && r.gone && errors.Is(err, ErrNotFound) {
			return a, nil
		}
		var p *Problem
		lost = lost || sent && (!errors.As(err, &p) || p.Status >= http.StatusInternalServerError)
		pause, may := retryable(err, sent, r.again, attempt)
		if !may || attempt >= c.retries || ctx.Err() != nil {
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// once sends a request once. sent says that the server may have got it.
func (c *Client) once(ctx context.Context, r *request) (a *answer, sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+r.wait)
	defer cancel()
	to := c.base + r.path
	if len(r.query) > 0 {
		to += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, to, body)
	if err != nil {
		return nil, false, fmt.Errorf("httpclient: %w", err)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		var op *net.OpError
		unsent := errors.As(err, &op) && op.Op == "dial"
		return nil, !unsent, fmt.Errorf("httpclient: %s %s: %w", r.method, r.path, bare(err))
	}
	defer res.Body.Close()
	a = &answer{status: res.StatusCode, header: res.Header}
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(res.Body, mostProblem))
		return nil, true, problemOf(res, text)
	}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		return nil, true, fmt.Errorf("httpclient: reading the answer to %s %s: %w", r.method, r.path, err)
	}
	return a, true, nil
}

// bare is an error of net/http without the URL, in front of which its method and path stand.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryable reports whether a request may be sent once more, and after how long.
func retryable(err error, sent, again bool, attempt int) (pause time.Duration, may bool) {
	pause = min(firstPause<<min(attempt, 10), mostPause)
	pause = pause/2 + rand.N(pause/2+1)
	var p *Problem
	if !errors.As(err, &p) {
		return pause, again || !sent
	}
	if p.RetryAfter > 0 {
		pause = min(max(pause, p.RetryAfter), mostPause)
	}
	switch p.Status {
	case http.StatusTooManyRequests: // nothing was done
		return pause, true
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusInternalServerError:
		return pause, again || p.Name == "stopping"
	}
	return pause, false
}

// problemOf reads the problem of an answer. Something between client and server may have answered in another form.
func problemOf(res *http.Response, text []byte) *Problem {
	p := &Problem{Status: res.StatusCode, Title: http.StatusText(res.StatusCode)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/problem+json") {
		_ = json.Unmarshal(text, p)
		_ = json.Unmarshal(text, &p.Members)
		p.Status = res.StatusCode
		if at := strings.LastIndexAny(p.Type, "#/"); at >= 0 {
			p.Name = p.Type[at+1:]
		}
	}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
