package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Bounds of the metadata of a job beside its trace context.
const (
	maxMeta      = 16
	maxMetaName  = 32
	maxMetaValue = 128
)

const metaHeader = "Goworker-Meta-"

// metaOf is the metadata that the headers of a request give its jobs: those of metaHeader, by their names in lower case,
// and its trace context.
func metaOf(h http.Header) map[string]string {
	var meta map[string]string
	for name, values := range h {
		if rest, ok := strings.CutPrefix(name, metaHeader); ok && rest != "" && len(values) > 0 {
			if meta == nil {
				meta = make(map[string]string)
			}
			meta[strings.ToLower(rest)] = values[0]
		}
	}
	return withTrace(meta, h)
}

// joinMeta joins the metadata of a request and that of one of its jobs, which goes first.
func joinMeta(request, own map[string]string) (map[string]string, error) {
	if len(own) == 0 && len(request) == 0 {
		return nil, nil
	}
	all := maps.Clone(request)
	if all == nil {
		all = make(map[string]string, len(own))
	}
	if own[traceparent] != "" {
		delete(all, tracestate) // it is of the other trace
	}
	maps.Copy(all, own)
	count := 0
	for name, value := range all {
		most := maxMetaValue
		if name == traceparent || name == tracestate {
			most = mostTracestate
		} else {
			count++
		}
		switch {
		case name == "" || len(name) > maxMetaName:
			return nil, tooMuchMeta(fmt.Sprintf("the metadata has the name %s of %d bytes; give a name of 1 to %d", quoted(name), len(name), maxMetaName))
		case len(value) > most:
			return nil, tooMuchMeta(fmt.Sprintf("the metadata %s has %d bytes, and %d are allowed; give less, or put it into the body", quoted(name), len(value), most))
		case !utf8.ValidString(value) || !utf8.ValidString(name):
			return nil, invalid("meta", fmt.Sprintf("the metadata %s is not in UTF-8; give texts, or put bytes into the body", quoted(name)))
		}
	}
	if count > maxMeta {
		return nil, tooMuchMeta(fmt.Sprintf("the job has %d pieces of metadata, and %d are allowed; give fewer, or put them into the body", count, maxMeta))
	}
	return all, nil
}

func tooMuchMeta(detail string) error {
	return newProblem("too-much-metadata", detail, "most", maxMeta, "most_name_bytes", maxMetaName, "most_value_bytes", maxMetaValue)
}
