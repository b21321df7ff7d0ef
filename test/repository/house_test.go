package repository

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The limits of the house. A change that needs more changes the design first.
const (
	rootFiles     = 57    // of the root package, tests aside
	rootLines     = 12300 // of all of them together
	rootTestFiles = 48
	fileLines     = 500 // of one Go file, tests aside
	circle        = 6   // files of the root that reach each other
	pollerFields  = 25
)

// top is the directory of the module, as the tests run beside this file.
const top = "../.."

const module = "github.com/goworker/goworker"

// layers are our packages, those that import none of our packages first: every import points to a row
// above. Packages of one row do not import each other.
var layers = [][]string{
	{"internal/clock", "internal/fingerprint", "internal/msgpack", "internal/pattern", "internal/prefix", "internal/queues", "internal/share", "internal/sizing", "internal/spread"},
	{"internal/conn", "internal/cron", "internal/logging", "internal/payload", "internal/sdnotify", "internal/sig"},
	{"internal/argv", "internal/failure", "internal/args", "internal/httpjob", "internal/meter"},
	{"internal/resque", "internal/stamp", "internal/setting", "internal/stuck", "internal/isolate"},
	{"internal/resque/failures", "internal/resque/delayed", "internal/resque/delayedwire", "internal/resque/lmstfywire", "internal/resque/workflows", "internal/resque/groups", "internal/resque/leases", "internal/resque/operations", "internal/resque/history", "internal/resque/control", "internal/resque/events", "internal/resque/webhook", "internal/access", "internal/part", "internal/recurring", "internal/duty", "internal/reload"},
	{"internal/workflow", "internal/gate", "internal/link", "internal/outcome", "internal/depth", "internal/rule", "internal/usage", "inspect"},
	{"inspect/checks", "inspect/groups", "internal/await", "internal/control", "internal/feature/*", "internal/fleet", "internal/flush", "internal/health", "internal/lanes", "internal/ownqueue", "internal/producer", "internal/record", "internal/scheduler", "internal/sweep", "internal/tokens"},
	{"internal/watch", "internal/autoscale", "internal/drain", "internal/leased", "internal/neighbor", "internal/taker", "internal/trial"},
	{"internal/inflight", "internal/gateway", "internal/roster"},
	{""},
}

// above the root are programs' doors to it. The root knows none of them.
var above = []string{"cluster", "config", "control", "dashboard", "delayedbridge", "deploy", "embedded", "events", "example", "flags", "goworkertest", "health", "httpapi", "httpclient", "internal/configfile", "internal/daemontest", "internal/document", "internal/follow", "internal/playtest", "internal/redistest", "schedule", "sentinel", "test", "webhook"}

// TestLayers holds every package in its row.
func TestLayers(t *testing.T) {
	t.Parallel()
	row := func(path string) int {
		name := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		return slices.IndexFunc(layers, func(names []string) bool {
			return slices.ContainsFunc(names, func(n string) bool {
				match, _ := filepath.Match(n, name)
				return match
			})
		})
	}
	for _, p := range list(t, "./...") {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if slices.ContainsFunc(above, func(a string) bool { return name == a || strings.HasPrefix(name, a+"/") }) {
			continue
		}
		at := row(p.ImportPath)
		if at < 0 {
			t.Errorf("%s stands in no row of layers; give it one", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, module) {
				continue
			}
			switch of := row(imported); {
			case of < 0:
				t.Errorf("%s imports %s, which stands above the root or in no row", p.ImportPath, imported)
			case of >= at:
				t.Errorf("%s imports %s, which does not stand below it", p.ImportPath, imported)
			}
		}
	}
}

// TestPatterns holds that no package of a worker's compiles a regular expression as the program starts: each child of an isolated
// job would pay for it. inspect/checks is for doctor.
func TestPatterns(t *testing.T) {
	t.Parallel()
	others := []string{"deploy", "inspect/checks", "internal/daemontest", "internal/pattern", "internal/playtest", "internal/redistest", "test"}
	for _, p := range list(t, "./...") {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if slices.ContainsFunc(others, func(o string) bool { return name == o || strings.HasPrefix(name, o+"/") }) {
			continue
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte("regexp.MustCompile(")) {
				t.Errorf("%s/%s has regexp.MustCompile; take pattern.New", name, file)
			}
		}
	}
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	Imports, GoFiles        []string
}

func list(t *testing.T, args ...string) (all []listed) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Export,Imports,GoFiles"}, args...)...)
	cmd.Dir = top
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestSizes holds files and the root package small enough to be read.
func TestSizes(t *testing.T) {
	t.Parallel()
	var files, lines, tests int
	for _, name := range tracked(t, "*.go") {
		text, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			continue // removed and not yet committed
		}
		n := bytes.Count(text, []byte("\n"))
		test, root := strings.HasSuffix(name, "_test.go"), !strings.Contains(name, "/")
		switch {
		case test && root:
			tests++
		case test:
		case n > fileLines:
			t.Errorf("%s has %d lines, and %d are allowed; divide it by concept", name, n, fileLines)
		}
		if root && !test {
			files, lines = files+1, lines+n
		}
	}
	if files > rootFiles || lines > rootLines || tests > rootTestFiles {
		t.Errorf("the root package has %d files of %d lines and %d test files; allowed are %d, %d and %d",
			files, lines, tests, rootFiles, rootLines, rootTestFiles)
	}
	t.Logf("the root package has %d files of %d lines and %d test files", files, lines, tests)
}

