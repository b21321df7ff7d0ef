package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/queues"
)

// v2 serves the calls below /v2/, and those about the server itself. Every error is a problem: see problem.go.
type v2 struct {
	api    *API
	events *events
	brief  brief // what calls ask of Redis
}

// v2Route is a call of v2.
type v2Route struct {
	method string
	path   string
	need   scope // 0: the call takes no token
	call   func(*v2Call) (response, error)
}

// v2Routes are all calls. The OpenAPI document has the same: a test compares them.
var v2Routes = []v2Route{
	{"POST", "/v2/{ns}/queues/{queue}/jobs", scopePublish, (*v2Call).publish},
	{"POST", "/v2/{ns}/queues/{queue}/call", scopePublish, (*v2Call).callJob},
	{"GET", "/v2/{ns}/queues/{queue}/jobs", scopePeek, (*v2Call).listJobs},
	{"GET", "/v2/{ns}/queues/{queue}/jobs/{id}", scopePeek, (*v2Call).findJob},
	{"PUT", "/v2/{ns}/queues/{queue}/jobs/{id}", scopePublish | scopeAck, (*v2Call).republish},
	{"DELETE", "/v2/{ns}/queues/{queue}/jobs/{id}", scopeAck, (*v2Call).cancelJob},
	{"GET", "/v2/{ns}/queues/{queue}/jobs/{id}/result", scopeResult, (*v2Call).result},
	{"POST", "/v2/{ns}/queues/{queue}/jobs/{id}/ack", scopeAck, (*v2Call).ack},
	{"POST", "/v2/{ns}/queues/{queue}/jobs/{id}/nack", scopeAck, (*v2Call).nack},
	{"POST", "/v2/{ns}/queues/{queue}/jobs/{id}/fail", scopeAck, (*v2Call).fail},
	{"POST", "/v2/{ns}/queues/{queue}/jobs/{id}/release", scopeAck, (*v2Call).release},
	{"POST", "/v2/{ns}/queues/{queue}/jobs/{id}/touch", scopeAck, (*v2Call).touch},
	{"POST", "/v2/{ns}/reservations", scopeConsume, (*v2Call).reserve},
	{"POST", "/v2/{ns}/acks", scopeAck, (*v2Call).acks},
	{"GET", "/v2/{ns}/queues", scopePeek, (*v2Call).listQueues},
	{"GET", "/v2/{ns}/queues/{queue}", scopePeek, (*v2Call).showQueue},
	{"DELETE", "/v2/{ns}/queues/{queue}", scopeAdmin, (*v2Call).destroyQueue},
	{"POST", "/v2/{ns}/queues/{queue}/pause", scopeAdmin, (*v2Call).pauseQueue},
	{"POST", "/v2/{ns}/queues/{queue}/resume", scopeAdmin, (*v2Call).resumeQueue},
	{"POST", "/v2/{ns}/queues/{queue}/dead", scopeAdmin, (*v2Call).retryDead},
	{"DELETE", "/v2/{ns}/queues/{queue}/dead", scopeAdmin, (*v2Call).removeDead},
	{"GET", "/v2/{ns}/events", scopePeek, (*v2Call).listen},
	{"GET", "/openapi.json", 0, (*v2Call).openAPI},
	{"GET", "/healthz", 0, (*v2Call).healthz},
	{"GET", "/readyz", 0, (*v2Call).readyz},
}

// newV2 returns v2 of a server.
func newV2(api *API) *v2 { return &v2{api: api, events: newEvents(), brief: brief{within: v2Within}} }

// routes adds the calls of v2 to a mux. What is below /v2/ and no call is a problem too.
func (v *v2) routes(mux *http.ServeMux) {
	methods := make(map[string][]string)
	for _, r := range v2Routes {
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, req *http.Request) { v.serve(w, req, r) })
		methods[r.path] = append(methods[r.path], r.method)
	}
	for _, path := range slices.Sorted(maps.Keys(methods)) {
		allowed := strings.Join(methods[path], ", ")
		mux.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) {
			p := newProblem("method-not-allowed", fmt.Sprintf("%s is no method of this call; use %s", printable(req.Method), allowed))
			p.header = http.Header{"Allow": {allowed}}
			p.write(w, req)
		})
	}
	for _, path := range []string{"/v2", "/v2/"} { // else the mux would send clients from the one to the other
		mux.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) {
			newProblem("no-route", "there is no call of this path; /openapi.json describes those that there are").write(w, req)
		})
	}
}

// scopeResult stands for the scopes of which one is enough to read a result: who publishes a job may await it.
const scopeResult = ^scope(0)

// v2Call is one request.
type v2Call struct {
	*v2
	w  http.ResponseWriter
	r  *http.Request
	x  access
	in string // the queue of the path by its name in Resque; "": the path has none
	redisTime
}

