package argv

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// host is a program with flags of its own, and ours.
type host struct {
	*Line
	out    strings.Builder
	exited int

	queues, ourURI string
	exit, number   bool

	name, uri, file string
	verbose, debug  bool
	limits          []string
}

func newHost(ownFlags, ownPFlags bool) *host {
	h := &host{Line: &Line{Flags: pflag.NewFlagSet("goworker", pflag.ContinueOnError)}, exited: -1}
	h.Flags.StringVar(&h.queues, "queues", "", "the queues")
	h.Flags.StringVar(&h.ourURI, "uri", "redis://localhost:6379/", "the URI of the Redis server")
	h.Flags.BoolVar(&h.exit, "exit-on-complete", false, "exit when the queue is empty")
	h.Flags.BoolVar(&h.number, "use-number", false, "use json.Number")
	interval, concurrency, connections := Seconds(5*time.Second), Count(25), Count(2)
	h.Flags.Var(&interval, "interval", "sleep interval")
	h.Flags.Var(&concurrency, "concurrency", "how many jobs run")
	h.Flags.Var(&connections, "connections", "how many connections")
	for _, name := range []string{"recover-limit", "failed-max-size", "wait-replicas"} {
		h.Flags.Var(new(Amount), name, "an amount")
	}
	h.Exit = func(code int) { h.exited = code }
	h.Program = flag.NewFlagSet("program", flag.ContinueOnError)
	h.Program.SetOutput(&h.out)
	h.ProgramP = pflag.NewFlagSet("program", pflag.ContinueOnError)
	if ownFlags {
		h.Program.StringVar(&h.name, "name", "", "the program's `name`")
		h.Program.StringVar(&h.uri, "uri", "", "the program's own URI")
		h.Program.BoolVar(&h.verbose, "v", false, "the program's verbosity")
		h.Program.Func("limit", "a limit", func(v string) error { h.limits = append(h.limits, v); return nil })
	}
	if ownPFlags {
		h.ProgramP.BoolVarP(&h.debug, "debug", "d", false, "the program's debugging")
		h.ProgramP.StringVarP(&h.file, "file", "f", "", "the program's file")
	}
	return h
}

