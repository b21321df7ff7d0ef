package flags_test

import (
	"flag"
	"testing"

	"github.com/spf13/pflag"

	"github.com/goworker/goworker"
	_ "github.com/goworker/goworker/flags"
)

func TestFlagsAreDefinedAndShared(t *testing.T) {
	ours := goworker.Flags()
	ours.VisitAll(func(f *pflag.Flag) {
		if flag.Lookup(f.Name) == nil {
			t.Errorf("flag.CommandLine lacks -%s", f.Name)
		}
	})
	// The test binary's command line is parsed; a set may be parsed again.
	if err := flag.CommandLine.Parse([]string{"-use-number", "-queues", "high"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"use-number": "true", "queues": "high"} {
		if f := ours.Lookup(name); f.Value.String() != want || !f.Changed {
			t.Errorf("-%s is %q, changed: %v", name, f.Value, f.Changed)
		}
	}
}
