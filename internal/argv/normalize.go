package argv

import (
	"strings"

	"github.com/spf13/pflag"
)

// normalizer rewrites arguments for pflag: a long flag with one dash gets two.
// Its fields also hold what it found.
type normalizer struct {
	set          *pflag.FlagSet
	interspersed bool // flags may follow other arguments
	lenient      bool // unknown flags are left out

	help    bool
	unknown string // the first unknown flag, without its value
	empty   string // the first flag that lacks its value, since -uri follows

	mine  func(name string) *pflag.Flag // one of our flags, nil if the name is the program's
	stray string                        // the first argument that was meant for the flag before it
}

func (n *normalizer) normalize(args []string) []string {
	out := make([]string, 0, len(args))
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" || !n.interspersed && !isFlag(arg) {
			return append(out, args...)
		}
		args = args[1:]
		if !isFlag(arg) {
			out = append(out, arg)
			continue
		}
		flag, takesNext := n.flag(arg)
		if n.help {
			return nil
		}
		if flag != "" {
			out = append(out, flag)
			n.lookBehind(flag, takesNext, args)
		} else {
			// The next argument may be the value of the unknown flag. If it does
			// not look like a flag, it probably is.
			takesNext = !strings.Contains(arg, "=") && len(args) > 0 && !isFlag(args[0])
			if n.unknown == "" {
				n.unknown, _, _ = strings.Cut(arg, "=")
			}
		}
		if takesNext && len(args) > 0 {
			if flag != "" {
				out = append(out, args[0])
				if n.empty == "" && isURI(args[0]) {
					n.empty = arg
				}
			}
			args = args[1:]
		}
	}
	return out
}

// lookBehind notes an argument that was meant for the flag before it: the b of "-queues=a, b", and the
// false of "-use-number false".
func (n *normalizer) lookBehind(flag string, takesNext bool, args []string) {
	name, value, hasValue := strings.Cut(strings.TrimLeft(flag, "-"), "=")
	f := n.mine(name)
	if takesNext && len(args) > 0 {
		value, args = args[0], args[1:]
	}
	if f == nil || len(args) == 0 || isFlag(args[0]) || n.stray != "" {
		return
	}
	isSwitch := f.NoOptDefVal != "" && !hasValue && (args[0] == "true" || args[0] == "false")
	if isSwitch || name == "queues" && strings.HasSuffix(strings.TrimSpace(value), ",") {
		n.stray = args[0]
	}
}

// isURI reports whether an argument is the flag -uri. If another flag lacks its value, it would
// take -uri as one and print it in its error, and the password with it.
func isURI(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return name == "-uri" || name == "--uri"
}

func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// flag returns one flag as pflag wants it, and whether the next argument is its
// value; an empty string if the flag is unknown.
func (n *normalizer) flag(arg string) (flag string, takesNext bool) {
	name, _, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
	double := arg[1] == '-'
	if name == "" || name[0] == '-' {
		return "", false
	}
	short := !double && n.short(name[0]) != nil
	if f := n.set.Lookup(name); f != nil && !(short && len(name) == 1) {
		if !double {
			arg = "-" + arg
		}
		return arg, !hasValue && f.NoOptDefVal == ""
	}
	if short {
		return n.cluster(arg)
	}
	n.help = name == "help" || name == "h" && !n.lenient
	return "", false
}

// cluster reads short flags in one argument, as in -vn5. Only the
// last may take a value.
func (n *normalizer) cluster(arg string) (flag string, takesNext bool) {
	for i := 1; i < len(arg); i++ {
		f := n.short(arg[i])
		switch {
		case f == nil:
			return "", false
		case f.NoOptDefVal == "":
			return arg, i == len(arg)-1
		case i+2 < len(arg) && arg[i+1] == '=':
			return arg, false
		}
	}
	return arg, false
}

func (n *normalizer) short(c byte) *pflag.Flag {
	if c >= 0x80 {
		return nil
	}
	return n.set.ShorthandLookup(string(rune(c)))
}
