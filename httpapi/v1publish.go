package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// v1Params are the parameters of a publish.
type v1Params struct {
	delay, ttl uint64 // in s
	tries      uint64
	versioned  bool
}

// publishParams reads the parameters in lmstfy's order. It answers if one is wrong.
func (c *v1Call) publishParams() (p v1Params, ok bool) {
	s := &c.settings.Defaults
	wrong := ""
	if p.delay, ok = c.number("delay", seconds(s.Delay), 32); !ok {
		wrong = "invalid delay"
	} else if p.ttl, ok = c.number("ttl", seconds(s.TTL), 32); !ok {
		wrong = "invalid ttl"
	} else if p.ttl > 0 && p.ttl < p.delay {
		wrong = "ttl is shorter than delay"
	} else if p.tries, ok = c.number("tries", uint64(s.Tries), 16); !ok {
		wrong = "invalid tries"
	} else if p.tries == 0 {
		wrong = "tries shouldn't be zero"
	} else if !isClass(c.param("class", "")) {
		wrong = "invalid class"
	}
	if wrong != "" {
		c.refuse(http.StatusBadRequest, wrong)
		return p, false
	}
	p.versioned = strings.EqualFold(c.r.Header.Get("Enable-Job-Version"), "YES")
	return p, true
}

// mostClass is how many bytes a class has at most that a request names.
const mostClass = 255

