package httpapi

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/tokens"
)

// v1Prefix begins the paths of v1, which is lmstfy's API: its calls, statuses, texts and JSON.
const v1Prefix = "/api/"

// Limits of v1.
const (
	v1MostBulk       = 64
	v1MostCount      = 100
	v1MostQueues     = 100
	v1MostAcks       = 1000
	v1MostTTR        = 12 * time.Hour
	v1MostWait       = 10 * time.Minute
	v1MostAttributes = 16
	v1MostName       = math.MaxUint8
)

// v1Call is one request of v1.
type v1Call struct {
	*API
	w http.ResponseWriter
	r *http.Request
	x access

	namespace, queue, id string
	redisTime
}

// v1Within bounds what a call asks of Redis, but for the wait of a consumer.
const v1Within = 10 * time.Second

// v1Route is a call of v1. The words of its pattern behind the queue are compared; an id is any text.
type v1Route struct {
	method, pattern string
	need            scope
	serve           func(c *v1Call)
}

var v1Routes = []v1Route{
	{http.MethodPut, "/api/{ns}/{queue}", scopePublish, (*v1Call).publish},
	{http.MethodPut, "/api/{ns}/{queue}/bulk", scopePublish, (*v1Call).publishBulk},
	{http.MethodPut, "/api/{ns}/{queue}/job/{id}", scopePublish | scopeAck, (*v1Call).republish},
	{http.MethodGet, "/api/{ns}/{queue}", scopeConsume, (*v1Call).consume},
	{http.MethodDelete, "/api/{ns}/{queue}/job/{id}", scopeAck, (*v1Call).ack},
	{http.MethodPost, "/api/{ns}/{queue}/acks", scopeAck, (*v1Call).ackAll},
	{http.MethodPut, "/api/{ns}/{queue}/job/{id}/nack", scopeAck, (*v1Call).nack},
	{http.MethodPut, "/api/{ns}/{queue}/job/{id}/touch", scopeAck, (*v1Call).touch},
	{http.MethodGet, "/api/{ns}/{queue}/peek", scopePeek, (*v1Call).peek},
	{http.MethodGet, "/api/{ns}/{queue}/job/{id}", scopePeek, (*v1Call).peekJob},
	{http.MethodGet, "/api/{ns}/{queue}/size", scopePeek, (*v1Call).size},
	{http.MethodGet, "/api/{ns}/{queue}/deadletter/size", scopePeek, (*v1Call).deadSize},
	{http.MethodGet, "/api/{ns}/{queue}/deadletter", scopePeek, (*v1Call).deadHead},
	{http.MethodPut, "/api/{ns}/{queue}/deadletter", scopeAdmin, (*v1Call).respawn},
	{http.MethodDelete, "/api/{ns}/{queue}/deadletter", scopeAdmin, (*v1Call).deleteDead},
	{http.MethodDelete, "/api/{ns}/{queue}", scopeAdmin, (*v1Call).destroy},
	{http.MethodGet, "/api/{ns}", scopePeek, (*v1Call).queues},
}

// v1Patterns are the patterns of the routes, cut at their slashes.
var v1Patterns = func() (all [][]string) {
	for _, route := range v1Routes {
		all = append(all, strings.Split(route.pattern[len(v1Prefix):], "/"))
	}
	return all
}()

// findV1 returns the route of a request and what its path names. A ServeMux would answer a path with two slashes by
// sending the client to another one, and name the token of the query in its answer.
func findV1(method, path string) (route *v1Route, namespace, queue, id string) {
	rest, ok := strings.CutPrefix(path, v1Prefix)
	if !ok {
		return nil, "", "", ""
	}
	if rest == "" {
		return nil, "", "", ""
	}
	words := slices.AppendSeq(make([]string, 0, 8), strings.SplitSeq(strings.TrimSuffix(rest, "/"), "/"))
	for i := range v1Routes {
		if v1Routes[i].method != method || len(v1Patterns[i]) != len(words) {
			continue
		}
		if namespace, queue, id, ok := matchV1(v1Patterns[i], words); ok {
			return &v1Routes[i], namespace, queue, id
		}
	}
	return nil, "", "", ""
}

