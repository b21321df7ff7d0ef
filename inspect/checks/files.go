package checks

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/sdnotify"
)

// Files are the checks of files by which a system runs goworker. They ask no Redis, so they are in no Run.
var Files = []*Check{manifestCheck, unitCheck}

// spare is how much longer than a stop takes a system should wait.
const spare = sdnotify.Spare

// defaultGrace is how long Kubernetes waits where a manifest does not say it, and systemd where a unit does not.
const (
	defaultGrace = 30 * time.Second
	defaultStop  = 90 * time.Second
)

var manifestCheck = &Check{
	Name: "manifest", Severity: Error, Uses: Doctor, Title: "the manifest of Kubernetes",
	Sentence: "{file}, line {line}: {what}",
	Remedy:   "write there: {write}",
}

var unitCheck = &Check{
	Name: "unit", Severity: Error, Uses: Doctor, Title: "the unit of systemd",
	Sentence: "{file}, line {line}: {what}",
	Remedy:   "write there: {write}",
}

// mistake is what is wrong in a line of a file, and what to write there.
type mistake struct {
	at          int
	what, write string
}

func inFile(c *Check, file string, lines []mistake) (all []Finding) {
	l := &look{check: c, run: &run{options: Options{Most: defaultMost}}, seen: 1}
	for _, f := range lines {
		l.find(values{"file": words(name(file)), "line": f.at, "what": words(f.what), "write": words(f.write)})
	}
	if len(l.found) == 0 {
		return []Finding{l.end(OK, c.Title)}
	}
	l.found[len(l.found)-1].More = l.more
	return l.found
}

// name is a file's name in a sentence.
func name(file string) string {
	if plain(file) {
		return file
	}
	return shown(file)
}

var (
	grace  = regexp.MustCompile(`(?m)^[ \t]*(?:- )?[ \t]*"?terminationGracePeriodSeconds"?[ \t]*:[ \t]*"?([^\s"#,}]*)`)
	pods   = regexp.MustCompile(`(?m)^[ \t]*"?kind"?[ \t]*:[ \t]*"?(Deployment|StatefulSet|DaemonSet|ReplicaSet|Pod|Job)\b`)
	probe  = regexp.MustCompile(`"?(liveness|readiness|startup)Probe"?[ \t]*:`)
	path   = regexp.MustCompile(`\bpath"?[ \t]*:[ \t]*["']?([^\s"',}]+)`)
	remark = regexp.MustCompile(`(?m)(^|[ \t])#.*$`)
)

// Manifest looks at a manifest of Kubernetes whose pods run goworker. A stop takes so long at most: goworker.StopTime says it.
func Manifest(file string, text []byte, stop time.Duration) []Finding {
	text = remark.ReplaceAllFunc(text, func(m []byte) []byte { return bytes.Repeat([]byte{' '}, len(m)) })
	var lines []mistake
	needs := fmt.Sprintf("terminationGracePeriodSeconds: %d", seconds(stop+spare))
	offset := 0
	for _, document := range bytes.SplitAfter(text, []byte("\n---")) {
		at := func(n int) int { return 1 + bytes.Count(text[:offset+n], []byte{'\n'}) }
		found := grace.FindAllSubmatchIndex(document, -1)
		for _, m := range found {
			given := string(document[m[2]:m[3]])
			n, err := strconv.Atoi(given)
			switch {
			case err != nil:
				lines = append(lines, mistake{at(m[2]), "the time that a pod has to stop is " + shown(given) + ", which is no number of seconds", needs})
			case time.Duration(n)*time.Second < stop:
				lines = append(lines, mistake{at(m[2]), fmt.Sprintf("a pod is killed %d s after its stop began, and a stop takes up to %s: its jobs run twice", n, duration(stop)), needs})
			}
		}
		if kind := pods.FindSubmatchIndex(document); kind != nil && len(found) == 0 && defaultGrace < stop {
			lines = append(lines, mistake{at(kind[2]), fmt.Sprintf("without terminationGracePeriodSeconds a pod is killed 30 s after its stop began, and a stop takes up to %s", duration(stop)), needs})
		}
		lines = append(lines, probes(document, at)...)
		offset += len(document)
	}
	return inFile(manifestCheck, file, lines)
}