func TestParse(t *testing.T) {
	t.Parallel()
	type want struct {
		Queues, Name, URI, OwnURI, File string
		Verbose, Debug, Exit, Number    bool
		Limits, Args                    []string
	}
	for _, tt := range []struct {
		args            string
		flags, pflags   bool
		lenient, parsed bool
		want            want
	}{
		{args: "", parsed: true},
		{args: "-queues x -exit-on-complete", parsed: true, want: want{Queues: "x", Exit: true}},
		{args: "-queues=x -use-number=true", parsed: true, want: want{Queues: "x", Number: true}},
		{args: "--queues x --exit-on-complete=false", parsed: true, want: want{Queues: "x"}},
		{args: "--queues=-x -uri u", parsed: true, want: want{Queues: "-x", URI: "u"}},
		{args: "-queues -x -uri --", parsed: true, want: want{Queues: "-x", URI: "--"}},
		{args: "-exit-on-complete -- -queues x", parsed: true, want: want{Exit: true, Args: []string{"-queues", "x"}}},
		{args: "-exit-on-complete run -queues x", flags: true, parsed: true, want: want{Exit: true, Args: []string{"run", "-queues", "x"}}},
		{args: "- -queues x", flags: true, parsed: true, want: want{Args: []string{"-", "-queues", "x"}}},
		{args: "-exit-on-complete run -queues x", lenient: true, parsed: true, want: want{Queues: "x", Exit: true, Args: []string{"run"}}},
		{
			args: "-v -queues x -name=n --limit 1 -limit=2 a b", flags: true, parsed: true,
			want: want{Queues: "x", Name: "n", Verbose: true, Limits: []string{"1", "2"}, Args: []string{"a", "b"}},
		},
		{args: "-v=false --v -uri mine", flags: true, parsed: true, want: want{Verbose: true, OwnURI: "mine"}},
		{args: "-v= -name=x", flags: true, parsed: false, want: want{}},
		{args: "-d -fx -queues q", pflags: true, parsed: true, want: want{Debug: true, File: "x", Queues: "q"}},
		{args: "-df x -queues=q run -debug=false", pflags: true, parsed: true, want: want{File: "x", Queues: "q", Args: []string{"run"}}},
		{args: "-f -queues -d=true", pflags: true, parsed: true, want: want{File: "-queues", Debug: true}},
		{args: "-v -d --uri=mine -queues q", flags: true, pflags: true, parsed: true, want: want{Verbose: true, Debug: true, OwnURI: "mine", Queues: "q"}},
		{args: "-other=1 run -x y -queues q -h", lenient: true, want: want{Queues: "q"}},
		{args: "-queues q -debug x -use-number", lenient: true, want: want{Queues: "q", Number: true}},
		{args: "-queues q -name n", flags: true, lenient: true, parsed: true, want: want{Queues: "q", Name: "n"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			h := newHost(tt.flags, tt.pflags)
			err := h.Parse(strings.Fields(tt.args), tt.lenient)
			if !tt.parsed && !tt.lenient {
				if err == nil {
					t.Fatal("there is no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var uri string
			if h.Flags.Changed("uri") {
				uri = h.ourURI
			}
			got := want{
				h.queues, h.name, uri, h.uri, h.file, h.verbose, h.debug, h.exit, h.number,
				h.limits, append([]string(nil), h.Program.Args()...),
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if h.Program.Parsed() != tt.parsed || h.ProgramP.Parsed() != tt.parsed {
				t.Errorf("the program's sets are parsed: %v and %v", h.Program.Parsed(), h.ProgramP.Parsed())
			}
			if !slices.Equal(h.Program.Args(), h.ProgramP.Args()) {
				t.Errorf("arguments %q and %q", h.Program.Args(), h.ProgramP.Args())
			}
			// Once is enough: values that collect would collect twice.
			if err := h.Parse(strings.Fields(tt.args), tt.lenient); err != nil || !slices.Equal(h.limits, got.Limits) {
				t.Errorf("parsed again: %v, limits %q", err, h.limits)
			}
			if h.exited >= 0 || h.out.Len() > 0 {
				t.Errorf("exited with %d and printed %q", h.exited, h.out.String())
			}
		})
	}
}

// An argument that belongs to no flag ends a program that has no arguments. What was meant for one of our
// flags ends any program.
func TestStrayArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args           string
		flags, lenient bool
		want           string // the argument; empty: it is no mistake
	}{
		{args: "-queues=a, b -uri=u", want: "b"},
		{args: "-queues a, b -uri=u", want: "b"},
		{args: "-queues=a, b -uri=u", flags: true, want: "b"},
		{args: "-queues=a, b -uri=u", lenient: true, want: "b"},
		{args: "-use-number false -concurrency=3", want: "false"},
		{args: "-use-number false -concurrency=3", lenient: true, want: "false"},
		{args: "-queues=a b", want: "b"},
		{args: "-queues=a redis://:secret@host", want: "redis://:***@host"},
		{args: "-queues=a b", flags: true},
		{args: "-queues=a b", lenient: true},
		{args: "-queues=a -- b"},
		{args: "-queues=a, -use-number"},
		{args: "-v false", flags: true},
	} {
		h := newHost(tt.flags, false)
		err := h.Parse(strings.Fields(tt.args), tt.lenient)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), `what is "`+tt.want+`"?`)) {
			t.Errorf("%s: %v, want a question about %q", tt.args, err, tt.want)
		}
	}
}