func matchV1(pattern, words []string) (namespace, queue, id string, ok bool) {
	for i, p := range pattern {
		switch p {
		case "{ns}":
			namespace = words[i]
		case "{queue}":
			queue = words[i]
		case "{id}":
			id = words[i]
		default:
			if p != words[i] {
				return "", "", "", false
			}
		}
	}
	return namespace, queue, id, true
}

func (a *API) serveV1(w http.ResponseWriter, r *http.Request) {
	route, namespace, queue, id := findV1(r.Method, r.URL.Path)
	c := v1Call{API: a, w: w, r: r, namespace: namespace, queue: queue, id: id, redisTime: redisTime{brief: &a.guard.brief}}
	if route == nil {
		c.refuse(http.StatusNotFound, "api not found")
		return
	}
	r.Pattern = route.method + " " + route.pattern
	several := route.pattern == "/api/{ns}/{queue}" && route.method == http.MethodGet
	if message := checkV1Names(namespace, queue, route.pattern == "/api/{ns}", several); message != "" {
		c.refuse(http.StatusBadRequest, message)
		return
	}
	admit := a.admit
	if a.settings.PublicSizes && strings.HasSuffix(route.pattern, "/size") {
		admit = a.admitAll
	}
	x, refused := admit(r, namespace, route.need, c.names())
	if refused != nil {
		c.turnAway(refused)
		return
	}
	c.x = x
	route.serve(&c)
}

// admitAll lets a request pass without a token. What the request gives as one still says which pool it is about.
func (a *API) admitAll(r *http.Request, namespace string, _ scope, _ []string) (access, *refusal) {
	given := a.given(r)
	name, _ := tokens.Split(given)
	x := access{Namespace: namespace, Pool: a.pools[name], settings: a.settings.Namespaces[namespace], guard: a.guard}
	if x.Pool == nil {
		return access{}, refuse(http.StatusNotFound, "no-pool", "pool not found", "the token names a pool that this server does not have")
	}
	return x, nil
}

// checkV1Names returns lmstfy's words about a wrong name. Of a call that may name several queues it checks less, as
// lmstfy does.
func checkV1Names(namespace, queue string, none, several bool) string {
	switch {
	case !several && (len(namespace) > v1MostName || len(queue) > v1MostName):
		return "namespace or queue name too long"
	case !v1Name(namespace, ""):
		return "namespace name contains forbidden characters"
	case none:
		return ""
	case several && !v1Name(queue, ","), !several && (!v1Name(queue, "") || queue[0] == '_'):
		return "queue name contains forbidden characters"
	}
	return ""
}

