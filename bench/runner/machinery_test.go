package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Machinery takes a minute to compile, so its contender is only type-checked, and of what it imports only the
// declarations.
func TestMachineryFitsTheProbe(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap", ".")
	list.Dir, list.Env, list.Stderr = filepath.Join("..", "contender", "machinery"), append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Start(); err != nil {
		t.Fatal(err)
	}
	fset, done := token.NewFileSet(), importer{"unsafe": types.Unsafe}
	for packages := json.NewDecoder(out); ; { // each comes after what it imports
		var p listed
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := done.check(fset, p); err != nil {
			t.Fatalf("%s: %v", p.ImportPath, err)
		}
	}
	if err := list.Wait(); err != nil {
		t.Fatalf("go list: %v", err)
	}
	if len(done) < 100 {
		t.Errorf("only %d packages were listed", len(done))
	}
}

// listed is a package as go list describes it.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // of paths that mean another package, such as those that std vendors
}

// importer holds the packages that were checked, by their paths.
type importer map[string]*types.Package

func (i importer) check(fset *token.FileSet, p listed) error {
	if p.ImportPath == "unsafe" {
		return nil
	}
	own := p.ImportPath == "github.com/goworker/goworker/bench/contender/machinery"
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{IgnoreFuncBodies: !own, Sizes: types.SizesFor("gc", runtime.GOARCH), Importer: within{i, p.ImportMap}}
	var err error
	i[p.ImportPath], err = config.Check(p.ImportPath, fset, files, nil)
	return err
}

// within imports for one package.
type within struct {
	importer
	names map[string]string
}

func (w within) Import(path string) (*types.Package, error) {
	if name, ok := w.names[path]; ok {
		path = name
	}
	if p := w.importer[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed before it", path)
}
