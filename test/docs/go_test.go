package docs

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
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
	"sync"
	"testing"
)

const module = "github.com/goworker/goworker"

// imports are what a fragment may use without an import of its own, by the name before the dot.
var imports = map[string]string{
	"goworker": module, "delayedbridge": module + "/delayedbridge", "sentinel": module + "/sentinel", "cluster": module + "/cluster", "embedded": module + "/embedded",
	"schedule": module + "/schedule", "inspect": module + "/inspect", "checks": module + "/inspect/checks", "groups": module + "/inspect/groups", "control": module + "/control", "dashboard": module + "/dashboard", "profile": module + "/control/profile", "events": module + "/events", "goworkertest": module + "/goworkertest", "httpapi": module + "/httpapi", "httpclient": module + "/httpclient", "health": module + "/health", "config": module + "/config", "webhook": module + "/webhook", "metrics": module + "/metrics", "tracing": module + "/tracing",
	"shop":    module + "/example/calling/shop",
	"redis":   "github.com/gomodule/redigo/redis",
	"context": "context", "errors": "errors", "fmt": "fmt", "json": "encoding/json", "log": "log", "net": "net", "http": "net/http",
	"os": "os", "exec": "os/exec", "slog": "log/slog", "strings": "strings", "testing": "testing", "time": "time", "sql": "database/sql",
	"signal": "os/signal", "syscall": "syscall", "runtime": "runtime", "sync": "sync", "io": "io", "flag": "flag", "sha256": "crypto/sha256",
	"atomic": "sync/atomic", "bufio": "bufio", "iter": "iter",
}

// apart are folders of modules of their own, whose packages fragments may use too.
var apart = []string{"metrics", "tracing"}

// compiler type-checks fragments against the compiled packages.
type compiler struct {
	mu   sync.Mutex // the importer is not safe for concurrent use
	fset *token.FileSet
	from types.Importer
}

var newCompiler = sync.OnceValues(func() (*compiler, error) {
	paths := []string{module + "/flags"}
	for name, path := range imports {
		if !slices.Contains(apart, name) {
			paths = append(paths, path)
		}
	}
	exports := make(map[string]string)
	list := func(dir string, paths ...string) error {
		cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, paths...)...)
		cmd.Dir = filepath.Join(root, dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("go list in %q: %w", dir, err)
		}
		for line := range strings.Lines(string(out)) {
			if path, file, ok := strings.Cut(strings.TrimSpace(line), "="); ok && exports[path] == "" {
				exports[path] = file
			}
		}
		return nil
	}
	if err := list(".", paths...); err != nil {
		return nil, err
	}
	for _, dir := range apart {
		if err := list(dir, module+"/"+dir); err != nil {
			return nil, err
		}
	}
	fset := token.NewFileSet()
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("a snippet imports %s; add it to the imports of go_test.go", path)
		}
		return os.Open(exports[path])
	}
	return &compiler{fset: fset, from: importer.ForCompiler(fset, "gc", lookup)}, nil
})

var (
	importLine = regexp.MustCompile(`(?m)^import (?:\w+ )?"[^"]+"\n`)
	selector   = regexp.MustCompile(`\b([a-z]\w*)\.[A-Z]`)
)

// source makes a file of a fragment, its setup and the declarations of its page.
func source(pkg, declared, setup, fragment string) (string, error) {
	var own []string
	fragment = importLine.ReplaceAllStringFunc(fragment, func(line string) string {
		own = append(own, line)
		return ""
	})
	body := fragment
	if before, after, ok := cutDots(setup); ok {
		body = before + fragment + after
	} else if setup != "" {
		if declares(setup) {
			declared += "\n" + setup
		} else {
			body = setup + "\n" + fragment
		}
	}
	text := declared + "\n"
	if declares(body) {
		text += body + "\nfunc Run() {}\n"
	} else {
		text += "func Run() {\n" + body + "\n}\n"
	}
	used := make(map[string]bool)
	for _, m := range selector.FindAllStringSubmatch(text, -1) {
		if path, ok := imports[m[1]]; ok && !slices.ContainsFunc(own, func(line string) bool { return strings.Contains(line, `"`+path+`"`) }) {
			used[path] = true
		}
	}
	head := "package " + pkg + "\n"
	for _, line := range own {
		head += line
	}
	for path := range used {
		head += fmt.Sprintf("import %q\n", path)
	}
	return head + text, nil
}