// isClass reports whether a request may name this class, or none.
func isClass(name string) bool {
	return len(name) <= mostClass && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

func seconds(d time.Duration) uint64 { return uint64(d / time.Second) }

// publication returns a job to publish, but for its arguments.
func (c *v1Call) publication(p v1Params, meta map[string]string) gateway.Publication {
	job := gateway.Publication{
		Queue: c.x.queue(c.queue), Class: cmp.Or(c.param("class", ""), c.x.class()), Meta: meta,
		Delay: time.Duration(p.delay) * time.Second, TTL: time.Duration(p.ttl) * time.Second, Tries: int(p.tries), Most: c.x.most(),
	}
	if httpjob.IsReply(job.Queue) && p.delay == 0 && (job.TTL == 0 || job.TTL > httpjob.ReplyTTL) {
		job.TTL = httpjob.ReplyTTL
	}
	if p.versioned {
		job.ID = string(httpjob.Version) + httpjob.NewID(c.x.gateway().Now(), uint32(p.delay))
	}
	return job
}

// meta returns the metadata of a publish: its attributes, and what tells traces apart. It answers if there are too
// many attributes.
func (c *v1Call) meta(versioned bool) (meta map[string]string, ok bool) {
	if versioned {
		meta = attributesIn(c.r.Header)
	}
	if len(meta) > v1MostAttributes {
		c.refuse(http.StatusBadRequest, "too many attributes, cannot exceed 16")
		return nil, false
	}
	if meta[traceparent] != "" || meta[tracestate] != "" { // the producer's attributes come back as they are
		return meta, true
	}
	return withTrace(meta, c.r.Header), true
}

// Limits of an attribute, in bytes.
const (
	v1AttributeName  = 32
	v1AttributeValue = 128
)

const v1AttributePrefix = "Job-Attr-"

// attributesIn returns the attributes in a header. Names and values that are too long are cut, as lmstfy does.
func attributesIn(h http.Header) map[string]string {
	var all map[string]string
	for key, values := range h {
		name, is := strings.CutPrefix(key, v1AttributePrefix)
		if !is || len(values) == 0 || values[0] == "" {
			continue
		}
		if all == nil {
			all = make(map[string]string)
		}
		all[strings.ToLower(cut(name, v1AttributeName))] = cut(values[0], v1AttributeValue)
	}
	return all
}

// cut returns the first bytes of a text, without a character that is cut in two. What is not UTF-8 is replaced, since
// a payload is.
func cut(text string, most int) string {
	if len(text) > most {
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func (c *v1Call) publish() {
	refund, refused := c.x.spend(c.r.Context(), rateWrite)
	if refused != nil {
		c.turnAway(refused)
		return
	}
	if !c.publishOne("") {
		refund()
	}
}

// republish ends a job and publishes another one in its place. lmstfy does not count it against the limit.
func (c *v1Call) republish() { c.publishOne(c.id) }

// publishOne publishes the body, in the place of a job if there is an id, and reports whether it did.
func (c *v1Call) publishOne(instead string) bool {
	p, ok := c.publishParams()
	if !ok {
		return false
	}
	body, ok := c.body(c.settings.MaxBody, "body too large")
	if !ok {
		return false
	}
	meta, ok := c.meta(p.versioned)
	if !ok {
		return false
	}
	job := c.publication(p, meta)
	job.Args = append(httpjob.AppendBytes([]byte{'['}, body), ']')
	once, ok := c.once(body)
	if !ok {
		return false
	}
	var ids []string
	var err error
	if instead == "" {
		ids, err = c.push(once, job)
	} else {
		var id string
		var replayed bool
		if id, replayed, err = c.x.gateway().Republish(c.ctx(), once, job.Queue, instead, job); id != "" {
			ids = []string{id}
		}
		c.replayed(replayed)
	}
	return c.published(ids, err, func(ids []string) []byte {
		text := append(make([]byte, 0, 64+len(ids[0])), `{"job_id":`...)
		return append(appendV1Text(text, ids[0]), `,"msg":"published"}`...)
	})
}

// push publishes jobs: with an idempotency key once.
func (c *v1Call) push(once leases.Once, jobs ...gateway.Publication) (ids []string, err error) {
	if once.Key == "" {
		return c.x.gateway().Publish(c.ctx(), jobs...)
	}
	ids, replayed, err := c.x.gateway().PublishOnce(c.ctx(), once, jobs...)
	c.replayed(replayed)
	return ids, err
}

// replayed has the answer say whether it is that of an earlier request.
func (c *v1Call) replayed(is bool) {
	if is {
		c.w.Header().Set("Idempotent-Replayed", "true")
	}
}

func (c *v1Call) publishBulk() {
	refund, refused := c.x.spend(c.r.Context(), rateWrite)
	if refused != nil {
		c.turnAway(refused)
		return
	}
	if !c.publishAll() {
		refund()
	}
}

func (c *v1Call) publishAll() bool {
	p, ok := c.publishParams()
	if !ok {
		return false
	}
	body, ok := c.body(max(c.settings.MaxBody, c.settings.MaxBatch), "body too large")
	if !ok {
		return false
	}
	var bodies []json.RawMessage
	wrong, status := "", http.StatusBadRequest
	switch err := json.Unmarshal(body, &bodies); {
	case err != nil:
		wrong = "request body should be an array of objects"
	case len(bodies) == 0:
		wrong = "no jobs"
	case len(bodies) > v1MostBulk:
		wrong = "too many jobs"
	}
	for _, b := range bodies {
		if wrong == "" && len(b) > c.settings.MaxBody {
			wrong, status = "job too large", http.StatusRequestEntityTooLarge
		}
	}
	if wrong != "" {
		c.refuse(status, wrong)
		return false
	}
	meta, ok := c.meta(p.versioned)
	if !ok {
		return false
	}
	jobs := make([]gateway.Publication, len(bodies))
	for i, b := range bodies {
		jobs[i] = c.publication(p, meta)
		args, _ := httpjob.AppendJSON([]byte{'['}, b) // an element of a list in JSON is JSON
		jobs[i].Args = append(args, ']')
	}
	once, ok := c.once(body)
	if !ok {
		return false
	}
	ids, err := c.push(once, jobs...)
	return c.published(ids, err, func(ids []string) []byte {
		text := append(make([]byte, 0, 64*len(ids)), `{"job_ids":[`...)
		for i, id := range ids {
			if i > 0 {
				text = append(text, ',')
			}
			text = appendV1Text(text, id)
		}
		return append(text, `],"msg":"published"}`...)
	})
}

// published answers to a publish, and reports whether the jobs are there.
func (c *v1Call) published(ids []string, err error, body func(ids []string) []byte) bool {
	var large *payload.SizeError
	var replicas *resque.ReplicasError
	switch {
	case err == nil:
	case errors.Is(err, leases.ErrKeyReused):
		c.refuse(http.StatusUnprocessableEntity, "the idempotency key was used for another request")
		return false
	case errors.As(err, &large):
		c.refuse(http.StatusRequestEntityTooLarge, "body too large")
		return false
	case errors.As(err, &replicas) && len(ids) > 0: // the jobs are there: a client that publishes again makes others
		c.logFailure(c.r, "jobs were published and too few replicas have them", err)
		c.answer(http.StatusInternalServerError, struct {
			Error string   `json:"error"`
			IDs   []string `json:"job_ids"`
		}{"too few replicas have the jobs", ids})
		return false
	default:
		c.fail("jobs could not be published", err)
		return false
	}
	c.write(http.StatusCreated, body(ids))
	return true
}

// body reads the body of the request, and answers if it cannot.
func (c *v1Call) body(most int, large string) ([]byte, bool) {
	body, refused := readBody(c.w, c.r, most)
	switch {
	case refused == nil:
		return body, true
	case refused.status == http.StatusRequestEntityTooLarge:
		c.refuse(refused.status, large)
	default:
		c.refuse(http.StatusBadRequest, "failed to read body")
	}
	return nil, false
}

// mostKey is how many bytes an idempotency key has at most.
const mostKey = 255

// once returns the idempotency key of a publish, a zero one for none. It answers if the key is too long.
func (c *v1Call) once(body []byte) (key leases.Once, ok bool) {
	name := c.r.Header.Get("Idempotency-Key")
	switch {
	case name == "":
		return key, true
	case len(name) > mostKey:
		c.refuse(http.StatusBadRequest, "the idempotency key is too long, cannot exceed 255 bytes")
		return key, false
	}
	query := c.r.URL.Query()
	query.Del("token")
	fingerprint := newDigest("request", query.Encode(), string(body))
	attributes := attributesIn(c.r.Header)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		fingerprint = newDigest(fingerprint, name, attributes[name])
	}
	return leases.Once{Key: newDigest("key", c.x.Token, c.namespace, c.r.Method, c.r.URL.Path, name), Fingerprint: fingerprint}, true
}
