package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// tryWithin is how long an attempt may take.
	tryWithin = 5 * time.Second

	// mostRest is the longest Retry-After that a deliverer obeys.
	mostRest = time.Hour

	// mostRead is how many bytes of an answer are read, so that the connection can be used again.
	mostRead = 64 << 10
)

// target is where deliveries go.
type target interface {
	// try makes one attempt. rest is for how long the receiver wants no further delivery.
	try(ctx context.Context, id string, body []byte) (rest time.Duration, err error)
}

// errGone is the error of a receiver that answers 410.
var errGone = errors.New("the receiver answered 410 Gone: it wants no more deliveries; end the webhook, or give it another URL")

// httpTarget is an HTTP server.
type httpTarget struct {
	url    string
	key    []byte
	client *http.Client
	now    func() time.Time
}

func newHTTPTarget(s Settings, u *url.URL) *httpTarget {
	return &httpTarget{url: u.String(), key: s.Key, now: time.Now, client: &http.Client{
		Transport: s.Transport, Timeout: tryWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // no other server may get the body
	}}
}

func (t *httpTarget) try(ctx context.Context, id string, body []byte) (rest time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, hidden(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "goworker-webhook")
	r.Header.Set(DeliveryHeader, id)
	if len(t.key) > 0 {
		r.Header.Set(SignatureHeader, sign(t.now(), body, t.key))
	}
	answer, err := t.client.Do(r)
	if err != nil {
		return 0, hidden(err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, mostRead)
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return 0, nil
	case code == http.StatusGone:
		return 0, errGone
	case code >= 300 && code < 400:
		return 0, fmt.Errorf("the receiver answered %s, and redirects are not followed: give its own URL", answer.Status)
	default:
		return retryAfter(answer.Header.Get("Retry-After"), t.now()), fmt.Errorf("the receiver answered %s", answer.Status)
	}
}

// hidden removes the URL from an error, because it may hold a secret.
func hidden(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// retryAfter is for how long a receiver wants no further delivery, an hour at most.
func retryAfter(value string, now time.Time) time.Duration {
	var rest time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		rest = time.Duration(min(seconds, int(mostRest/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		rest = at.Sub(now)
	}
	return min(max(0, rest), mostRest)
}
