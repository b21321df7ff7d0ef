package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
)

// envelope is a job as a producer describes it in JSON, or by the parameters of a query.
type envelope struct {
	Class      string            `json:"class"`
	Args       json.RawMessage   `json:"args"`
	Body       json.RawMessage   `json:"body"`
	BodyBase64 *string           `json:"body_base64"`
	DelayMs    *int64            `json:"delay_ms"`
	At         *moment           `json:"at"`
	TTLMs      *int64            `json:"ttl_ms"`
	ExpiresAt  *moment           `json:"expires_at"`
	Tries      *int64            `json:"tries"`
	TimeoutMs  *int64            `json:"timeout_ms"`
	Priority   *int64            `json:"priority"`
	Meta       map[string]string `json:"meta"`
	Unique     *uniqueness       `json:"unique"`
	ResultTTL  *int64            `json:"result_ttl_ms"`
	ID         *string           `json:"id"`
}

// uniqueness is the lock of a job: true, or an object.
type uniqueness struct {
	off   bool
	Key   string `json:"key"`
	Until string `json:"until"`
	ForMs *int64 `json:"for_ms"`
}

func (u *uniqueness) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "true":
		return nil
	case "false", "null":
		u.off = true
		return nil
	}
	type plain uniqueness
	if text[0] != '{' {
		return invalid("unique", `unique is neither true nor an object such as {"key":"report"}`)
	}
	return decode(text, (*plain)(u))
}

const (
	// maxDelay is how far ahead a job may be due: as far as the id can tell, in seconds.
	maxDelay = math.MaxUint32 * time.Second

	// maxTTL is how long a job may live.
	maxTTL = results.MaxTTL

	maxTimeout  = 30 * 24 * time.Hour
	maxTries    = 1<<16 - 1
	maxPriority = 2
	maxClass    = 255
	maxLockKey  = 1024
)

// queryOptions are the parameters of a query that describe a job, each with what it sets.
var queryOptions = map[string]func(e *envelope, value string) error{
	"class":         func(e *envelope, v string) error { e.Class = v; return nil },
	"id":            func(e *envelope, v string) error { e.ID = &v; return nil },
	"delay_ms":      func(e *envelope, v string) error { return number("delay_ms", v, &e.DelayMs) },
	"ttl_ms":        func(e *envelope, v string) error { return number("ttl_ms", v, &e.TTLMs) },
	"tries":         func(e *envelope, v string) error { return number("tries", v, &e.Tries) },
	"timeout_ms":    func(e *envelope, v string) error { return number("timeout_ms", v, &e.TimeoutMs) },
	"priority":      func(e *envelope, v string) error { return number("priority", v, &e.Priority) },
	"result_ttl_ms": func(e *envelope, v string) error { return number("result_ttl_ms", v, &e.ResultTTL) },
	"at":            func(e *envelope, v string) error { m := momentOf(v); e.At = &m; return nil },
	"expires_at":    func(e *envelope, v string) error { m := momentOf(v); e.ExpiresAt = &m; return nil },
	"unique": func(e *envelope, v string) error {
		if e.Unique = (&uniqueness{Key: v}); v == "true" {
			e.Unique.Key = ""
		}
		return nil
	},
}

// query reads what the query says of a job. own are parameters of the call itself.
func (e *envelope) query(q url.Values, own ...string) error {
	for name, values := range q {
		if slices.Contains(own, name) {
			continue
		}
		set := queryOptions[name]
		switch {
		case set == nil:
			return invalid(printable(name), fmt.Sprintf("the query has a parameter %s that this call does not know; leave it out, or write it as /openapi.json does", quoted(name)))
		case len(values) > 1:
			return invalid(name, fmt.Sprintf("the query has %s more than once; give it once", name))
		}
		if err := set(e, values[0]); err != nil {
			return err
		}
	}
	return nil
}

func number(name, text string, into **int64) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return invalid(name, fmt.Sprintf("%s is %s and has to be a whole number", name, quoted(text)))
	}
	*into = &n
	return nil
}

// publication is the job for the gateway. The metadata of the request's headers is that of the job too; the job's own goes
// before it.
func (e *envelope) publication(queue string, meta map[string]string) (p gateway.Publication, err error) {
	p = gateway.Publication{Queue: queue, Class: e.Class}
	if !isClass(e.Class) {
		return p, invalid("class", fmt.Sprintf("class has more than %d bytes, has a control character or is not UTF-8; give another class", maxClass))
	}
	if p.Args, err = e.arguments(); err != nil {
		return p, err
	}
	if p.Meta, err = joinMeta(meta, e.Meta); err != nil {
		return p, err
	}
	if e.ID != nil {
		if err := checkID(*e.ID); err != nil {
			return p, err
		}
		p.ID, p.Chosen = *e.ID, true
	}
	if err := e.times(&p); err != nil {
		return p, err
	}
	if p.Tries, err = bounded("tries", e.Tries, 1, maxTries); err != nil {
		return p, err
	}
	if p.Priority, err = bounded("priority", e.Priority, 0, maxPriority); err != nil {
		return p, err
	}
	if p.Timeout, err = millis("timeout_ms", e.TimeoutMs, time.Millisecond, maxTimeout); err != nil {
		return p, err
	}
	if p.Result, err = millis("result_ttl_ms", e.ResultTTL, time.Millisecond, results.MaxTTL); err != nil {
		return p, err
	}
	p.Unique, err = e.Unique.lock()
	return p, err
}