// v1Name reports whether a name has only the characters that lmstfy allows, and those of more.
func v1Name(name, more string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', strings.IndexByte(more, c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}

// names returns the queues that the path names, each once.
func (c *v1Call) names() []string {
	if c.queue != "" && !strings.Contains(c.queue, ",") {
		return []string{c.queue}
	}
	var names []string
	seen := make(map[string]bool)
	for name := range strings.SplitSeq(c.queue, ",") {
		if name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// param returns a parameter of the query, or a default for one that is not there.
func (c *v1Call) param(name, otherwise string) string {
	if value, ok := queryValue(c.r.URL.RawQuery, name); ok {
		return value
	}
	return otherwise
}

// queryValue returns the first value of a parameter, as url.ParseQuery reads it.
func queryValue(query, name string) (value string, ok bool) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, text, _ := strings.Cut(pair, "=")
		if key, err := url.QueryUnescape(key); err != nil || key != name || strings.Contains(pair, ";") {
			continue
		}
		if value, err := url.QueryUnescape(text); err == nil && pair != "" {
			return value, true
		}
	}
	return "", false
}

// number returns a parameter that is a number of so many bits.
func (c *v1Call) number(name string, otherwise uint64, bits int) (uint64, bool) {
	value, ok := queryValue(c.r.URL.RawQuery, name)
	if !ok {
		return otherwise, bits == 64 || otherwise>>bits == 0
	}
	n, err := strconv.ParseUint(value, 10, bits)
	return n, err == nil
}

// answer writes JSON as lmstfy does.
func (c *v1Call) answer(status int, body any) {
	text, err := json.Marshal(body)
	if err != nil { // no body of v1 has a value without a JSON form
		c.fail("an answer could not be encoded", err)
		return
	}
	c.write(status, text)
}

// write writes JSON.
func (c *v1Call) write(status int, text []byte) {
	c.w.Header()["Content-Type"] = v1Type
	c.w.WriteHeader(status)
	_, _ = c.w.Write(text)
}

// v1Type is the value of a header. Nothing changes it.
var v1Type = []string{"application/json; charset=utf-8"}

type v1Error struct {
	Error string `json:"error"`
}

type v1Message struct {
	Message string `json:"msg"`
}

func (c *v1Call) refuse(status int, message string) { c.answer(status, v1Error{message}) }

// turnAway answers with what the guard refuses. lmstfy gives a limit's text another name.
func (c *v1Call) turnAway(why *refusal) {
	if after := why.retryAfter(); after != "" {
		c.w.Header().Set("Retry-After", after)
	}
	status := why.status
	if status == http.StatusServiceUnavailable { // lmstfy has no such answer
		status = http.StatusInternalServerError
	}
	if status == http.StatusTooManyRequests {
		c.answer(status, v1Message{why.lmstfy()})
		return
	}
	c.refuse(status, why.lmstfy())
}

// fail answers to a request that could not be done. The client learns no more, since errors of Redis may quote what
// they are about.
func (c *v1Call) fail(what string, err error) {
	var full *gateway.FullError
	if errors.As(err, &full) {
		c.answer(http.StatusTooManyRequests, v1Message{"the queue is full, please retry later"})
		return
	}
	c.logFailure(c.r, what, err)
	c.refuse(http.StatusInternalServerError, "internal error")
}

// v1Job is a job in an answer. lmstfy's keys are in this order.
type v1Job struct {
	Attributes  map[string]string `json:"attributes"`
	Data        []byte            `json:"data"`
	ElapsedMS   int64             `json:"elapsed_ms"`
	ID          string            `json:"job_id"`
	Message     string            `json:"msg,omitempty"`
	Namespace   string            `json:"namespace"`
	Queue       string            `json:"queue"`
	RemainTries int               `json:"remain_tries"`
	TTL         int64             `json:"ttl"`
}

func (c *v1Call) job(j *gateway.Job, message string, remain int) v1Job {
	now := j.Now
	if now == 0 {
		now = c.x.gateway().Now()
	}
	return v1Job{
		Attributes: attributesOf(j.ID, httpjob.Meta(&j.Parsed)), Data: httpjob.BodyOf(j.Payload, &j.Parsed), ElapsedMS: httpjob.Elapsed(j.ID, now),
		ID: j.ID, Message: message, Namespace: c.namespace, Queue: strings.TrimPrefix(j.Queue, c.x.queue("")),
		RemainTries: max(0, remain), TTL: httpjob.TTL(j.Parsed.ExpiresAt, now),
	}
}

// attributesOf returns the metadata that a producer has given, nil for none. A trace context may be an attribute, too, of a
// job with a version; of another one it is no attribute.
func attributesOf(id string, meta map[string]string) map[string]string {
	if !httpjob.Versioned(id) {
		delete(meta, traceparent)
		delete(meta, tracestate)
	}
	if len(meta) == 0 {
		return nil
	}
	return meta
}
