package argv

import (
	"flag"

	"github.com/spf13/pflag"
)

// merge returns a set with the flags of all three; if a name occurs twice
// the first counts. The flags are copies that set the originals through their own
// sets, so that these record which flags were set.
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

// AddTo defines our flags on a set of the standard library, sharing the values. It skips
// names that are taken.
func (l *Line) AddTo(set *flag.FlagSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sets = append(l.sets, set)
	l.addTo(set)
}

func (l *Line) addTo(set *flag.FlagSet) {
	l.Flags.VisitAll(func(f *pflag.Flag) {
		if set.Lookup(f.Name) == nil {
			set.Var(stdValue{l.Flags, f}, f.Name, f.Usage)
		}
	})
}

// Add defines more flags, on the sets of AddTo too. It does so before the command line is parsed.
func (l *Line) Add(define func(*pflag.FlagSet)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	define(l.Flags)
	for _, set := range l.sets {
		l.addTo(set)
	}
}

// stdValue is one of our flags as the standard library sees it. The library
// also prints a zero stdValue to find out what an empty default looks like.
type stdValue struct {
	set  *pflag.FlagSet
	flag *pflag.Flag
}

func (v stdValue) String() string {
	if v.flag == nil {
		return ""
	}
	return v.flag.Value.String()
}

func (v stdValue) Set(value string) error { return Cause(v.set.Set(v.flag.Name, value)) }

func (v stdValue) Get() any { return v.flag.Value.String() }

// IsBoolFlag allows the flag without a value.
func (v stdValue) IsBoolFlag() bool { return v.flag.NoOptDefVal != "" }