// v2Within bounds what a call asks of Redis, but for waits.
const v2Within = time.Minute

// response is what a call answers. The zero status is for a call that has written its answer itself.
type response struct {
	status int
	body   any // nil: none; []byte: as it is
	header http.Header

	// undo is called if the answer could not be written.
	undo func()
}

// serve answers a request.
func (v *v2) serve(w http.ResponseWriter, r *http.Request, to v2Route) {
	c := &v2Call{v2: v, w: w, r: r, redisTime: redisTime{brief: &v.brief}}
	a, err := c.answer(to)
	if err != nil {
		p := problemOf(err)
		if p.of.status >= http.StatusInternalServerError && p.cause != nil {
			v.api.logFailure(r, "a call failed", p.cause)
		}
		p.write(w, r)
		return
	}
	if a.status == 0 {
		return
	}
	body, isBytes := a.body.([]byte)
	maps.Copy(w.Header(), a.header)
	if !isBytes && a.body != nil {
		body, err = encode(a.body)
		if err != nil {
			newProblem("internal", "the answer is no JSON").write(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
	}
	if w.Header().Get("Cache-Control") == "" {
		w.Header().Set("Cache-Control", "no-store")
	}
	if a.undo != nil && r.Context().Err() != nil {
		a.undo() // the client has gone, as far as can be known
		return
	}
	if deliver(w, a.status, body) != nil && a.undo != nil {
		a.undo()
	}
}

// answer checks who asks, and makes the call.
func (c *v2Call) answer(to v2Route) (response, error) {
	if to.need != 0 {
		var queues []string
		if name := c.r.PathValue("queue"); name != "" {
			if err := checkQueue(name); err != nil {
				return response{}, err
			}
			queues = []string{name}
		}
		if id := c.r.PathValue("id"); id != "" {
			if err := checkID(id); err != nil {
				return response{}, err
			}
		}
		if err := c.admit(to.need, queues); err != nil {
			return response{}, err
		}
		if queues != nil {
			c.in = c.x.queue(queues[0])
		}
	}
	return to.call(c)
}

// admit checks that the token may do this with the queues.
func (c *v2Call) admit(need scope, queues []string) error {
	enough := []scope{need}
	if need == scopeResult {
		enough = []scope{scopePublish, scopePeek}
	}
	var x access
	var refused *refusal
	for _, need := range enough {
		if x, refused = c.api.admit(c.r, c.r.PathValue("ns"), need, queues); refused == nil || refused.code != "forbidden" {
			break
		}
	}
	if refused != nil {
		return refused.problem()
	}
	c.x = x
	return nil
}

// problem is the refusal in the words of v2.
func (r *refusal) problem() *problem {
	p := newProblem(r.code, r.detail)
	for name, value := range r.members {
		p.with(name, value)
	}
	if r.after > 0 {
		p.retryAfter = r.after
	}
	if p.of.status == http.StatusUnauthorized {
		p.header = http.Header{"Www-Authenticate": {`Bearer realm="goworker"`}}
	}
	return p
}

// id is the job of the path.
func (c *v2Call) id() string { return c.r.PathValue("id") }

// maxQueue is how many bytes the name of a queue has at most.
const maxQueue = 255

// checkQueue returns why a name cannot be that of a queue.
func checkQueue(name string) error {
	wrong := func(why string) error {
		return invalid("queue", fmt.Sprintf("the queue %s %s", quoted(name), why))
	}
	switch {
	case name == "":
		return invalid("queue", "a queue has no name; give it one")
	case len(name) > maxQueue:
		return invalid("queue", fmt.Sprintf("the name of a queue has %d bytes, and %d are allowed; give a shorter one", len(name), maxQueue))
	case !utf8.ValidString(name):
		return wrong("is not in UTF-8; percent-encode the name in UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return wrong("has a control character, which no queue may have; leave it out")
	case strings.ContainsAny(name, ",*?[]{}!"):
		return wrong("has one of , * ? [ ] { } ! in its name, which a list of queues reads as a pattern; name one queue without them")
	case queues.IsOwn(name):
		return wrong("belongs to goworker's own workers, and no HTTP client takes its jobs; use a queue without " + queues.MessagePack)
	case name == "." || name == "..":
		return wrong("is a step in a path, which proxies remove; give it another name")
	}
	return nil
}

// quoted is a text of a client for a sentence: bounded, and without control characters.
func quoted(text string) string {
	const most = 64
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}

// printable is a word of a client for a sentence.
func printable(word string) string {
	return strings.Trim(quoted(word), `"`)
}

// encode is a value as JSON. Texts keep their < and >.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
