// Package argv parses a command line that a program and this module share: flags of the
// standard library, of pflag and our own on one line, long ones with one dash or two.
package argv

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/spf13/pflag"
)

// Line is our flags and their values. It is independent of the global flag sets unless
// the program adds it there. Set the fields before the first call of Parse.
type Line struct {
	Flags *pflag.FlagSet // ours

	// The program's own flags; nil means the global sets as they are when the
	// command line is parsed.
	Program  *flag.FlagSet
	ProgramP *pflag.FlagSet
	Exit     func(code int) // nil: os.Exit

	mu        sync.Mutex
	sets      []*flag.FlagSet // of AddTo
	handedOut bool            // the program parses
	parsed    bool            // Parse has run; err and ignored are its result
	err       error           // a flag had a bad value
	ignored   string          // the first unknown flag, if it was ignored
}

// Parse reads the command line unless the program already has. It may be
// called again. Flags that are defined on flag.CommandLine and on
// pflag.CommandLine are parsed together with ours, and get their values too. If a
// name is defined twice, the program's flag wins. Long flags have one dash or two.
// Arguments end at -- and, as in the standard library, at the first that is not
// a flag. In a program with pflag flags, flags may follow it, as usual there.
// The remaining arguments become flag.Args and pflag.Args. In a program without flags of its own
// they are a mistake, unless they stand behind -- or Parse is lenient.
//
// An unknown flag is an error and Parse prints the usage. If lenient, because
// the program configures us otherwise, Parse ignores it. -h and -help print the
// usage and exit; if lenient only -help does, since -h might be the program's.
func (l *Line) Parse(args []string, lenient bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	program, programP := l.Program, l.ProgramP
	if program == nil {
		program = flag.CommandLine
	}
	if programP == nil {
		programP = pflag.CommandLine
	}
	if !l.parsed && !l.handedOut && !program.Parsed() && !programP.Parsed() && !l.given() {
		l.parsed, l.err = l.parseWith(program, programP, args, lenient)
	}
	if l.err == nil && l.ignored != "" && !lenient {
		l.usage(program, programP)
		return unknownFlag(l.ignored)
	}
	return l.err
}

// HandOut leaves the parsing to the program: Parse then does nothing.
func (l *Line) HandOut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handedOut = true
}

// Read calls f, which reads the values, while no parsing is in progress.
func (l *Line) Read(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// foreign reports whether the program has flags of its own, and so perhaps arguments.
func (l *Line) foreign(program *flag.FlagSet, programP *pflag.FlagSet) bool {
	own := false
	program.VisitAll(func(f *flag.Flag) { own = own || l.Flags.Lookup(f.Name) == nil })
	programP.VisitAll(func(f *pflag.Flag) { own = own || l.Flags.Lookup(f.Name) == nil })
	return own
}

// given reports whether one of our flags was set through another flag set.
func (l *Line) given() bool {
	given := false
	l.Flags.VisitAll(func(f *pflag.Flag) { given = given || f.Changed })
	return given
}

func (l *Line) parseWith(program *flag.FlagSet, programP *pflag.FlagSet, args []string, lenient bool) (done bool, err error) {
	all := merge(program, programP, l.Flags)
	interspersed := lenient || programP.HasFlags()
	all.SetInterspersed(interspersed)

	mine := func(name string) *pflag.Flag {
		if program.Lookup(name) != nil || programP.Lookup(name) != nil {
			return nil
		}
		return l.Flags.Lookup(name)
	}
	n := normalizer{set: all, mine: mine, interspersed: interspersed, lenient: lenient}
	args = n.normalize(args)
	switch {
	case n.help:
		l.usage(program, programP)
		l.exitWith(0)
		return false, nil
	case n.unknown != "" && !lenient:
		l.usage(program, programP)
		return false, unknownFlag(n.unknown)
	}
	if n.empty != "" {
		return true, needsValue(strings.TrimLeft(n.empty, "-"))
	}
	if n.stray != "" {
		return true, strayArgument(n.stray)
	}
	l.ignored = n.unknown
	if err := all.Parse(args); err != nil {
		return true, valueError(err, l.Flags)
	}
	if all.NArg() > 0 && all.ArgsLenAtDash() != 0 && !lenient && !l.foreign(program, programP) {
		return true, strayArgument(all.Arg(0))
	}
	if n.unknown == "" {
		// This marks both sets as parsed and gives them the arguments. A pflag set
		// that includes a standard one clears its arguments, so it comes first.
		rest := append([]string{"--"}, all.Args()...)
		if err := programP.Parse(rest); err != nil {
			return true, err
		}
		return true, program.Parse(rest)
	}
	return true, nil
}

func (l *Line) exitWith(code int) {
	if l.Exit == nil {
		os.Exit(code)
	}
	l.Exit(code)
}

// usage prints the program's own usage, then those of our flags that
// the program does not have.
func (l *Line) usage(program *flag.FlagSet, programP *pflag.FlagSet) {
	out := program.Output()
	if program.Usage != nil {
		program.Usage()
	} else {
		fmt.Fprintf(out, "Usage of %s:\n", os.Args[0])
		program.PrintDefaults()
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	programP.VisitAll(func(f *pflag.Flag) {
		if program.Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	fmt.Fprint(out, own.FlagUsages())
	ours := pflag.NewFlagSet("", pflag.ContinueOnError)
	l.Flags.VisitAll(func(f *pflag.Flag) {
		if program.Lookup(f.Name) == nil && programP.Lookup(f.Name) == nil {
			ours.AddFlag(f)
		}
	})
	if ours.HasFlags() {
		fmt.Fprintf(out, "\nFlags of the job worker, with one dash or two:\n%s", ours.FlagUsages())
	}
}
