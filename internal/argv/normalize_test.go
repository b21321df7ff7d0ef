package argv

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func FuzzNormalize(f *testing.F) {
	f.Add("-queues x --uri=y -v run", false, false)
	f.Add("-vdfx -df -- -h --help -- -a=b", true, true)
	f.Add("-other x - --= -=-\xff -ä", true, false)
	f.Fuzz(func(t *testing.T, line string, interspersed, lenient bool) {
		args := strings.Split(line, " ")
		h := newHost(true, true)
		h.Program.SetOutput(io.Discard)
		set := merge(h.Program, h.ProgramP, h.Flags)
		set.SetInterspersed(interspersed)
		n := normalizer{set: set, mine: set.Lookup, interspersed: interspersed, lenient: lenient}
		out := n.normalize(args)
		if n.help || n.unknown != "" && !lenient {
			return
		}
		again := normalizer{set: set, mine: set.Lookup, interspersed: interspersed, lenient: lenient}
		if twice := again.normalize(out); !slices.Equal(out, twice) {
			t.Errorf("%q becomes %q, and that %q", args, out, twice)
		}
		if err := set.Parse(out); err != nil {
			for _, refused := range []string{"unknown", "bad flag syntax", "help requested"} {
				if strings.Contains(err.Error(), refused) {
					t.Errorf("pflag refuses %q made of %q: %v", out, args, err)
				}
			}
			return
		}
		if rest := set.Args(); !interspersed && n.unknown == "" && !slices.Equal(rest, args[len(args)-len(rest):]) {
			t.Errorf("%q leaves %q", args, rest)
		}
	})
}
