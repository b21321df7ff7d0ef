package goworker

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/goworker/goworker/internal/conn"
	"github.com/spf13/pflag"
)

// parse reads the command line unless the program already has, and may be
// called again. Flags that are defined on flag.CommandLine and on
// pflag.CommandLine are parsed together with ours, and get their values too: a
// name that is defined twice is the program's. Long flags have one dash or two.
// Arguments end at -- and, as in the standard library, at the first that is not
// a flag; in a program with pflag flags flags may follow it, as usual there.
// What is left becomes flag.Args and pflag.Args.
//
// A flag nobody knows is an error and the usage is printed; if lenient, because
// the program configures us otherwise, it is ignored. -h and -help print the
// usage and exit; if lenient only -help, since -h might be somebody else's.
func (c *commandLine) parse(args []string, lenient bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	program, programP := c.program, c.programP
	if program == nil {
		program = flag.CommandLine
	}
	if programP == nil {
		programP = pflag.CommandLine
	}
	if !c.parsed && !c.handedOut && !program.Parsed() && !programP.Parsed() && !c.given() {
		c.parsed, c.err = c.parseWith(program, programP, args, lenient)
	}
	if c.err == nil && c.ignored != "" && !lenient {
		c.usage(program, programP)
		return unknownFlag(c.ignored)
	}
	return c.err
}

// given tells whether one of our flags was set through another flag set.
func (c *commandLine) given() bool {
	given := false
	c.set.VisitAll(func(f *pflag.Flag) { given = given || f.Changed })
	return given
}

func (c *commandLine) parseWith(program *flag.FlagSet, programP *pflag.FlagSet, args []string, lenient bool) (done bool, err error) {
	all := merge(program, programP, c.set)
	interspersed := lenient || programP.HasFlags()
	all.SetInterspersed(interspersed)

	n := normalizer{set: all, interspersed: interspersed, lenient: lenient}
	args = n.normalize(args)
	switch {
	case n.help:
		c.usage(program, programP)
		c.exitWith(0)
		return false, nil
	case n.unknown != "" && !lenient:
		c.usage(program, programP)
		return false, unknownFlag(n.unknown)
	}
	if n.empty != "" {
		return true, needsValue(strings.TrimLeft(n.empty, "-"))
	}
	c.ignored = n.unknown
	if err := all.Parse(args); err != nil {
		return true, valueError(err, c.set)
	}
	if n.unknown == "" {
		// Both now say that they are parsed, and have the arguments. A pflag set
		// that includes a standard one clears its arguments, so it comes first.
		rest := append([]string{"--"}, all.Args()...)
		if err := programP.Parse(rest); err != nil {
			return true, err
		}
		return true, program.Parse(rest)
	}
	return true, nil
}

func (c *commandLine) exitWith(code int) {
	if c.exit == nil {
		os.Exit(code)
	}
	c.exit(code)
}

// merge returns a set with the flags of all three; of a name that occurs twice
// the first counts. They are copies that set the originals through their own
// sets, which thereby know what was set.
func merge(program *flag.FlagSet, programP, ours *pflag.FlagSet) *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.SetNormalizeFunc(programP.GetNormalizeFunc())
	addFrom := func(set *pflag.FlagSet) {
		set.VisitAll(func(f *pflag.Flag) {
			if all.Lookup(f.Name) == nil {
				name := f.Name
				all.AddFlag(&pflag.Flag{
					Name:        name,
					Shorthand:   f.Shorthand,
					NoOptDefVal: f.NoOptDefVal,
					Value:       forwarded{f.Value, func(v string) error { return set.Set(name, v) }},
				})
			}
		})
	}
	addFrom(programP)
	program.VisitAll(func(f *flag.Flag) {
		if all.Lookup(f.Name) == nil {
			name := f.Name
			merged := &pflag.Flag{Name: name, Value: forwarded{f.Value, func(v string) error { return program.Set(name, v) }}}
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
				merged.NoOptDefVal = "true"
			}
			all.AddFlag(merged)
		}
	})
	addFrom(ours)
	return all
}

// forwarded is a flag's value in a merged set.
type forwarded struct {
	original interface{ String() string }
	set      func(string) error
}

func (f forwarded) String() string         { return f.original.String() }
func (f forwarded) Set(value string) error { return f.set(value) }
func (f forwarded) Type() string           { return "value" }

// usage prints the program's own usage, and behind it those of our flags that
// are not among its own.
func (c *commandLine) usage(program *flag.FlagSet, programP *pflag.FlagSet) {
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
	c.set.VisitAll(func(f *pflag.Flag) {
		if program.Lookup(f.Name) == nil && programP.Lookup(f.Name) == nil {
			ours.AddFlag(f)
		}
	})
	if ours.HasFlags() {
		fmt.Fprintf(out, "\nFlags of the job worker, with one dash or two:\n%s", ours.FlagUsages())
	}
}

func unknownFlag(arg string) error {
	return fmt.Errorf("command line: this program has no flag %s; -help lists those it has", arg)
}

func needsValue(name string) error {
	return fmt.Errorf("command line: the flag -%s needs a value, as in -%[1]s=value", name)
}

// valueError turns pflag's error into a sentence. A value is shown only if it
// was given to a flag of ours, which refuse no secrets.
func valueError(err error, ours *pflag.FlagSet) error {
	var missing *pflag.ValueRequiredError
	if errors.As(err, &missing) {
		return needsValue(missing.GetSpecifiedName())
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("command line: %w", err)
	}
	name, shown, why := invalid.GetFlag().Name, "", cause(err)
	if f := ours.Lookup(name); f != nil {
		shown = fmt.Sprintf(" as %q", conn.RedactURI(invalid.GetValue()))
	}
	return fmt.Errorf("command line: cannot use the flag -%s%s: %w", name, shown, why)
}

// cause is what a flag's value itself says about a bad argument.
func cause(err error) error {
	var invalid *pflag.InvalidValueError
	for errors.As(err, &invalid) {
		err = invalid.Unwrap()
	}
	var number *strconv.NumError
	switch {
	case !errors.As(err, &number):
		return err
	case number.Func == "ParseBool":
		return errors.New("it takes true or false")
	case number.Func == "ParseInt" || number.Func == "Atoi":
		return errors.New("it takes a whole number")
	}
	return number.Err
}
