package command

import (
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect/checks"
)

// fileChecks are the files by which a system runs goworker, which doctor is to look at.
type fileChecks struct {
	manifests, units []string
	stop             time.Duration
}

func (c *fileChecks) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&c.manifests, "manifest", nil, "a manifest of Kubernetes to look at too")
	f.StringArrayVar(&c.units, "unit", nil, "a unit of systemd to look at too")
	f.DurationVar(&c.stop, "stop-time", goworker.StopTime(goworker.WorkerSettings{}), "how long a stop of the program takes at most: -shutdown-timeout and 8 s")
}

// run looks at the files.
func (c *fileChecks) run() (all []checks.Finding, err error) {
	for _, of := range []struct {
		files []string
		look  func(file string, text []byte, stop time.Duration) []checks.Finding
	}{{c.manifests, checks.Manifest}, {c.units, checks.Unit}} {
		for _, file := range of.files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, usagef("reading a file to look at: %v", err)
			}
			all = append(all, of.look(file, text, c.stop)...)
		}
	}
	return all, nil
}
