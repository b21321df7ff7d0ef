package mistakes

import (
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Behaviour 23: a workflow whose types do not fit each other does not compile, nor does an option at a wrong place.
func TestWorkflowsThatDoNotCompile(t *testing.T) {
	t.Parallel()
	const before = `package p

import (
	"context"

	"github.com/goworker/goworker"
)

var (
	Fetch   = goworker.Define[string, int]("Fetch")
	Thumb   = goworker.Define[int, string]("Thumb")
	Collage = goworker.Define[[]string, string]("Collage")
	Nothing = goworker.Define[goworker.None, goworker.None]("Nothing")
)

func _(ctx context.Context, c *goworker.Client) {
	job := goworker.NewJob("q", "C")
	_ = job
	`
	check := checker(t)
	for _, tt := range []struct{ code, want string }{
		{code: `var w goworker.Typed[string] = goworker.Then(goworker.All(goworker.Then(Fetch.Step("a"), Thumb)), Collage); _ = w`},
		{code: `_ = goworker.Then(goworker.Then(Nothing.Step(goworker.None{}), Nothing, goworker.Named("n")), Nothing)`},
		{code: `_, _ = c.Start(ctx, goworker.Step(job, goworker.WithID("a"), goworker.Named("n")), goworker.WithID("w"), goworker.WithMeta(nil))`},
		{code: `_ = goworker.Then(Fetch.Step("a"), Collage)`, want: "does not match"},
		{code: `_ = goworker.Then(goworker.All(Fetch.Step("a")), Thumb)`, want: "does not match"},
		{code: `_ = goworker.All(Fetch.Step("a"), Thumb.Step(1))`, want: "does not match"},
		{code: `_ = Fetch.Step(7)`, want: "cannot use 7"},
		{code: `var w goworker.Typed[int] = goworker.Then(Fetch.Step("a"), Thumb); _ = w`, want: "cannot use"},
		{code: `_, _ = c.Start(ctx, Fetch.Step("a"))`, want: "cannot use"},
		{code: `_, _ = c.Start(ctx, goworker.Step(job), goworker.Retry(1))`, want: "WorkflowOption"},
		{code: `_, _ = c.Enqueue(ctx, job, goworker.Deadline(1))`, want: "EnqueueOption"},
		{code: `goworker.Register("C", func() {}, goworker.Named("n"))`, want: "Option"},
	} {
		switch err := check(before + tt.code + "\n}"); {
		case tt.want == "" && err != nil:
			t.Errorf("%s does not compile: %s", tt.code, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want …%s…", tt.code, err, tt.want)
		}
	}
}

// checker returns what checks the types of a file that imports goworker.
func checker(t *testing.T) func(source string) error {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", "github.com/goworker/goworker")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := make(map[string]string)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	files := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	return func(source string) error {
		f, err := parser.ParseFile(files, "p.go", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = config.Check("p", files, []*ast.File{f}, nil)
		return err
	}
}
