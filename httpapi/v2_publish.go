package httpapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/resque/leases"
)

// Content types that a publish reads as more than a body.
const (
	envelopeType = "application/vnd.goworker.job+json"
	manyType     = "application/x-ndjson"
	jsonType     = "application/json"
)

const (
	// MaxBatchJobs is how many jobs one request publishes at most.
	MaxBatchJobs = 1000

	maxIdempotencyKey = 255
)

// published is the answer to a publish of one job, and of many.
type published struct {
	ID  string   `json:"id,omitempty"`
	IDs []string `json:"ids,omitempty"`
}

// batch is the jobs of a request.
type batch struct {
	jobs []gateway.Publication
	many bool        // the request is a list, of one job perhaps
	once leases.Once // without a key it is empty
}

// publish publishes the jobs of a request.
func (c *v2Call) publish() (response, error) {
	b, err := c.publications(nil)
	if err != nil {
		return response{}, err
	}
	ids, header, err := c.push(b)
	if err != nil {
		return response{}, err
	}
	if b.many {
		return response{status: http.StatusCreated, body: published{IDs: ids}, header: header}, nil
	}
	// A relative reference holds below any prefix that the API is served under.
	header.Set("Location", "jobs/"+url.PathEscape(ids[0]))
	return response{status: http.StatusCreated, body: published{ID: ids[0]}, header: header}, nil
}

// republish publishes a job in the place of another one, which is done.
func (c *v2Call) republish() (response, error) {
	b, err := c.publications(nil)
	switch {
	case err != nil:
		return response{}, err
	case b.many:
		return response{}, invalid("Content-Type", "one job is published in place of another; send one, not a list of them")
	}
	refund, refused := c.x.spend(c.ctx(), rateWrite)
	if refused != nil {
		return response{}, refused.problem()
	}
	id, replayed, err := c.x.gateway().Republish(c.ctx(), b.once, c.in, c.id(), b.jobs[0])
	if err != nil {
		refund()
		return response{}, ofJob(err)
	}
	header := http.Header{"Location": {"./" + url.PathEscape(id)}}
	if replayed {
		header.Set("Idempotent-Replayed", "true")
	}
	return response{status: http.StatusCreated, body: published{ID: id}, header: header}, nil
}

// push publishes jobs and returns their ids. With an idempotency key it publishes them once.
func (c *v2Call) push(b batch) (ids []string, header http.Header, err error) {
	header = make(http.Header)
	refund, refused := c.x.spend(c.ctx(), rateWrite)
	if refused != nil {
		return nil, nil, refused.problem()
	}
	if b.once.Key == "" {
		ids, err = c.x.gateway().Publish(c.ctx(), b.jobs...)
	} else {
		var replayed bool
		if ids, replayed, err = c.x.gateway().PublishOnce(c.ctx(), b.once, b.jobs...); replayed {
			header.Set("Idempotent-Replayed", "true")
		}
	}
	if err != nil {
		p := ofJob(err)
		if len(ids) > 0 { // they are there
			return nil, nil, p.with("ids", ids)
		}
		refund()
		return nil, nil, p
	}
	return ids, header, nil
}

// publications reads the jobs of a request. Parameters of the query that are the call's own are no options of a job.
func (c *v2Call) publications(own []string) (b batch, err error) {
	contentType, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil {
		contentType = "" // any bytes
	}
	most := c.api.settings.MaxBody
	if b.many = contentType == manyType; b.many {
		most = max(most, c.api.settings.MaxBatch)
	}
	body, refused := readBody(c.w, c.r, most)
	if refused != nil {
		return b, refused.problem()
	}
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return b, invalid("query", "the query cannot be read; percent-encode its names and values")
	}
	meta := metaOf(c.r.Header)
	if b.many {
		if err := noOptions(query, own); err != nil {
			return b, err
		}
		b.jobs, err = c.lines(body, meta)
	} else {
		b.jobs, err = c.one(contentType, body, query, own, meta)
	}
	if err != nil {
		return b, err
	}
	for i := range b.jobs {
		p := &b.jobs[i]
		p.Class, p.Most = cmp.Or(p.Class, c.x.class()), c.x.most()
	}
	b.once, err = c.once(body, query, own)
	return b, err
}