// times reads when the job is due and how long it may be started.
func (e *envelope) times(p *gateway.Publication) (err error) {
	switch {
	case e.DelayMs != nil && e.At != nil:
		return invalid("at", "delay_ms and at both say when the job is due; give one of them")
	case e.TTLMs != nil && e.ExpiresAt != nil:
		return invalid("expires_at", "ttl_ms and expires_at both say how long the job lives; give one of them")
	}
	if p.At, err = e.At.of("at"); err != nil {
		return err
	}
	if p.ExpiresAt, err = e.ExpiresAt.of("expires_at"); err != nil {
		return err
	}
	if p.Delay, err = millis("delay_ms", e.DelayMs, 0, maxDelay); err == nil {
		p.TTL, err = millis("ttl_ms", e.TTLMs, 0, maxTTL)
	}
	switch {
	case err != nil:
		return err
	case p.TTL > 0 && p.TTL <= p.Delay:
		return invalid("ttl_ms", fmt.Sprintf("ttl_ms is %d and delay_ms is %d, so the job would be over when it is due; give it a longer time", *e.TTLMs, *e.DelayMs))
	case !p.At.IsZero() && !p.ExpiresAt.IsZero() && !p.ExpiresAt.After(p.At):
		return invalid("expires_at", "expires_at is not after at, so the job would be over when it is due; give it a later time")
	}
	return nil
}

// bounded is a number of a request; 0 if it is not given.
func bounded(name string, n *int64, least, most int64) (int, error) {
	if n == nil {
		return 0, nil
	}
	if *n < least || *n > most {
		return 0, invalid(name, fmt.Sprintf("%s is %d and has to be from %d to %d", name, *n, least, most))
	}
	return int(*n), nil
}

// holds are the words for how long a job holds its lock.
var holds = map[string]gateway.Hold{"": gateway.UntilDone, "done": gateway.UntilDone, "start": gateway.UntilStarted, "elapsed": gateway.UntilElapsed}

// lock is the lock of the job for the gateway.
func (u *uniqueness) lock() (*gateway.Unique, error) {
	if u == nil || u.off {
		return nil, nil
	}
	hold, ok := holds[u.Until]
	if !ok {
		return nil, invalid("unique.until", fmt.Sprintf("unique.until is %s and has to be done, start or elapsed", quoted(u.Until)))
	}
	lock := &gateway.Unique{Key: u.Key, Hold: hold}
	if len(u.Key) > maxLockKey {
		return nil, invalid("unique.key", fmt.Sprintf("unique.key has %d bytes, and %d are allowed; give a shorter one", len(u.Key), maxLockKey))
	}
	if hold == gateway.UntilElapsed && u.ForMs == nil {
		return nil, invalid("unique.for_ms", "unique.until is elapsed, and unique.for_ms does not say how long the lock lasts; give it")
	}
	var err error
	lock.Most, err = millis("unique.for_ms", u.ForMs, time.Millisecond, maxTTL)
	return lock, err
}

// arguments are the list of the job's arguments: those that are given, or a body as the only one.
func (e *envelope) arguments() (json.RawMessage, error) {
	given := 0
	for _, is := range []bool{e.Args != nil, e.Body != nil, e.BodyBase64 != nil} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, invalid("args", "args, body and body_base64 all say what the job gets; give one of them")
	case e.BodyBase64 != nil:
		body, err := base64.StdEncoding.DecodeString(*e.BodyBase64)
		if err != nil {
			return nil, invalid("body_base64", "body_base64 is not in base 64 with padding; encode the bytes of the body so")
		}
		return argumentOf(body, false)
	case e.Body != nil:
		if e.Body[0] == '"' {
			return argumentOf([]byte(payload.StringValue(e.Body)), false)
		}
		return argumentOf(e.Body, true)
	case e.Args == nil:
		return json.RawMessage("[]"), nil
	case e.Args[0] != '[':
		return nil, invalid("args", "args is no list; give the arguments as a JSON list, or a body")
	case !payload.WellFormed(e.Args, httpjob.MaxDepth+1):
		return nil, newProblem("too-deep", fmt.Sprintf("args are nested deeper than %d levels; flatten them, or send the JSON as the text of a body", httpjob.MaxDepth+1), "most", httpjob.MaxDepth+1)
	}
	return compacted(e.Args), nil
}

// argumentOf is the list of the one argument that a body is.
func argumentOf(body []byte, isJSON bool) (json.RawMessage, error) {
	list := append(make([]byte, 0, len(body)+len(body)/8+4), '[')
	if !isJSON {
		return append(httpjob.AppendBytes(list, body), ']'), nil
	}
	list, ok := httpjob.AppendJSON(list, body)
	if !ok {
		return nil, jsonProblem(body)
	}
	return append(list, ']'), nil
}

// jsonProblem says where a body that should be JSON is none.
func jsonProblem(body []byte) error {
	var v any
	if err := decode(body, &v); err != nil {
		return err
	}
	return invalidJSON(body, 0, "the body has the type application/json and is empty; send JSON, or another type")
}

// compacted is JSON on one line: a payload in Redis has no line breaks between its values.
func compacted(list json.RawMessage) json.RawMessage {
	if !bytes.ContainsAny(list, "\n\r\t") {
		return list
	}
	var b bytes.Buffer
	if json.Compact(&b, list) != nil {
		return list
	}
	return b.Bytes()
}

// checkID returns why an id cannot be a job's.
func checkID(id string) error {
	if err := httpjob.CheckID(id); err != nil {
		return invalid("id", err.Error())
	}
	return nil
}
