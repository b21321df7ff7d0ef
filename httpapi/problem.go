package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// problemPage is the page that describes the types of problems, each under a heading of its name. A type is a link to it.
const problemPage = "https://github.com/goworker/goworker/blob/main/docs/http-problems.md#"

// problemType is a row of the table of problems: what every problem of a type has in common.
type problemType struct {
	name   string
	status int
	title  string
}

// problemTypes are all types of problems that a call of v2 answers. The page docs/http-problems.md and the OpenAPI
// document have the same list.
var problemTypes = []problemType{
	{"invalid-parameter", http.StatusBadRequest, "A parameter is not valid"},
	{"invalid-json", http.StatusBadRequest, "The body is not the JSON that the call takes"},
	{"too-deep", http.StatusBadRequest, "The JSON is nested too deep"},
	{"too-much-metadata", http.StatusBadRequest, "The job has too much metadata"},
	{"no-token", http.StatusUnauthorized, "The request has no token"},
	{"bad-token", http.StatusUnauthorized, "The token is not valid"},
	{"forbidden", http.StatusForbidden, "The token does not allow this"},
	{"no-route", http.StatusNotFound, "There is no such call"},
	{"no-pool", http.StatusNotFound, "There is no such pool"},
	{"no-queue", http.StatusNotFound, "There is no such queue"},
	{"no-job", http.StatusNotFound, "There is no such job"},
	{"no-result", http.StatusNotFound, "Nothing is known of a result"},
	{"method-not-allowed", http.StatusMethodNotAllowed, "The call has another method"},
	{"too-slow", http.StatusRequestTimeout, "The body did not come in time"},
	{"lease-lost", http.StatusConflict, "The lease is not the job's"},
	{"is-reserved", http.StatusConflict, "A consumer has the job"},
	{"exists", http.StatusConflict, "The job exists"},
	{"not-found-in-time", http.StatusConflict, "The job was not found in time"},
	{"body-too-large", http.StatusRequestEntityTooLarge, "The body is too large"},
	{"too-many-jobs", http.StatusRequestEntityTooLarge, "The request names too many jobs"},
	{"key-reused", http.StatusUnprocessableEntity, "The idempotency key belongs to another request"},
	{"job-failed", http.StatusUnprocessableEntity, "The job has ended without a result"},
	{"queue-full", http.StatusTooManyRequests, "The queue is full"},
	{"rate-limited", http.StatusTooManyRequests, "The token has reached its limit"},
	{"internal", http.StatusInternalServerError, "The server has a defect"},
	{"redis-away", http.StatusServiceUnavailable, "Redis does not answer"},
	{"redis-full", http.StatusServiceUnavailable, "Redis has no memory left"},
	{"wrong-type", http.StatusServiceUnavailable, "A key of Redis has the wrong type"},
	{"too-few-replicas", http.StatusServiceUnavailable, "Too few replicas have the job"},
	{"stopping", http.StatusServiceUnavailable, "The server is stopping"},
}

// problem is an error that a call answers: problem details as RFC 9457 describes them.
type problem struct {
	of         problemType
	detail     string // what is wrong with what, and what to do
	members    map[string]any
	retryAfter time.Duration // 0: the problem says nothing
	header     http.Header   // of the answer, beside Retry-After
	cause      error         // for the server's log alone; nil: there is none
}

// newProblem returns a problem of a type. Members come in pairs, a name and a value.
func newProblem(name, detail string, members ...any) *problem {
	p := &problem{of: typeOf(name), detail: detail}
	for i := 0; i+1 < len(members); i += 2 {
		p.with(members[i].(string), members[i+1])
	}
	if p.of.status == http.StatusServiceUnavailable {
		p.retryAfter = time.Second
	}
	return p
}

// typeOf returns the type of a name. A name that the table lacks is a defect of the server.
func typeOf(name string) problemType {
	for _, t := range problemTypes {
		if t.name == name {
			return t
		}
	}
	return typeOf("internal")
}

// with adds a member.
func (p *problem) with(name string, value any) *problem {
	if p.members == nil {
		p.members = make(map[string]any)
	}
	p.members[name] = value
	return p
}

// Error makes a problem an error, so that it finds its way up from where it was noticed.
func (p *problem) Error() string { return p.of.name + ": " + p.detail }

// invalid is the problem of a parameter: of the query, of a header, or a member of the body.
func invalid(parameter, detail string) *problem {
	return newProblem("invalid-parameter", detail, "parameter", parameter)
}

// body is what the answer has. Members of the type stand beside those of the RFC, which they never replace.
func (p *problem) body(instance string) []byte {
	all := make(map[string]any, len(p.members)+5)
	for name, value := range p.members {
		all[name] = value
	}
	all["type"], all["title"], all["status"], all["detail"] = problemPage+p.of.name, p.of.title, p.of.status, p.detail
	if instance != "" {
		all["instance"] = instance
	}
	text, err := json.Marshal(all)
	if err != nil { // a member that is no JSON
		return newProblem("internal", p.detail).body(instance)
	}
	return text
}

// write answers a request with the problem.
func (p *problem) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, values := range p.header {
		h[name] = values
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
	_ = deliver(w, p.of.status, p.body(requestID(r.Context()))) // the client has gone; nothing depends on its reading this
}

// turnAway answers a request that comes to no call: with a problem, or for v1 with its text.
func turnAway(w http.ResponseWriter, r *http.Request, p *problem) {
	if strings.HasPrefix(r.URL.Path, v1Prefix) {
		http.Error(w, p.detail, p.of.status)
		return
	}
	p.write(w, r)
}

// problemOf returns the problem that an error is.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	p = problemOfJobs(err)
	p.cause = err
	return p
}
