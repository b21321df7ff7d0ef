package generate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goworker/goworker/metrics"
)

var (
	text     = regexp.MustCompile(`"[^"]*"`)
	selected = regexp.MustCompile(`\b(goworker_[a-z0-9_]+|goworker:[a-z0-9_]+|ALERTS)(\{[^}]*\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouped  = regexp.MustCompile(`\b(?:by|on|without)\s*\(([^)]*)\)`)
)

// fromPrometheus are labels that Prometheus adds.
var fromPrometheus = []string{"job", "instance"}

// added are the labels that our own expressions add by label_replace.
var added = regexp.MustCompile(`label_replace\(`)

// Wrong says what an expression names that the metrics of the table and the recording rules do not have.
func Wrong(expr string, rows map[string]metrics.Row) (wrong []string) {
	bare := text.ReplaceAllString(expr, `""`)
	known := slices.Clone(fromPrometheus)
	if added.MatchString(expr) {
		known = append(known, "kind", "part")
	}
	found := selected.FindAllStringSubmatch(bare, -1)
	if len(found) == 0 {
		return []string{"no metric is in " + expr}
	}
	for _, m := range found {
		labels, ok := labelsOf(m[1], rows)
		if !ok {
			wrong = append(wrong, m[1]+" is no metric")
			continue
		}
		known = append(known, labels...)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, l[1]) && !slices.Contains(fromPrometheus, l[1]) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", m[1], l[1]))
			}
		}
	}
	for _, g := range grouped.FindAllStringSubmatch(bare, -1) {
		for name := range strings.SplitSeq(g[1], ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(known, name) {
				wrong = append(wrong, "nothing in "+expr+" has the label "+name)
			}
		}
	}
	return wrong
}

// labelsOf returns the labels of a metric, of a series of a histogram, or of a recording rule.
func labelsOf(name string, rows map[string]metrics.Row) (labels []string, ok bool) {
	if name == "ALERTS" {
		return []string{"alertname", "alertstate"}, true
	}
	for _, r := range recordings {
		if r.name == name {
			if strings.Contains(r.name, "queue_") || strings.Contains(r.name, "drain_") {
				labels = []string{"queue"}
			}
			return labels, true
		}
	}
	if r, ok := rows[name]; ok && r.Kind != metrics.Histogram {
		return r.Labels, true
	}
	for suffix, more := range map[string][]string{"_bucket": {"le"}, "_sum": nil, "_count": nil} {
		base, cut := strings.CutSuffix(name, suffix)
		if r, ok := rows[base]; cut && ok && r.Kind == metrics.Histogram {
			return append(slices.Clone(r.Labels), more...), true
		}
	}
	return nil, false
}