// one is the job of a request that has one.
func (c *v2Call) one(contentType string, body []byte, query url.Values, own []string, meta map[string]string) ([]gateway.Publication, error) {
	var e envelope
	if contentType == envelopeType {
		if err := noOptions(query, own); err != nil {
			return nil, err
		}
		if err := decode(body, &e); err != nil {
			return nil, err
		}
		p, err := e.publication(c.in, meta)
		return []gateway.Publication{p}, err
	}
	if err := e.query(query, own...); err != nil {
		return nil, err
	}
	p, err := e.publication(c.in, meta)
	if err != nil {
		return nil, err
	}
	p.Args, err = argumentOf(body, contentType == jsonType)
	return []gateway.Publication{p}, err
}

// noOptions returns an error if the query has options, where the body has them.
func noOptions(query url.Values, own []string) error {
	for name := range query {
		if queryOptions[name] != nil {
			return invalid(name, fmt.Sprintf("the query has %s, and the body is an envelope; put it into the envelope", name))
		}
	}
	return (&envelope{}).query(query, own...)
}

// lines are the jobs of a body that has an envelope a line. Empty lines are passed over.
func (c *v2Call) lines(body []byte, meta map[string]string) ([]gateway.Publication, error) {
	var jobs []gateway.Publication
	number := 0
	for line := range bytes.SplitSeq(body, []byte{'\n'}) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(jobs) == MaxBatchJobs {
			return nil, newProblem("too-many-jobs", fmt.Sprintf("the body has more than %d jobs; publish them in several requests", MaxBatchJobs), "most", MaxBatchJobs)
		}
		if len(line) > c.api.settings.MaxBody {
			return nil, newProblem("body-too-large", fmt.Sprintf("the job on line %d has %d bytes, and %d are allowed; keep large data elsewhere and publish where it is", number, len(line), c.api.settings.MaxBody),
				"most", c.api.settings.MaxBody, "line", number)
		}
		var e envelope
		err := decode(line, &e)
		var p gateway.Publication
		if err == nil {
			p, err = e.publication(c.in, meta)
		}
		if err == nil && p.Unique != nil {
			err = invalid("unique", "unique is for a job that is published alone: many jobs are published all or none, and its lock may leave this one out; send it in a request of its own")
		}
		if err != nil {
			return nil, onLine(err, number)
		}
		jobs = append(jobs, p)
	}
	if len(jobs) == 0 {
		return nil, invalidJSON(nil, 0, "the body has no job; send an envelope a line")
	}
	return jobs, nil
}

// onLine names the line of a job in its problem.
func onLine(err error, line int) error {
	var p *problem
	if errors.As(err, &p) {
		p.with("line", line)
		p.detail = fmt.Sprintf("line %d: %s", line, p.detail)
	}
	return err
}

// once returns the idempotency key of the request; without one it is empty. The key is the token's and the path's. The
// request is the same if all that makes its jobs is.
func (c *v2Call) once(body []byte, query url.Values, own []string) (o leases.Once, err error) {
	keys := c.r.Header.Values("Idempotency-Key")
	if len(keys) == 0 {
		return o, nil
	}
	key := keys[0]
	if key == "" || len(key) > maxIdempotencyKey || len(keys) > 1 {
		return o, invalid("Idempotency-Key", fmt.Sprintf("the header Idempotency-Key has to be there once, with 1 to %d bytes; a random UUID for each job is a good one", maxIdempotencyKey))
	}
	for _, name := range own {
		query.Del(name)
	}
	request := []string{c.r.Header.Get("Content-Type"), query.Encode(), string(body)}
	for _, name := range sortedMeta(c.r.Header) {
		request = append(request, name, c.r.Header.Get(name))
	}
	return leases.Once{
		Key:         newDigest("v2", c.x.Token, c.x.Namespace, c.r.Method, c.in, c.r.Pattern, c.id(), key),
		Fingerprint: newDigest(request...),
	}, nil
}

// sortedMeta are the names of the headers that give a job metadata. A trace is not one: a retry may have another span.
func sortedMeta(h http.Header) (names []string) {
	for name := range h {
		if strings.HasPrefix(name, metaHeader) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// newDigest is a digest of several texts, in which none runs into the next.
func newDigest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:", len(t))
		_, _ = io.WriteString(h, t)
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}
