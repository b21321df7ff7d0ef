package trace

import (
	"bytes"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// The texts of W3C that a job carries, by their names.
const (
	Traceparent = "traceparent"
	Tracestate  = "tracestate"
	Baggage     = "baggage"
)

// headers is where OpenTelemetry's gem for ActiveJob keeps the texts: in ActiveJob's own hash, as a hash or as an array of pairs.
var headers = []byte(`"__otel_headers"`)

// Carried returns the texts with which a job was enqueued; nil: there are none. Those in its metadata go before those at the top of the
// payload, where OpenTelemetry's gem for Resque puts them, and these before those of ActiveJob.
func Carried(meta map[string]string, p *payload.Payload) map[string]string {
	if meta[Traceparent] != "" || p == nil {
		return meta
	}
	if top := payload.StringValue(p.Field(Traceparent)); top != "" {
		return map[string]string{
			Traceparent: top, Tracestate: payload.StringValue(p.Field(Tracestate)), Baggage: payload.StringValue(p.Field(Baggage)),
		}
	}
	if p.Class != args.ActiveJobWrapper || len(p.Args) != 1 || !bytes.Contains(p.Args[0], headers) {
		return meta
	}
	for _, m := range payload.Members(p.Args[0]) {
		if !bytes.Equal(m.Key, headers) {
			continue
		}
		all := make(map[string]string)
		for _, h := range payload.Members(m.Value) {
			all[payload.StringValue(h.Key)] = payload.StringValue(h.Value)
		}
		for _, pair := range payload.Elements(m.Value) {
			if both := payload.Elements(pair); len(both) == 2 {
				all[payload.StringValue(both[0])] = payload.StringValue(both[1])
			}
		}
		return all
	}
	return meta
}

// After returns the traceparents of the steps that a job follows in its workflow, with commas between; "": none is known.
func After(p *payload.Payload) string {
	if p == nil {
		return ""
	}
	return payload.StringValue(p.Field(workflows.After)) // what is no text is another program's
}
