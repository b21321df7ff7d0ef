package resque

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ownKeyCall makes a key of a feature.
var ownKeyCall = regexp.MustCompile(`\.(Hash|List|Set|ZSet|Text|Stream)Key\("`)

// Each method of Store that names keys has a row among the fates, and no row is without a method: a
// new key needs a word on what becomes of it when a fleet goes back to Ruby.
func TestFatesNameAllKeys(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, dir := range []string{"control", "events", "groups", "history", "leases", "lmstfywire", "operations", "webhook", "workflows"} { // they name their keys themselves
		own, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(own) == 0 {
			t.Fatal(err)
		}
		files = append(files, own...)
	}
	var builders []string
	set := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
				continue
			}
			var body, result bytes.Buffer
			_ = printer.Fprint(&body, set, f.Body)
			_ = printer.Fprint(&result, set, f.Type.Results.List[0].Type)
			if strings.Contains(body.String(), "s.ns + ") && (result.String() == "string" || result.String() == "MasterLock") {
				builders = append(builders, f.Name.Name)
			}
			if result.String() == "resque.Key" && ownKeyCall.Match(body.Bytes()) {
				builders = append(builders, f.Name.Name)
			}
		}
	}
	var rows []string
	for _, row := range Fates {
		rows = append(rows, row.Builder)
		if row.Key == "" || row.Fate == "" || !strings.HasSuffix(row.Why, ".") {
			t.Errorf("the row of %s lacks a key, a fate or a sentence", row.Builder)
		}
		if strings.HasPrefix(row.Key, "go:") == (row.Fate == FateRuby) {
			t.Errorf("the key %s is goworker's or Ruby's, and its row says the other", row.Key)
		}
	}
	if len(builders) < 40 {
		t.Fatalf("only %d methods that name keys were found", len(builders))
	}
	for _, b := range builders {
		if !slices.Contains(rows, b) {
			t.Errorf("%s names keys and has no row among the fates", b)
		}
	}
	for _, r := range rows {
		if !slices.Contains(builders, r) {
			t.Errorf("%s has a row among the fates and names no key", r)
		}
	}
}

// A key belongs to the row with the longest beginning that it has.
func TestOwnKey(t *testing.T) {
	t.Parallel()
	s := New("my:app")
	for name, want := range map[string]string{
		"go:lanes": "lanes", "go:lanes:3:low": "turns", "go:lane:3:low0:x": "lane", "go:process:p": "process", "go:processes": "processes",
		"go:unique:d": "KeyOfLock", "go:unique:d:refused": "refusals", "go:webhook:a": "HookKey", "go:webhook:a:state": "HookStateKey", "go:reply:a:n": "ReplySizeKey", "go:bin:a:b": "BinKey", "go:unique-rest": "lockRest", "go:paused": "paused", "go:paused-schedules": "pausedSchedules",
		"go:kept:a:b": "kept", "go:limits": "limits", "go:limits2": "own", "go:wf:1": "WorkflowKey", "go:wf-steps:1": "LettersKey", "go:wf-more:1": "own", "go:workflows": "IndexKey", "go:group:a": "GroupKey", "go:groups": "GroupsKey", "go:leased": "KeyOfLeased", "go:leases": "KeyOfLeases", "go:returned": "ReturnedKey", "go:served:x": "ServedKey",
	} {
		if k := s.ownKey("my:app:" + name); k.Is.Builder != want {
			t.Errorf("%s is of %s, want %s", name, k.Is.Builder, want)
		}
	}
	if k := s.ownKey("my:app:go:kept:a:b"); k.Part != "a:b" {
		t.Errorf("the queue of the kept payloads is %q", k.Part)
	}
}
