package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/control"
)

// The kinds of profiles: some observe the process for a while, the others show its present state.
var (
	longProfiles  = []string{"cpu", "block", "mutex"}
	quickProfiles = []string{"heap", "allocs", "goroutine"}
)

// longestProfile is how long a profile may take: profile.Longest, without its package, which links the profiler.
const longestProfile = 5 * time.Minute

// usualProfile is how long a profile takes without --for.
const usualProfile = 10 * time.Second

func (p *program) controlProfile() *cobra.Command {
	var file string
	var lasts time.Duration
	var c *cobra.Command
	c = p.orders(&cobra.Command{
		Use: "profile cpu|block|mutex|heap|allocs|goroutine -o FILE --to ADDRESS", Short: "Take a profile of a process, for go tool pprof",
		Long: "profile writes a file for go tool pprof: where processor time goes (cpu), where goroutines wait (block, mutex), what holds\n" +
			"memory (heap), what was allocated (allocs), and where goroutines are (goroutine). The program has to add the verb of the package\n" +
			"control/profile, and the process needs -control=full. It takes one profile at a time.",
		Example: "  goworker control profile cpu --for 30s -o cpu.pprof --to mail-1:4711:6rk2\n  go tool pprof -top cpu.pprof",
		Args:    arguments(1, "the kind: cpu, block, mutex, heap, allocs or goroutine"), ValidArgs: slices.Concat(longProfiles, quickProfiles),
	}, func(args []string) (order, error) {
		kind, long := args[0], slices.Contains(longProfiles, args[0])
		switch {
		case !long && !slices.Contains(quickProfiles, kind):
			return order{}, usagef("there is no profile %s: take cpu, block, mutex, heap, allocs or goroutine", escaped(kind))
		case !long && c.Flags().Changed("for"):
			return order{}, usagef("a profile of %s shows the present state: leave out --for", kind)
		case long && (lasts <= 0 || lasts > longestProfile):
			return order{}, usagef("--for takes a time above 0 such as 10s, and %s at most", view.Span(longestProfile))
		case file == "":
			return order{}, usagef("say where the profile goes: -o FILE")
		case !isDirectory(filepath.Dir(file)):
			return order{}, usagef("there is no directory %s for the profile", escaped(filepath.Dir(file)))
		}
		asked := map[string]any{"kind": kind}
		d := order{verb: control.Profile, sentence: "take a profile of " + kind + " in", one: true}
		if long {
			d.lasts, asked["for"] = lasts, lasts.Seconds()
		}
		d.opts = []control.CallOption{control.Args(asked)}
		d.keep = func(r control.Reply) (control.Reply, error) { return saved(r, file) }
		return d, nil
	})
	c.Flags().StringVarP(&file, "output", "o", "", "the file of the profile")
	c.Flags().DurationVar(&lasts, "for", usualProfile, "how long a profile of cpu, block or mutex takes, 5m at most")
	return c
}

// saved writes the profile of an answer into a file, and returns the line to print.
func saved(r control.Reply, file string) (control.Reply, error) {
	var a control.ProfileAnswer
	if err := r.Decode(&a); err != nil {
		return r, err
	}
	if err := os.WriteFile(file, a.Profile, 0o600); err != nil {
		return r, err
	}
	text, err := json.Marshal(savedProfile{a.Kind, int64(len(a.Profile)), file})
	r.Body = text
	return r, err
}

// savedProfile is the line to print about a profile.
type savedProfile struct {
	Kind  string `json:"kind"`
	Bytes int64  `json:"bytes"`
	File  string `json:"file"`
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
