package rolling

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// Half a second of the test is a scrape interval of Prometheus: the rules see all last thirty times as long.
const (
	every    = time.Second / 2
	interval = "15s"
)

const rulesFile = "../../../deploy/prometheus/goworker.rules.yaml"

// prometheus scrapes as Prometheus does, and writes what it has seen as the input of promtool's tests.
type prometheus struct {
	t       *testing.T
	targets map[string]http.Handler
	names   *regexp.Regexp // of the metrics that rules look at
	rules   string

	mu     sync.Mutex
	count  int
	series map[string][]string // a value for each scrape; "_" where there is none
}

var metricName = regexp.MustCompile(`\bgoworker_\w+`)

func newPrometheus(t *testing.T, targets map[string]http.Handler) *prometheus {
	t.Helper()
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	named := slices.Compact(slices.Sorted(slices.Values(metricName.FindAllString(string(rules), -1))))
	return &prometheus{t: t, targets: targets, rules: string(rules), names: regexp.MustCompile(`^(` + strings.Join(named, "|") + `)(\{.*\})? (\S+)$`)}
}

// begin forgets what was scraped, and scrapes until end is called.
func (p *prometheus) begin() (end func()) {
	p.mu.Lock()
	p.count, p.series = 0, make(map[string][]string)
	p.mu.Unlock()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			p.scrape()
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// more waits until there were so many scrapes more.
func (p *prometheus) more(n int) {
	p.t.Helper()
	count := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.count
	}
	until := count() + n
	redistest.Eventually(p.t, time.Minute, "Prometheus scrapes", func() bool { return count() >= until })
}

// job is what deploy/prometheus/prometheus.yaml calls the processes, and the exporter.
func job(instance string) string {
	if instance == "exporter" {
		return "goworker-fleet"
	}
	return "goworker"
}

func (p *prometheus) scrape() {
	seen := make(map[string]string)
	for instance, target := range p.targets {
		w := httptest.NewRecorder()
		target.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		up := "0"
		if w.Code == http.StatusOK {
			up = "1"
			for line := range strings.Lines(w.Body.String()) {
				if m := p.names.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
					labels := `{job="` + job(instance) + `",instance="` + instance + `"}`
					if m[2] != "" {
						labels = strings.TrimSuffix(labels, "}") + "," + m[2][1:]
					}
					seen[m[1]+labels] = m[3]
				}
			}
		}
		seen[`up{job="`+job(instance)+`",instance="`+instance+`"}`] = up
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range seen {
		if p.series[name] == nil {
			p.series[name] = slices.Repeat([]string{"_"}, p.count)
		}
	}
	for name, values := range p.series {
		value, ok := seen[name]
		switch {
		case ok:
		case p.count > 0 && values[p.count-1] != "_" && values[p.count-1] != "stale":
			value = "stale"
		default:
			value = "_"
		}
		p.series[name] = append(values, value)
	}
	p.count++
}

// lasts is how long things go on as they were seen last, in scrapes: longer than any alert waits.
const lasts = 140

// test returns a test of promtool: these alerts and no others fire at some time, of what was scraped and, if it lasts, for as long after it.
func (p *prometheus) test(name string, lasting bool, alerts ...string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "  - name: %s\n    interval: %s\n    input_series:\n", name, interval)
	end := p.count
	for _, series := range slices.Sorted(maps.Keys(p.series)) {
		values := p.series[series]
		line := strings.Join(values, " ")
		if last := values[len(values)-1]; lasting && last != "_" && last != "stale" {
			line += fmt.Sprintf(" %s+0x%d", last, lasts)
		}
		fmt.Fprintf(&out, "      - series: '%s'\n        values: '%s'\n", series, line)
	}
	if lasting {
		end += lasts
	}
	fmt.Fprintf(&out, "    promql_expr_test:\n      - expr: 'group by (alertname) (count_over_time(ALERTS{alertstate=\"firing\"}[%dm]))'\n        eval_time: %ds\n        exp_samples:\n",
		end, 15*(end-1))
	for _, a := range alerts {
		fmt.Fprintf(&out, "          - labels: '{alertname=\"%s\"}'\n            value: 1\n", a)
	}
	return out.String()
}

// check has promtool run tests.
func (p *prometheus) check(tests []string) {
	p.t.Helper()
	promtool := os.Getenv("PROMTOOL")
	if promtool == "" {
		promtool = "promtool"
	}
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(p.t.TempDir(), "tests.yaml")
	text := "rule_files: ['" + rules + "']\nevaluation_interval: " + interval + "\ntests:\n" + strings.Join(tests, "")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput()
	if err != nil {
		p.t.Errorf("promtool: %v\n%s", err, out)
	}
}

// sum adds up what was scraped last of the series whose names and labels hold all of these parts.
func (p *prometheus) sum(parts ...string) (all float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for series, values := range p.series {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(series, part) }) {
			n, _ := strconv.ParseFloat(values[len(values)-1], 64) // where there is none it counts 0
			all += n
		}
	}
	return all
}
