package metrics

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goworker/goworker/internal/neighbor"
)

// Scale is the answer of /scale?queue=NAME: what an autoscaler goes by. scale.yaml describes it as OpenAPI.
type Scale struct {
	Queue   string   `json:"queue"`
	Waiting int64    `json:"waiting"`          // jobs that a worker could begin
	Limited int64    `json:"limited"`          // jobs that a limit holds back: more workers do not help them
	Oldest  float64  `json:"oldest_seconds"`   // how long the first job has been due
	Method  string   `json:"method,omitempty"` // how that is known: exact, counted or seen; "": nothing waits, or it is unknown
	Paused  bool     `json:"paused"`
	Workers int64    `json:"workers"`              // that take from it
	Busy    *float64 `json:"busy_ratio,omitempty"` // the share of all workers that have a job; none: it is unknown
	Age     float64  `json:"age_seconds"`          // how old these numbers are
}

// stale is how old numbers may be that an autoscaler is given while Redis does not answer.
const stale = 30 * time.Second

// Exporter returns a handler for a fleet in which no process has Fleet, such as one of Ruby's workers only:
//
//   - /metrics: the metrics of the fleet
//   - /scale?queue=mail: what an autoscaler goes by, as JSON; see Scale
//   - /healthz: 200 while the handler answers
//
// It sends Redis at most one look each second, however many ask.
func Exporter(of Inspects, opts ...Option) http.Handler {
	f := newFleet(of)
	none := &process{measured: func(func(neighbor.Measured)) {}} // it says which version this is
	o := &options{registry: prometheus.NewPedanticRegistry(), process: none, of: of}
	o.gatherers = prometheus.Gatherers{o.registry}
	o.registry.MustRegister(f, none)
	for _, option := range opts {
		option(o)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler(o.gatherers))
	mux.HandleFunc("GET /scale", f.serveScale)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, map[string]bool{"ok": true}) })
	return mux
}

func (f *fleet) serveScale(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, why string) { answer(w, status, map[string]string{"error": why}) }
	queue := r.URL.Query().Get("queue")
	if queue == "" {
		refuse(http.StatusBadRequest, "name a queue: /scale?queue=mail")
		return
	}
	s, there, err := f.scale(r.Context(), queue)
	switch {
	case err != nil && (!there || s.Age > stale.Seconds()):
		refuse(http.StatusServiceUnavailable, "Redis does not answer")
	case !there: // a queue without jobs may not exist, and its autoscaler is to go down
		s.Method = "exact"
		answer(w, http.StatusOK, s)
	default:
		answer(w, http.StatusOK, s)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}
