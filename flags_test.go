package goworker

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/goworker/goworker/internal/argv"
	"github.com/goworker/goworker/internal/setting"
)

// Every flag of benmanns/goworker, with its default and its help text.
func TestFlagsOfGoworker(t *testing.T) {
	t.Parallel()
	set := newCommandLine().Flags
	for _, want := range [][3]string{
		{"queues", "", "a comma-separated list of Resque queues"},
		{"interval", "5", "sleep interval when no jobs are found"},
		{"concurrency", "25", "the maximum number of concurrently executing jobs"},
		{"connections", "2", "the maximum number of connections to the Redis database"},
		{"uri", "redis://localhost:6379/", "the URI of the Redis server"},
		{"namespace", "resque:", "the Redis namespace"},
		{"tls-cert", "", "path to a custom CA cert"},
		{"exit-on-complete", "false", "exit when the queue is empty"},
		{"use-number", "false", "use json.Number instead of float64 when decoding numbers in JSON. will default to true soon"},
		{"insecure-tls", "false", "skip TLS validation"},
	} {
		f := set.Lookup(want[0])
		if f == nil {
			t.Errorf("no flag -%s", want[0])
			continue
		}
		if diff := cmp.Diff(want, [3]string{f.Name, f.DefValue, f.Usage}); diff != "" {
			t.Error(diff)
		}
	}
}

func TestNothingIsDefinedGlobally(t *testing.T) {
	t.Parallel()
	Flags()
	newCommandLine().Flags.VisitAll(func(f *pflag.Flag) {
		if flag.Lookup(f.Name) != nil || pflag.Lookup(f.Name) != nil {
			t.Errorf("the flag -%s is on a global set", f.Name)
		}
	})
}

func TestApply(t *testing.T) {
	t.Parallel()
	base := WorkerSettings{
		Queues: []string{"set"}, QueuesString: "set too", Interval: 3, IntervalFloat: 4, PollInterval: 5,
		Concurrency: 6, Connections: 7, URI: "u", Namespace: "n", ExitOnComplete: true, UseNumber: true,
		SkipTLSVerify: true, RailsJSON: true, ShutdownTimeout: 8, RecoverLimit: 9,
	}
	if diff := cmp.Diff(base, with(t).apply(base)); diff != "" {
		t.Errorf("no flag changes something:\n%s", diff)
	}
	every := with(t, "--queues=a,b=2", "--interval=0.5", "--concurrency=1..4", "--scale-age=2m", "--scale-up=fast", "--connections=2", "--uri=unix:///x", "--namespace=resque:",
		"--tls-cert=ca", "--tls-client-cert=cc", "--tls-client-key=ck", "--exit-on-complete=false", "--use-number=false", "--insecure-tls=false",
		"--order=strict", "--shutdown-timeout=1m", "--recover-limit=2", "--failure-backend=redis", "--rails-json=false", "--hostname=h",
		"--log-level=warn", "--log-format=json", "--max-payload=10", "--max-rss=2GiB", "--wait-replicas=1", "--enqueue-buffer=12",
		"--scheduler-lock-prefix=app", "--node-scheduler=true", "--dynamic-schedule=true", "--history=off", "--stamp=true", "--no-error-in-payload", "--control=full", "--control-key-file=kf", "--control-unsigned", "--name=mailer", "--app-version=1.2",
		"--uri-file=uf", "--password-file=pf", "--leave-delayed", "--leave-unknown", "--failed-max-size=11", "--failed-max-age=720h")
	every.Flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			t.Errorf("-%s is not part of this test", f.Name)
		}
	})
	want := WorkerSettings{
		QueuesString: "a,b=2", PollInterval: 500 * time.Millisecond, Concurrency: 1, ConcurrencyMax: 4, ScaleAge: 2 * time.Minute, ScaleUp: ScaleFast, Connections: 2, URI: "unix:///x", URIFile: "uf", PasswordFile: "pf", Namespace: "resque:",
		TLSCertPath: "ca", TLSClientCertPath: "cc", TLSClientKeyPath: "ck", Order: "strict", ShutdownTimeout: time.Minute, RecoverLimit: 2,
		FailureBackend: "redis", Hostname: "h", LogLevel: "warn", LogFormat: "json",
		MaxPayload: 10, MaxRSS: 2 << 30, WaitReplicas: 1, EnqueueBuffer: 12, SchedulerLockPrefix: "app", NodeScheduler: true, DynamicSchedule: true, History: HistoryOff, Stamp: true, NoErrorInPayload: true,
		Control: ControlFull, ControlKeyFile: "kf", ControlUnsigned: true, Name: "mailer", AppVersion: "1.2",
		LeaveDelayed: true, LeaveUnknown: true, FailedMaxSize: 11, FailedMaxAge: 720 * time.Hour,
	}
	if diff := cmp.Diff(want, every.apply(base)); diff != "" {
		t.Error(diff)
	}
}

