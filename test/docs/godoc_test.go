package docs

import (
	"cmp"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOptionsListTheirConstructors holds the list in the comment of each type of options to what makes such
// an option: the functions that return one, and the types that are one.
func TestOptionsListTheirConstructors(t *testing.T) {
	t.Parallel()
	c, err := newCompiler()
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	pkg, err := c.from.Import(module)
	c.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	comments, lists := comments(t), 0
	for _, name := range pkg.Scope().Names() {
		if !strings.HasSuffix(name, "Option") || !token.IsExported(name) {
			continue
		}
		lists++
		want, got := constructors(pkg, name, comments), listed(comments[name])
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("the list in the comment of %s lacks %s", name, w)
			}
		}
		for i, g := range got {
			if !slices.Contains(want, g) {
				t.Errorf("the comment of %s lists %s, which makes no %s, or is deprecated", name, g, name)
			}
			if slices.Contains(got[:i], g) {
				t.Errorf("the comment of %s lists %s twice", name, g)
			}
		}
	}
	if lists < 8 {
		t.Errorf("the package has %d types of options", lists)
	}
}

// constructors returns what a program writes to have a value of a type of options.
func constructors(pkg *types.Package, option string, comments map[string]string) (names []string) {
	of := pkg.Scope().Lookup(option).Type()
	is := func(t types.Type) bool {
		i, ok := of.Underlying().(*types.Interface)
		return types.Identical(t, of) || ok && types.Implements(t, i)
	}
	for _, name := range pkg.Scope().Names() {
		if !token.IsExported(name) || name == option || strings.Contains(comments[name], "\nDeprecated: ") {
			continue
		}
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.Func:
			if results := o.Signature().Results(); results.Len() == 1 && is(results.At(0).Type()) {
				names = append(names, name)
			}
		case *types.TypeName: // a function makes what has no exported field, and takes a constant
			made := types.IsInterface(o.Type())
			switch u := o.Type().Underlying().(type) {
			case *types.Struct:
				made = u.NumFields() == 0 || !u.Field(0).Exported()
			case *types.Basic:
				made = true
			}
			if is(o.Type()) && !made {
				names = append(names, name)
			}
		}
	}
	return names
}

// listed returns the names before the colons of a comment's list.
func listed(comment string) (names []string) {
	for _, item := range regexp.MustCompile(`(?m)^\s*- ([\w, ]+):`).FindAllStringSubmatch(comment, -1) {
		names = append(names, strings.Split(item[1], ", ")...)
	}
	return names
}

// comments returns the comments of the package's functions, methods and types.
func comments(t *testing.T) map[string]string {
	t.Helper()
	packages, err := parser.ParseDir(token.NewFileSet(), root, func(f os.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, file := range packages["goworker"].Files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*") + "." + name
				}
				all[name] = d.Doc.Text()
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						all[s.Name.Name] = d.Doc.Text() + s.Doc.Text()
					}
				}
			}
		}
	}
	return all
}

// TestPackageComment compiles the programs of the package's comment, and follows its links.
func TestPackageComment(t *testing.T) {
	t.Parallel()
	c, err := newCompiler()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), root+"/doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	pkg, err := c.from.Import(module)
	c.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	programs := 0
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		code, ok := block.(*comment.Code)
		if !ok {
			continue
		}
		programs++
		text, err := source("snippet", "", "", code.Text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.check("doc.go", text, false); err != nil {
			t.Errorf("a program of doc.go does not compile: %v\n%s", err, text)
		}
	}
	links := regexp.MustCompile(`\[(\w+)(?:\.(\w+))?\]`).FindAllStringSubmatch(file.Doc.Text(), -1)
	for _, link := range links {
		o := pkg.Scope().Lookup(link[1])
		if o == nil {
			t.Errorf("doc.go links to %s, which is not there", link[0])
		} else if member, _, _ := types.LookupFieldOrMethod(types.NewPointer(o.Type()), true, pkg, cmp.Or(link[2], "?")); link[2] != "" && member == nil {
			t.Errorf("doc.go links to %s, which is not there", link[0])
		}
	}
	if programs < 2 || len(links) < 10 {
		t.Errorf("doc.go has %d programs and %d links", programs, len(links))
	}
}

// kept are the calls without a context that are not deprecated although there is one with it.
var kept = map[string]string{
	"Enqueue":               "programs of benmanns/goworker call it, and are to compile without a warning",
	"Daemon.PauseSchedule":  "it knows the schedules of this process before they are in Redis",
	"Daemon.Schedule":       "it makes a recurring schedule of this process; Inspector.Schedule shows one that is in Redis",
	"Daemon.Schedules":      "it lists the recurring schedules of this process; Inspector.Schedules lists what is in Redis",
	"Daemon.ResumeSchedule": "it knows the schedules of this process before they are in Redis",
	"All":                   "it makes a group of typed nodes, and asks nothing",
	"CancelRunning":         "it is an option of a workflow, and not the call of a Client",
	"PauseSchedule":         "as Daemon's",
	"ResumeSchedule":        "as Daemon's",
	"Schedule":              "as Daemon's",
	"Schedules":             "as Daemon's",
	"Shards.Schedule":       "as Daemon's",
}

// TestContextsComeFirst holds every function and method of the package that has a twin with a context to
// the mark that leads to it.
func TestContextsComeFirst(t *testing.T) {
	t.Parallel()
	c, err := newCompiler()
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	pkg, err := c.from.Import(module)
	if err != nil {
		t.Fatal(err)
	}
	inspect, err := c.from.Import(module + "/inspect")
	c.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	takes := func(f *types.Func) bool { // whether it takes a context, or returns what does
		s := f.Signature()
		if s.Params().Len() > 0 && s.Params().At(0).Type().String() == "context.Context" {
			return true
		}
		return s.Results().Len() == 1 && strings.HasPrefix(s.Results().At(0).Type().String(), "*"+module+"/inspect.")
	}
	methods := func(of types.Object, each func(f *types.Func)) {
		set := types.NewMethodSet(types.NewPointer(of.Type()))
		for m := range set.Methods() {
			each(m.Obj().(*types.Func))
		}
	}
	twins := map[string]string{ // by name, those of other names first
		"Info": "Fleet", "ScheduledAt": "DelayedUntil", "EnqueueDelayed": "PromoteDelayed",
		"EnqueueWith": "Enqueue", "EnqueueAll": "EnqueueMany", "EnqueueAt": "Enqueue", "EnqueueIn": "Enqueue", "EnqueueAllAt": "EnqueueMany",
	}
	for _, of := range []types.Object{inspect.Scope().Lookup("Inspector"), pkg.Scope().Lookup("Client")} {
		methods(of, func(f *types.Func) {
			if takes(f) && f.Exported() {
				twins[f.Name()] = f.Name()
			}
		})
	}
	comments, found := comments(t), 0
	look := func(name string, f *types.Func) {
		twin, ok := twins[f.Name()]
		if !ok || takes(f) || kept[name] != "" {
			return
		}
		found++
		if mark := regexp.MustCompile(`\nDeprecated: .*\b` + twin + `\b`); !mark.MatchString(comments[name]) {
			t.Errorf("the comment of %s does not lead to %s, which takes a context", name, twin)
		}
	}
	for _, name := range pkg.Scope().Names() {
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.Func:
			look(name, o)
		case *types.TypeName:
			if name == "Daemon" || name == "Shards" {
				methods(o, func(f *types.Func) { look(name+"."+f.Name(), f) })
			}
		}
	}
	if found < 40 {
		t.Errorf("%d calls have a twin with a context", found)
	}
}