// TestClock lets parts take the time from internal/clock only, so that a test can set it.
func TestClock(t *testing.T) {
	t.Parallel()
	reads := regexp.MustCompile(`(^|[^.\w])time\.(Now|Since|Until|After|AfterFunc|NewTimer|NewTicker|Tick|Sleep)\(`)
	// A socket's deadline is the kernel's, and what a request, a stuck job, a child process or a command is timed by is
	// this machine's clock.
	free := regexp.MustCompile(`^(internal/(clock|conn|stuck|isolate|redistest|daemontest|playtest|follow)|cluster|cmd|dashboard|embedded|httpapi|httpclient|sentinel|example|release|test|bench)/`)
	for _, name := range tracked(t, "*.go") {
		if strings.HasSuffix(name, "_test.go") || free.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "//")
			if reads.MatchString(code) {
				t.Errorf("%s:%d reads the clock of this machine; take the time from the part's clock", name, i+1)
			}
		}
	}
}

// root is the type-checked root package.
type root struct {
	fset  *token.FileSet
	files []*ast.File
	info  types.Info
	pkg   *types.Package
}

func checkRoot(t *testing.T) *root {
	t.Helper()
	exports := make(map[string]string)
	var names []string
	for _, p := range list(t, "-export", "-deps", ".") {
		exports[p.ImportPath] = p.Export
		if p.ImportPath == module {
			names = p.GoFiles
		}
	}
	r := &root{fset: token.NewFileSet(), info: types.Info{Uses: make(map[*ast.Ident]types.Object), Selections: make(map[*ast.SelectorExpr]*types.Selection)}}
	for _, name := range names {
		f, err := parser.ParseFile(r.fset, filepath.Join(top, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		r.files = append(r.files, f)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(r.fset, "gc", lookup)}
	var err error
	if r.pkg, err = config.Check(module, r.fset, r.files, &r.info); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *root) file(pos token.Pos) string { return filepath.Base(r.fset.Position(pos).Filename) }

// uses returns, for each file, the files whose package-level names, fields and methods it uses.
func (r *root) uses() map[string]map[string]bool {
	uses := make(map[string]map[string]bool)
	for id, of := range r.info.Uses {
		if of.Pkg() != r.pkg || of.Pos() == token.NoPos {
			continue
		}
		v, field := of.(*types.Var)
		field = field && v.IsField()
		if of.Parent() != r.pkg.Scope() && !field {
			continue
		}
		from, to := r.file(id.Pos()), r.file(of.Pos())
		if uses[from] == nil {
			uses[from] = make(map[string]bool)
		}
		if from != to {
			uses[from][to] = true
		}
	}
	return uses
}

// TestCircles looks for files of the root that all reach each other.
func TestCircles(t *testing.T) {
	t.Parallel()
	for _, files := range circles(checkRoot(t).uses()) {
		if len(files) > circle {
			t.Errorf("%d files reach each other, and %d are allowed: %s", len(files), circle, strings.Join(files, " "))
		}
	}
}

// circles returns the strongly connected components of more than one file, the largest first.
func circles(uses map[string]map[string]bool) (found [][]string) {
	reach := make(map[string]map[string]bool)
	for from := range uses {
		seen := make(map[string]bool)
		var walk func(string)
		walk = func(f string) {
			for to := range uses[f] {
				if !seen[to] {
					seen[to] = true
					walk(to)
				}
			}
		}
		walk(from)
		reach[from] = seen
	}
	done := make(map[string]bool)
	for from := range uses {
		if done[from] || !reach[from][from] {
			continue
		}
		var files []string
		for to := range reach[from] {
			if reach[to][from] {
				files, done[to] = append(files, to), true
			}
		}
		slices.Sort(files)
		found = append(found, files)
	}
	slices.SortFunc(found, func(a, b []string) int { return len(b) - len(a) })
	return found
}

// TestParts lets no part hold the daemon: it would reach into everything.
func TestParts(t *testing.T) {
	t.Parallel()
	r := checkRoot(t)
	daemon := types.NewPointer(r.pkg.Scope().Lookup("Daemon").Type())
	for _, name := range r.pkg.Scope().Names() {
		of, ok := r.pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok {
			continue
		}
		s, ok := of.Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		if name == "poller" && s.NumFields() > pollerFields {
			t.Errorf("poller has %d fields, and %d are allowed", s.NumFields(), pollerFields)
		}
		for f := range s.Fields() {
			if types.Identical(f.Type(), daemon) && !slices.Contains([]string{"FailureList", "DelayedList", "lender"}, name) {
				t.Errorf("%s holds a *Daemon, by its field %s; give it what it needs", name, f.Name())
			}
		}
	}
}

// tracked returns the files that Git knows, by a pattern.
func tracked(t *testing.T, pattern string) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z", pattern)
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("git ls-files: %w", err))
	}
	return strings.Split(strings.Trim(string(out), "\x00"), "\x00")
}
