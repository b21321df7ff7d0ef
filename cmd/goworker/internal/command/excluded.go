package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// searches is what the usage of a command has that takes a search.
const searches = "SEARCH"

// excludedLast puts the words of a search that have a dash before them behind --, where a flag does not stand. Otherwise -nightly: would be the flag -n with
// the value ightly:, and the command would change another namespace. Only words that are exactly a flag of the command stay what they are. It does the same
// to negative numbers that control takes, as in concurrency -2.
func excludedLast(root *cobra.Command, args []string) []string {
	c, _, err := root.Find(args)
	if err != nil {
		return args
	}
	search, numbers := strings.Contains(c.Use, searches), c.HasParent() && c.Parent().Name() == "control"
	if !search && !numbers {
		return args
	}
	c.InitDefaultHelpFlag()
	c.InheritedFlags() // it makes them flags of c
	kept, excluded := []string{}, []string{}
	for n := 0; n < len(args); n++ {
		arg := args[n]
		if arg == "--" {
			excluded = append(excluded, args[n+1:]...)
			break
		}
		f, has := flagOf(c.Flags(), arg)
		if f == nil && len(arg) > 1 && arg[0] == '-' && (search && arg[1] != '-' || arg[1] >= '0' && arg[1] <= '9') {
			excluded = append(excluded, arg)
			continue
		}
		if kept = append(kept, arg); f != nil && !has && f.NoOptDefVal == "" && n+1 < len(args) { // its value is the next word
			n++
			kept = append(kept, args[n])
		}
	}
	if len(excluded) == 0 {
		return args
	}
	return slices.Concat(kept, []string{"--"}, excluded)
}

// flagOf is the flag that a word is, and whether its value stands in the word.
func flagOf(flags *pflag.FlagSet, word string) (f *pflag.Flag, has bool) {
	name, _, has := strings.Cut(word, "=")
	if long, ok := strings.CutPrefix(name, "--"); ok {
		return flags.Lookup(long), has
	}
	if short, ok := strings.CutPrefix(name, "-"); ok && len(short) == 1 {
		return flags.ShorthandLookup(short), has
	}
	return nil, false
}
