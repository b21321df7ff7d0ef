package goworker

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// host is a program with flags of its own.
type host struct {
	*commandLine
	out    strings.Builder
	exited int

	name, uri, file string
	verbose, debug  bool
	limits          []string
}

func newHost(ownFlags, ownPFlags bool) *host {
	h := &host{commandLine: newCommandLine(), exited: -1}
	h.exit = func(code int) { h.exited = code }
	h.program = flag.NewFlagSet("program", flag.ContinueOnError)
	h.program.SetOutput(&h.out)
	h.programP = pflag.NewFlagSet("program", pflag.ContinueOnError)
	if ownFlags {
		h.program.StringVar(&h.name, "name", "", "the program's `name`")
		h.program.StringVar(&h.uri, "uri", "", "the program's own URI")
		h.program.BoolVar(&h.verbose, "v", false, "the program's verbosity")
		h.program.Func("limit", "a limit", func(v string) error { h.limits = append(h.limits, v); return nil })
	}
	if ownPFlags {
		h.programP.BoolVarP(&h.debug, "debug", "d", false, "the program's debugging")
		h.programP.StringVarP(&h.file, "file", "f", "", "the program's file")
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
		{args: "-queues -x -uri -- rest", parsed: true, want: want{Queues: "-x", URI: "--", Args: []string{"rest"}}},
		{args: "-exit-on-complete -- -queues x", parsed: true, want: want{Exit: true, Args: []string{"-queues", "x"}}},
		{args: "-exit-on-complete run -queues x", parsed: true, want: want{Exit: true, Args: []string{"run", "-queues", "x"}}},
		{args: "- -queues x", parsed: true, want: want{Args: []string{"-", "-queues", "x"}}},
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
			err := h.parse(strings.Fields(tt.args), tt.lenient)
			if !tt.parsed && !tt.lenient {
				if err == nil {
					t.Fatal("there is no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s := h.apply(WorkerSettings{})
			got := want{
				s.QueuesString, h.name, s.URI, h.uri, h.file, h.verbose, h.debug, s.ExitOnComplete, s.UseNumber,
				h.limits, append([]string(nil), h.program.Args()...),
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if h.program.Parsed() != tt.parsed || h.programP.Parsed() != tt.parsed {
				t.Errorf("the program's sets are parsed: %v and %v", h.program.Parsed(), h.programP.Parsed())
			}
			if !slices.Equal(h.program.Args(), h.programP.Args()) {
				t.Errorf("arguments %q and %q", h.program.Args(), h.programP.Args())
			}
			// Once is enough: values that collect would collect twice.
			if err := h.parse(strings.Fields(tt.args), tt.lenient); err != nil || !slices.Equal(h.limits, got.Limits) {
				t.Errorf("parsed again: %v, limits %q", err, h.limits)
			}
			if h.exited >= 0 || h.out.Len() > 0 {
				t.Errorf("exited with %d and printed %q", h.exited, h.out.String())
			}
		})
	}
}

// A flag that was set is one that the program's set tells of too.
func TestParseReportsWhatWasSet(t *testing.T) {
	t.Parallel()
	h := newHost(true, true)
	if err := h.parse([]string{"-name", "n", "-d"}, false); err != nil {
		t.Fatal(err)
	}
	var set []string
	h.program.Visit(func(f *flag.Flag) { set = append(set, f.Name) })
	h.programP.Visit(func(f *pflag.Flag) { set = append(set, f.Name) })
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
			err := h.parse(strings.Fields(tt.args), false)
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
	if err := h.parse([]string{"-bogus", "-queues=q"}, true); err != nil {
		t.Fatal(err)
	}
	if err := h.parse([]string{"-bogus", "-queues=q"}, false); err == nil || !strings.Contains(err.Error(), "-bogus") {
		t.Errorf("parsed strictly: %v", err)
	}
}

func TestParseLeavesAParsedCommandLineAlone(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*host) error{
		"flag":       func(h *host) error { return h.program.Parse(nil) },
		"pflag":      func(h *host) error { return h.programP.Parse(nil) },
		"handed out": func(h *host) error { h.handOut(); return nil },
		"another set": func(h *host) error {
			cobra := pflag.NewFlagSet("", pflag.ContinueOnError)
			cobra.AddFlagSet(h.set)
			return cobra.Parse([]string{"--interval=1"})
		},
	} {
		h := newHost(true, true)
		if err := prepare(h); err != nil {
			t.Fatal(name, err)
		}
		if err := h.parse([]string{"-bogus", "-queues=x"}, false); err != nil || h.apply(WorkerSettings{}).QueuesString != "" {
			t.Errorf("%s: %v, %+v", name, err, h.apply(WorkerSettings{}))
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"-h", "--h", "-help", "--help"} {
		h := newHost(true, true)
		if err := h.parse([]string{"-v", arg, "-bogus"}, false); err != nil || h.exited != 0 {
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
	if err := h.parse([]string{"-h", "localhost"}, true); err != nil || h.exited >= 0 {
		t.Errorf("-h of somebody else: %v, exit %d", err, h.exited)
	}
	h = newHost(false, false)
	h.program.String("h", "", "the program's own")
	if err := h.parse([]string{"-h", "localhost"}, false); err != nil || h.exited >= 0 {
		t.Errorf("-h of the program: %v, exit %d", err, h.exited)
	}
}
