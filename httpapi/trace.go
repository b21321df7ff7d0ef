package httpapi

import (
	"net/http"
	"strings"
)

// The headers of W3C's trace context, and the names of the metadata in which a job carries them.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"

	mostTracestate = 512
)

// withTrace adds the trace context of a request to a job's metadata. What is not well formed is left out, as the
// standard says.
func withTrace(meta map[string]string, h http.Header) map[string]string {
	parent := h.Get(traceparent)
	if !isTraceparent(parent) {
		return meta
	}
	if meta == nil {
		meta = make(map[string]string)
	}
	meta[traceparent] = parent
	delete(meta, tracestate)
	if state := strings.Join(h.Values(tracestate), ","); state != "" && len(state) <= mostTracestate && isPrintable(state) {
		meta[tracestate] = state
	}
	return meta
}

// isTraceparent reports whether a text is <version>-<trace>-<parent>-<flags> in lower-case hexadecimal digits.
func isTraceparent(s string) bool {
	if len(s) < 55 || len(s) > 55 && (s[:2] == "00" || s[55] != '-' || len(s) > mostTracestate || !isPrintable(s)) {
		return false
	}
	parts := strings.SplitN(s[:55], "-", 4)
	if len(parts) != 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || len(parts[2]) != 16 || parts[0] == "ff" {
		return false
	}
	for _, part := range parts {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	return strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
