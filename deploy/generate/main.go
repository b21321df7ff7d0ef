// Generate writes one number into all files that say how long a worker has to stop: what goworker.StopTime says, and five
// seconds. It also writes the unit of several processes, and copies files of deploy into the docs.
//
//	go run ./deploy/generate
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/sdnotify"
)

func main() {
	changed, err := generate(".")
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range changed {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			log.Fatal(err)
		}
		fmt.Println("wrote", name)
	}
}

// place is where files say a time, in whole seconds: the first group of a pattern.
type place struct {
	pattern *regexp.Regexp
	time    time.Duration
	in      []string // files that must say it; others may
}

var (
	stop  = goworker.StopTime(goworker.WorkerSettings{})
	grace = stop + sdnotify.Spare

	places = []place{
		{regexp.MustCompile(`\bTimeoutStopSec=(\w+)`), grace, []string{"deploy/systemd/worker.service", "deploy/systemd/worker@.service", "docs/deploying.md"}},
		{regexp.MustCompile(`\bterminationGracePeriodSeconds: (\w+)`), grace, []string{"deploy/k8s/deployment.yaml", "docs/deploying.md"}},
		{regexp.MustCompile(`\bstop_grace_period: (\w+)s`), grace, []string{"deploy/compose.yaml", "docs/deploying.md"}},
		{regexp.MustCompile(`--stop-timeout=(\w+)`), grace, []string{"docs/deploying.md"}},
		{regexp.MustCompile(`(\w+) s before KILL`), grace, []string{"docs/deploying.md"}},
		{regexp.MustCompile(`\bstop is over within (\w+) s`), stop, []string{"docs/deploying.md", "docs/guarantees.md", "docs/operating.md"}},
		{regexp.MustCompile("`-shutdown-timeout=10m`[^.]*wait (\\w+) s"), goworker.StopTime(goworker.WorkerSettings{ShutdownTimeout: 10 * time.Minute}) + sdnotify.Spare,
			[]string{"docs/deploying.md"}},
	}
)

// generate returns the files below a folder that must change, by their names.
func generate(root string) (changed map[string][]byte, err error) {
	is, set := make(map[string][]byte), make(map[string][]byte)
	read := func(name string) error {
		text, err := os.ReadFile(filepath.Join(root, name))
		is[name], set[name] = text, text
		return err
	}
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	for _, name := range append(docs, filepath.Join(root, "README.md")) {
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return nil, err
		}
		if err := read(filepath.ToSlash(relative)); err != nil {
			return nil, err
		}
	}
	if err := fs.WalkDir(os.DirFS(root), "deploy", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, ".go") {
			return err
		}
		return read(name)
	}); err != nil {
		return nil, err
	}

	for name, text := range set {
		set[name] = times(text)
	}
	set["deploy/systemd/worker@.service"] = several(set["deploy/systemd/worker.service"])
	for name, text := range set {
		if strings.HasSuffix(name, ".md") {
			if set[name], err = copies(text, set); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for _, p := range places {
		for _, name := range p.in {
			if !p.pattern.Match(set[name]) {
				return nil, fmt.Errorf("%s does not say %s", name, p.pattern)
			}
		}
	}
	changed = make(map[string][]byte)
	for name, text := range set {
		if !bytes.Equal(text, is[name]) {
			changed[filepath.Join(root, name)] = text
		}
	}
	return changed, nil
}

// times writes the times into a text.
func times(text []byte) []byte {
	for _, p := range places {
		seconds := strconv.Itoa(int(p.time / time.Second))
		text = p.pattern.ReplaceAllFunc(text, func(found []byte) []byte {
			at := p.pattern.FindSubmatchIndex(found)
			return []byte(string(found[:at[2]]) + seconds + string(found[at[3]:]))
		})
	}
	return text
}

// several returns the unit of which systemd starts any number of processes, from the unit of one.
func several(unit []byte) []byte {
	return []byte(strings.NewReplacer(
		"It is one process: worker@.service is for several.", "Each instance is one process: systemctl enable --now worker@1 worker@2",
		"Description=Background jobs\n", "Description=Background jobs, process %i\n",
	).Replace(string(unit)))
}

var copied = regexp.MustCompile("(?m)^<!-- copy: (\\S+) -->\n```(\\w+)\n((?s:.*?))^```$")

// copies writes files into the blocks of a page that are copies of them.
func copies(page []byte, files map[string][]byte) (_ []byte, err error) {
	page = copied.ReplaceAllFunc(page, func(block []byte) []byte {
		m := copied.FindSubmatch(block)
		text, ok := files[string(m[1])]
		if !ok {
			err = fmt.Errorf("a block is a copy of %s, which is not there", m[1])
		}
		return fmt.Appendf(nil, "<!-- copy: %s -->\n```%s\n%s```", m[1], m[2], text)
	})
	return page, err
}