// probes looks at what probes ask.
func probes(document []byte, at func(int) int) (lines []mistake) {
	all := probe.FindAllSubmatchIndex(document, -1)
	for n, m := range all {
		end := len(document)
		if n+1 < len(all) {
			end = all[n+1][0]
		}
		found := path.FindSubmatchIndex(document[m[1]:end])
		if found == nil {
			continue // it asks no path
		}
		kind, asked := string(document[m[2]:m[3]]), string(document[m[1]+found[2]:m[1]+found[3]])
		where := at(m[1] + found[2])
		switch {
		case kind == "liveness" && asked == "/readyz":
			lines = append(lines, mistake{where, "the liveness probe asks /readyz: all pods are restarted when Redis is away", "path: /healthz"})
		case asked != "/readyz" && asked != "/healthz" && asked != "/startupz":
			right := "path: /healthz"
			if kind == "readiness" {
				right = "path: /readyz"
			} else if kind == "startup" {
				right = "path: /startupz"
			}
			lines = append(lines, mistake{where, "the " + kind + " probe asks " + shown(asked) + ", which goworker does not serve", right})
		}
	}
	return lines
}

// Unit looks at a unit of systemd that runs goworker.
func Unit(file string, text []byte, stop time.Duration) []Finding {
	type setting struct {
		line  int
		value string
	}
	set, section, service := make(map[string]setting), "", 1
	for n, text := range strings.Split(string(text), "\n") {
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, "[") {
			if section = text; section == "[Service]" {
				service = n + 1
			}
		}
		name, value, ok := strings.Cut(text, "=")
		if ok && section == "[Service]" && !strings.HasPrefix(text, "#") && !strings.HasPrefix(text, ";") {
			set[strings.TrimSpace(name)] = setting{n + 1, strings.TrimSpace(value)} // the last one counts
		}
	}
	of := func(name string) setting {
		s := set[name]
		if s.line == 0 {
			s.line = service
		}
		return s
	}
	var lines []mistake
	if kind := of("Type"); !slices.Contains([]string{"", "simple", "exec", "notify", "notify-reload"}, kind.value) {
		lines = append(lines, mistake{kind.line, "Type is " + shown(kind.value) + ", and goworker stays in the foreground and says itself when it is ready", "Type=notify"})
	}
	if restart := of("Restart"); restart.value != "always" {
		what := "without Restart systemd does not start the program again when it ends"
		if restart.value != "" {
			what = "with Restart=" + shown(restart.value) + " systemd does not start the program again after each end"
		}
		lines = append(lines, mistake{restart.line, what, "Restart=always"})
	}
	stops := of("TimeoutStopSec")
	if stops.value == "" {
		stops = of("TimeoutSec")
	}
	given, ok := span(stops.value)
	switch needs := fmt.Sprintf("TimeoutStopSec=%d", seconds(stop+spare)); {
	case !ok:
		lines = append(lines, mistake{stops.line, "the time to stop is " + shown(stops.value) + ", which is no time", needs})
	case given < stop:
		lines = append(lines, mistake{stops.line, fmt.Sprintf("systemd kills the program %s after its stop began, and a stop takes up to %s: its jobs run twice", duration(given), duration(stop)), needs})
	}
	return inFile(unitCheck, file, lines)
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

var spans = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*(usec|us|msec|ms|seconds|second|sec|s|minutes|minute|min|m|hours|hour|hr|h|days|day|d|weeks|week|w)?\s*`)

// span reads a time as systemd does: 30, 30s, 1min 30s, infinity. Without one it is systemd's default.
func span(text string) (total time.Duration, ok bool) {
	switch text {
	case "":
		return defaultStop, true
	case "infinity", "0": // systemd waits without end
		return time.Duration(1<<63 - 1), true
	}
	units := map[byte]time.Duration{'s': time.Second, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour, 'u': time.Microsecond, 'm': time.Minute}
	for text != "" {
		m := spans.FindStringSubmatch(text)
		if m == nil {
			return 0, false
		}
		unit := time.Second
		if m[2] != "" {
			unit = units[m[2][0]]
		}
		if m[2] == "ms" || m[2] == "msec" {
			unit = time.Millisecond
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil || n*float64(unit) > float64(1<<62) {
			return 0, false
		}
		total += time.Duration(n * float64(unit))
		text = text[len(m[0]):]
	}
	return total, true
}