// The program's set knows which of its flags were given.
func TestParseReportsWhatWasSet(t *testing.T) {
	t.Parallel()
	h := newHost(true, true)
	if err := h.Parse([]string{"-name", "n", "-d"}, false); err != nil {
		t.Fatal(err)
	}
	var set []string
	h.Program.Visit(func(f *flag.Flag) { set = append(set, f.Name) })
	h.ProgramP.Visit(func(f *pflag.Flag) { set = append(set, f.Name) })
	if diff := cmp.Diff([]string{"name", "debug"}, set); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"-bogus=secret", "no flag -bogus;"},
		{"--bogus x", "no flag --bogus;"},
		{"-x", "no flag -x;"},
		{"-dx", "no flag -dx;"},
		{"---queues x", "no flag ---queues;"},
		{"-=x", "no flag -;"},
		{"-queues", "the flag -queues needs a value"},
		{"-concurrency=0", `-concurrency as "0": it takes a whole number of at least 1`},
		{"-connections=many", `-connections as "many": it takes a whole number of at least 1`},
		{"-interval -1", `-interval as "-1": it takes seconds`},
		{"-recover-limit=x", `-recover-limit as "x": it takes a whole number`},
		{"-recover-limit=-3", `-recover-limit as "-3": it takes a whole number of at least 0`},
		{"-failed-max-size=-1", `-failed-max-size as "-1": it takes a whole number of at least 0`},
		{"-wait-replicas=-1", `-wait-replicas as "-1": it takes a whole number of at least 0`},
		{"-use-number=maybe", `-use-number as "maybe": it takes true or false`},
		{"-d=secret", "-debug: it takes true or false"},
		{"-v=secret", "-v: parse error"},
	} {
		h := newHost(true, true)
		for range 2 { // the error stays
			err := h.Parse(strings.Fields(tt.args), false)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, want something with %q", tt.args, err, tt.want)
			}
		}
		if usage := strings.Contains(h.out.String(), "job worker"); usage != strings.HasPrefix(tt.want, "no flag") {
			t.Errorf("%s: printed %q", tt.args, h.out.String())
		}
	}
}

// Enqueue may parse leniently before Work does so strictly.
func TestParseRemembersWhatItIgnored(t *testing.T) {
	t.Parallel()
	h := newHost(false, false)
	if err := h.Parse([]string{"-bogus", "-queues=q"}, true); err != nil {
		t.Fatal(err)
	}
	if err := h.Parse([]string{"-bogus", "-queues=q"}, false); err == nil || !strings.Contains(err.Error(), "-bogus") {
		t.Errorf("parsed strictly: %v", err)
	}
}

func TestParseLeavesAParsedCommandLineAlone(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*host) error{
		"flag":       func(h *host) error { return h.Program.Parse(nil) },
		"pflag":      func(h *host) error { return h.ProgramP.Parse(nil) },
		"handed out": func(h *host) error { h.HandOut(); return nil },
		"another set": func(h *host) error {
			cobra := pflag.NewFlagSet("", pflag.ContinueOnError)
			cobra.AddFlagSet(h.Flags)
			return cobra.Parse([]string{"--interval=1"})
		},
	} {
		h := newHost(true, true)
		if err := prepare(h); err != nil {
			t.Fatal(name, err)
		}
		if err := h.Parse([]string{"-bogus", "-queues=x"}, false); err != nil || h.queues != "" {
			t.Errorf("%s: %v, queues %q", name, err, h.queues)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"-h", "--h", "-help", "--help"} {
		h := newHost(true, true)
		if err := h.Parse([]string{"-v", arg, "-bogus"}, false); err != nil || h.exited != 0 {
			t.Errorf("%s: %v, exit %d", arg, err, h.exited)
		}
		own, ours, found := strings.Cut(h.out.String(), "\nFlags of the job worker, with one dash or two:\n")
		for _, flag := range []string{"-name name", "own URI", "-v", "--debug"} {
			if !strings.Contains(own, flag) {
				t.Errorf("%s: the program's usage lacks %s:\n%s", arg, flag, own)
			}
		}
		if !found || !strings.Contains(ours, "--queues string") || !strings.Contains(ours, "(default 25)") || strings.Contains(ours, "--uri") {
			t.Errorf("%s: the worker's usage is\n%s", arg, ours)
		}
	}
	h := newHost(false, false)
	if err := h.Parse([]string{"-h", "localhost"}, true); err != nil || h.exited >= 0 {
		t.Errorf("-h of another program: %v, exit %d", err, h.exited)
	}
	h = newHost(false, false)
	h.Program.String("h", "", "the program's own")
	if err := h.Parse([]string{"-h", "localhost"}, false); err != nil || h.exited >= 0 {
		t.Errorf("-h of the program: %v, exit %d", err, h.exited)
	}
}