// cutDots cuts a setup where a line has only three dots: the block goes there.
func cutDots(setup string) (before, after string, ok bool) {
	at := regexp.MustCompile(`(?m)^\s*\.\.\.$`).FindStringIndex(setup)
	if at == nil {
		return "", "", false
	}
	return setup[:at[0]], setup[at[1]:], true
}

// declares reports whether a text is made of declarations only.
func declares(text string) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, parser.SkipObjectResolution)
	return err == nil
}

// check type-checks a file. It returns the names that the outermost function declares and does not use, which
// a fragment may.
func (c *compiler) check(name, text string, program bool) (unused []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file, err := parser.ParseFile(c.fset, name, text, 0)
	if err != nil {
		return nil, err
	}
	var mistakes []error
	config := types.Config{Importer: c.from, Error: func(err error) {
		var e types.Error
		if !program && errors.As(err, &e) && e.Soft {
			if name, ok := strings.CutPrefix(e.Msg, "declared and not used: "); ok {
				unused = append(unused, name)
				return
			}
			if strings.HasSuffix(e.Msg, "imported and not used") {
				return
			}
		}
		mistakes = append(mistakes, err)
	}}
	_, _ = config.Check(name, c.fset, []*ast.File{file}, nil)
	return unused, errors.Join(mistakes...)
}

// uses returns what a file uses of this module's package.
func (c *compiler) uses(name, text string) (objects []types.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file, err := parser.ParseFile(c.fset, name, text, 0)
	if err != nil {
		return nil
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: c.from, Error: func(error) {}}
	_, _ = config.Check(name, c.fset, []*ast.File{file}, info)
	for _, o := range info.Uses {
		if o.Pkg() != nil && o.Pkg().Path() == module {
			objects = append(objects, o)
		}
	}
	return objects
}

// TestGoBlocks compiles every Go block.
func TestGoBlocks(t *testing.T) {
	t.Parallel()
	c, err := newCompiler()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, p := range pages(t) {
		declared := ""
		for _, b := range p.items {
			if more, ok := b.directives["declare"]; ok {
				declared += "\n" + more
			}
			if b.lang != "go" {
				continue
			}
			count++
			at := fmt.Sprintf("%s:%d", p.name, b.line)
			shown := strings.TrimLeft(importLine.ReplaceAllString(b.text, ""), "\n") // gofmt takes no import before a statement
			if formatted, err := format.Source([]byte(shown)); err != nil || string(formatted) != shown {
				t.Errorf("%s: the block is not as gofmt writes it (%v):\n%s", at, err, formatted)
			}
			text, program := b.text, strings.HasPrefix(b.text, "package ")
			if !program {
				if text, err = source("snippet", declared, b.directives["setup"], b.text); err != nil {
					t.Errorf("%s: %v", at, err)
					continue
				}
			}
			if _, err := c.check(at, text, program); err != nil {
				t.Errorf("%s: the block does not compile: %v\n%s", at, err, text)
			}
		}
	}
	if count < 35 {
		t.Errorf("the pages show %d blocks of Go", count)
	}
}