func TestApplyZeroes(t *testing.T) {
	t.Parallel()
	s := with(t, "--shutdown-timeout=0", "--recover-limit=0", "--interval=0", "--exit-on-complete=false", "--failed-max-size=0", "--failed-max-age=0").
		apply(WorkerSettings{Interval: 9, FailedMaxSize: 1, FailedMaxAge: 1})
	c, err := s.configFrom(false, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if c.ShutdownTimeout != 0 || c.RecoverLimit != 0 || !c.ExitOnComplete || c.PollInterval != DefaultInterval || c.FailedMaxSize != 0 || c.FailedMaxAge != 0 {
		t.Errorf("zeroes on the command line give %+v", c)
	}
	if s := with(t, "--exit-on-complete=false").apply(WorkerSettings{ExitOnComplete: true}); s.ExitOnComplete {
		t.Error("-exit-on-complete=false does not undo the setting")
	}
}

// Of a flag that is given twice the last counts, and a flag in place of a setting that is out
// of its range mends it.
func TestApplyTwice(t *testing.T) {
	t.Parallel()
	s := with(t, "--concurrency=3..9", "--queues=a,b", "--recover-limit=7", "--recover-limit=5", "--queues=c", "--concurrency=4").
		apply(WorkerSettings{RecoverLimit: -3, Queues: []string{"set"}, ConcurrencyMax: 2})
	c, err := s.configFrom(true, noEnvironment)
	if err != nil || c.Concurrency != 4 || c.ConcurrencyMax != 0 || c.RecoverLimit != 5 || c.queues.Label() != "c" {
		t.Errorf("flags given twice give %+v, %v", c, err)
	}
}

// with returns a command line on which the arguments were given.
func with(t *testing.T, args ...string) *commandLine {
	t.Helper()
	c := newCommandLine()
	if err := c.Flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return c
}

// host is a program with flags of its own.
type host struct {
	*commandLine
	out strings.Builder
}

func newHost() *host {
	h := &host{commandLine: newCommandLine()}
	h.Exit = func(int) {}
	h.Program = flag.NewFlagSet("program", flag.ContinueOnError)
	h.Program.SetOutput(&h.out)
	h.ProgramP = pflag.NewFlagSet("program", pflag.ContinueOnError)
	h.ProgramP.BoolP("debug", "d", false, "the program's debugging")
	h.ProgramP.StringP("file", "f", "", "the program's file")
	return h
}

// What package flags does, on a set that has a -uri of its own.
func TestAddToStandardSet(t *testing.T) {
	t.Parallel()
	c := newCommandLine()
	set := flag.NewFlagSet("program", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	uri := set.String("uri", "", "the program's own")
	c.AddTo(set)
	if err := set.Parse([]string{"-use-number", "-exit-on-complete", "--queues", "a", "-interval=2.5", "-uri=mine", "rest"}); err != nil {
		t.Fatal(err)
	}
	if *uri != "mine" || set.Arg(0) != "rest" {
		t.Errorf("uri %q, arguments %q", *uri, set.Args())
	}
	want := WorkerSettings{UseNumber: true, ExitOnComplete: true, QueuesString: "a", PollInterval: 2500 * time.Millisecond}
	if diff := cmp.Diff(want, c.apply(WorkerSettings{})); diff != "" {
		t.Error(diff)
	}
	for arg, why := range map[string]string{
		"-concurrency=0":  "it takes a whole number of at least 1",
		"-interval=x":     "it takes seconds",
		"-use-number=yes": "it takes true or false",
	} {
		if err := set.Parse([]string{arg}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	var out strings.Builder
	set.SetOutput(&out)
	set.PrintDefaults()
	if strings.Contains(out.String(), "panic") || !strings.Contains(out.String(), "(default 25)") {
		t.Errorf("defaults are printed as\n%s", out.String())
	}
}

// docs/configuration.md and the comments of WorkerSettings say of each setting what its row
// says: its fields, flag, variables and default.
func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	page, _, _ = bytes.Cut(page, []byte("\n## "))
	code := regexp.MustCompile("`([^`]*)`")
	words := func(cell string) (words []string) {
		for _, m := range code.FindAllStringSubmatch(cell, -1) {
			words = append(words, m[1])
		}
		return words
	}
	lines := make(map[string][]string) // the cells of a line, by each of its fields
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.TrimSpace(cells[1]) != "flag" {
			cells = cells[1:5]
			for _, field := range words(cells[1]) {
				lines[field] = cells
			}
		}
	}
	comments := settingComments(t)
	file, err := os.ReadFile("docs/configuration-file.md")
	if err != nil {
		t.Fatal(err)
	}
	_, live, _ := strings.Cut(string(file), "\nAt once, ")
	live, _, _ = strings.Cut(live, "\n\n")
	for _, row := range settingRows {
		if row.Live != slices.Contains(words(live), row.Flag) {
			t.Errorf("docs/configuration-file.md and the row of %s do not agree whether it changes at once", row.Field)
		}
	}
	type documented struct{ flags, fields, defaults, env []string }
	byLine := make(map[string]*documented) // what the rows say, by the first field of the line
	for _, row := range settingRows {
		cells := lines[row.Field]
		if cells == nil {
			t.Errorf("docs/configuration.md lacks %s", row.Field)
			continue
		}
		first := words(cells[1])[0]
		if byLine[first] == nil {
			byLine[first] = new(documented)
		}
		d := byLine[first]
		d.fields = append(d.fields, row.Fields()...)
		d.env = append(d.env, row.Env...)
		if shown := shownDefault(row); shown != "" {
			d.defaults = append(d.defaults, shown)
		}
		if row.Flag != "" {
			d.flags = append(d.flags, "-"+row.Flag)
		}
		for _, name := range append([]string{"-" + row.Flag}, row.Env...) {
			if name != "-" && !slices.Contains(comments[row.Field], name) {
				t.Errorf("the comment of %s ends in %q and lacks %s", row.Field, comments[row.Field], name)
			}
		}
		if row.Flag == "" && len(comments[row.Field]) > 0 {
			t.Errorf("the comment of %s ends in %q, but it has no flag", row.Field, comments[row.Field])
		}
	}
	for first, d := range byLine {
		cells := lines[first]
		_, env, _ := strings.Cut(cells[3], "environment: ")
		got := documented{words(cells[0]), words(cells[1]), nil, nil}
		for _, name := range words(env) {
			if name == strings.ToUpper(name) {
				got.env = append(got.env, name)
			}
		}
		if cell := strings.TrimSpace(cells[2]); cell != "" {
			got.defaults = strings.Split(cell, ", ")
		}
		if diff := cmp.Diff(*d, got, cmp.AllowUnexported(documented{})); diff != "" {
			t.Errorf("docs/configuration.md on %s (-table +page):\n%s", first, diff)
		}
		for _, field := range got.fields {
			delete(lines, field)
		}
	}
	for field := range lines {
		t.Errorf("docs/configuration.md has %s, which is no setting", field)
	}
}

// shownDefault is what the documentation shows as the default of a setting.
func shownDefault(row setting.Row[WorkerSettings]) string {
	field, _ := reflect.TypeFor[WorkerSettings]().FieldByName(row.Field)
	switch {
	case row.Derived != "":
		return row.Derived
	case row.Default == nil && row.None != "":
		return "`0`: no limit"
	case field.Type.Kind() == reflect.Bool:
		return "false"
	case field.Type.Kind() == reflect.Int && row.Default == nil:
		return "0"
	case row.Default == nil:
		return ""
	}
	if row.Bytes {
		return argv.FormatSize(row.Default.(int))
	}
	switch v := row.Default.(type) {
	case string:
		return "`" + v + "`"
	case time.Duration:
		return fmt.Sprintf("%v s", v.Seconds())
	}
	return fmt.Sprint(row.Default)
}

// settingComments returns the names in the brackets with which the comments of
// WorkerSettings end, by field.
func settingComments(t *testing.T) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "settings.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string][]string)
	bracket := regexp.MustCompile(`\[(-[^\]]*)\]\s*$`)
	word := regexp.MustCompile(`-?[A-Za-z][\w-]*`)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "WorkerSettings" {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			for _, name := range field.Names {
				names[name.Name] = nil
				if m := bracket.FindStringSubmatch(field.Doc.Text()); m != nil {
					names[name.Name] = word.FindAllString(m[1], -1)
				}
			}
		}
		return false
	})
	return names
}

// Each field of the settings belongs to one row, but for IsStrict, which has no effect.
func TestEachSettingHasARow(t *testing.T) {
	t.Parallel()
	rows := map[string]int{"IsStrict": 1}
	for _, row := range settingRows {
		for _, field := range row.Fields() {
			rows[field]++
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[WorkerSettings]()) {
		if rows[field.Name] != 1 {
			t.Errorf("%d rows are for %s", rows[field.Name], field.Name)
		}
		delete(rows, field.Name)
	}
	for field := range rows {
		t.Errorf("a row is for %s, which is no field", field)
	}
}