// runnable builds one program of all fragments that are run. SNIPPET in its environment says which it runs.
var runnable = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "snippets")
	if err != nil {
		return "", err
	}
	c, err := newCompiler()
	if err != nil {
		return "", err
	}
	var list, cases strings.Builder
	for _, p := range pages(new(testing.T)) {
		declared := ""
		for _, b := range p.items {
			if more, ok := b.directives["declare"]; ok {
				declared += "\n" + more
			}
			if b.lang != "go" || !b.is("run") {
				continue
			}
			name := fragmentName(p, b)
			text, err := source(name, declared, b.directives["setup"], b.text)
			if err != nil {
				return "", err
			}
			unused, err := c.check(name, text, false)
			if err != nil {
				return "", fmt.Errorf("%s:%d: %w", p.name, b.line, err)
			}
			end := ""
			for _, v := range unused {
				end += "_ = " + v + "\n"
				if v == "err" {
					end += "if err != nil { panic(err) }\n"
				}
			}
			text = text[:strings.LastIndex(text, "}")] + end + "}\n"
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				return "", err
			}
			if err := os.WriteFile(filepath.Join(dir, name, "snippet.go"), []byte(text), 0o600); err != nil {
				return "", err
			}
			fmt.Fprintf(&list, "import %q\n", "snippets/"+name)
			fmt.Fprintf(&cases, "case %q:\n%s.Run()\n", name, name)
		}
	}
	main := "package main\nimport \"os\"\n" + list.String() + "func main() {\nswitch os.Getenv(\"SNIPPET\") {\n" + cases.String() + "}\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(main), 0o600); err != nil {
		return "", err
	}
	if err := asModule(dir, "snippets"); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-ldflags=-s", "-o", "snippets", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the fragments that are run: %w\n%s", err, out)
	}
	return filepath.Join(dir, "snippets"), nil
})

func fragmentName(p page, b item) string {
	return fmt.Sprintf("%s%d", regexp.MustCompile(`\W`).ReplaceAllString(strings.TrimSuffix(filepath.Base(p.name), ".md"), ""), b.line)
}

// asModule makes a folder a module that uses this one.
func asModule(dir, name string) error {
	top, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(top, "go.sum"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600); err != nil {
		return err
	}
	mod := fmt.Sprintf("module %s\n\ngo 1.25\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", name, module, module, top)
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600)
}

// TestDocsUseNoDeprecatedNames finds in blocks what is deprecated, methods and fields too, and functions in tables. The page about
// migrating may have them.
func TestDocsUseNoDeprecatedNames(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	packages, err := parser.ParseDir(fset, root, func(f os.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	deprecated := make(map[string]bool)  // functions and types
	anything := make(map[token.Pos]bool) // where the names of functions, methods, types and fields stand
	is := func(doc *ast.CommentGroup) bool { return strings.Contains("\n"+doc.Text(), "\nDeprecated: ") }
	for _, file := range packages["goworker"].Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				anything[n.Name.Pos()] = is(n.Doc)
				if n.Recv == nil && is(n.Doc) {
					deprecated[n.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range n.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && (is(n.Doc) || is(s.Doc)) {
						anything[s.Name.Pos()], deprecated[s.Name.Name] = true, true
					}
				}
			case *ast.Field:
				for _, name := range n.Names {
					anything[name.Pos()] = is(n.Doc)
				}
			}
			return true
		})
	}
	if len(deprecated) < 25 {
		t.Errorf("the package has the deprecated functions and types %v", deprecated)
	}
	places := make(map[string]bool) // file:line of those that are deprecated
	for pos, is := range anything {
		if is {
			at := fset.Position(pos)
			places[fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)] = true
		}
	}
	c, err := newCompiler()
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	for _, p := range pages(t) {
		declared := ""
		for _, b := range p.items {
			if more, ok := b.directives["declare"]; ok {
				declared += "\n" + more
			}
			if b.lang != "go" || p.name == "docs/migrating.md" {
				continue
			}
			text := b.text
			if !strings.HasPrefix(text, "package ") {
				if text, err = source("snippet", declared, b.directives["setup"], text); err != nil {
					t.Fatal(err)
				}
			}
			for _, o := range c.uses(p.name, text) {
				used++
				at := c.fset.Position(o.Pos())
				if places[fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)] {
					t.Errorf("%s:%d: the block uses %s, which is deprecated", p.name, b.line, o.Name())
				}
			}
		}
	}
	if used < 200 {
		t.Errorf("the blocks use %d names of the package", used)
	}
	named := regexp.MustCompile(`goworker\.([A-Z]\w*)\(|` + "`" + `([A-Z]\w*)\(`)
	for _, pattern := range []string{"README.md", "docs/*.md"} {
		paths, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, path := range paths {
			if filepath.Base(path) == "migrating.md" {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				if name := m[1] + m[2]; deprecated[name] {
					t.Errorf("%s uses %s, which is deprecated", filepath.Base(path), name)
				}
			}
		}
	}
}
