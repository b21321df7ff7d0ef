package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// root is the path of the repository's first module.
const root = "github.com/goworker/goworker"

// untagged are the folders whose modules nobody imports, so that they get no tag.
var untagged = []string{"bench", "docs", "release", "test"}

func canonical(version string) error {
	if version == "" || semver.Canonical(version) != version {
		return fmt.Errorf("the version is %q: it must be like v1.2.3 or v1.2.3-rc.1", version)
	}
	if semver.Major(version) != "v0" && semver.Major(version) != "v1" {
		return fmt.Errorf("the version is %s: from v2 on the paths of the modules end with /%s, which they do not", version, semver.Major(version))
	}
	return nil
}

// tree is the repository as a commit has it.
type tree struct{ dir, commit string }

func (t tree) git(args ...string) (string, error) {
	return output(exec.Command("git", append([]string{"-C", t.dir}, args...)...))
}

func (t tree) read(name string) (string, error) { return t.git("show", t.commit+":"+name) }

// modules returns the go.mod files of the modules that get a tag, by folder.
func (t tree) modules() (map[string]*modfile.File, error) {
	names, err := t.git("ls-tree", "-r", "--name-only", t.commit)
	if err != nil {
		return nil, err
	}
	return modules(strings.Split(names, "\n"), func(name string) ([]byte, error) {
		text, err := t.read(name)
		return []byte(text), err
	})
}

func modules(names []string, read func(string) ([]byte, error)) (map[string]*modfile.File, error) {
	found := make(map[string]*modfile.File)
	for _, name := range names {
		if path.Base(name) != "go.mod" || strings.Contains(name, "testdata/") {
			continue
		}
		first, _, below := strings.Cut(name, "/")
		if below && slices.Contains(untagged, first) {
			continue
		}
		data, err := read(name)
		if err != nil {
			return nil, err
		}
		f, err := modfile.Parse(name, data, nil)
		if err != nil {
			return nil, err
		}
		found[path.Dir(name)] = f
	}
	return found, nil
}

// tags returns the names of the tags of a version.
func tags(modules map[string]*modfile.File, version string) []string {
	var names []string
	for dir := range modules {
		names = append(names, path.Join(dir, version))
	}
	slices.Sort(names)
	return names
}

// check returns everything that keeps a commit from being released under a version.
func check(dir, commit, version string) error {
	t := tree{dir: dir, commit: commit}
	found, err := t.modules()
	if err != nil {
		return err
	}
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for folder, f := range found {
		for _, r := range f.Require {
			if ours(r.Mod.Path) && r.Mod.Version != version {
				bad("%s requires %s %s, and must require %s", path.Join(folder, "go.mod"), r.Mod.Path, r.Mod.Version, version)
			}
		}
		for _, r := range f.Replace {
			if !ours(r.Old.Path) || r.New.Version != "" {
				bad("%s replaces %s, which programs that import it would not", path.Join(folder, "go.mod"), r.Old.Path)
			}
		}
	}
	changelog, err := t.read("CHANGELOG.md")
	if err != nil {
		return err
	}
	if err := changes(changelog, version); err != nil {
		wrong = append(wrong, err)
	}
	listed, err := t.git("tag", "--list", "v*")
	if err != nil {
		return err
	}
	last := ""
	for _, tag := range strings.Fields(listed) {
		if semver.Compare(tag, version) >= 0 {
			bad("there is the tag %s, which is not below %s", tag, version)
		}
		if semver.Compare(tag, last) > 0 {
			last = tag
		}
	}
	mixed, err := t.read("test/operate/mixed/RELEASE")
	if err != nil {
		return err
	}
	if _, err := t.git("merge-base", "--is-ancestor", mixed, commit); err != nil {
		bad("test/operate/mixed/RELEASE names %s, which is no commit before this one", mixed)
	}
	if last != "" {
		if at, err := t.git("rev-parse", last+"^{commit}"); err != nil || at != mixed {
			bad("test/operate/mixed/RELEASE names %s, and the last release, %s, is %s", mixed, last, at)
		}
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	fmt.Println("ready for", strings.Join(tags(found, version), " "))
	return nil
}

var heading = regexp.MustCompile(`(?m)^## .*$`)

// changes checks that the changelog begins with an empty [Unreleased], and the version with its date.
func changes(changelog, version string) error {
	places := heading.FindAllStringIndex(changelog, 2)
	title := func(i int) string { return changelog[places[i][0]:places[i][1]] }
	want := regexp.MustCompile(`^## \[` + regexp.QuoteMeta(strings.TrimPrefix(version, "v")) + `\] - \d{4}-\d\d-\d\d$`)
	switch {
	case len(places) < 2 || title(0) != "## [Unreleased]":
		return errors.New("CHANGELOG.md must begin with ## [Unreleased] and have a version below it")
	case !want.MatchString(title(1)):
		return fmt.Errorf("CHANGELOG.md has %q where ## [%s] with its date must be", title(1), strings.TrimPrefix(version, "v"))
	case strings.TrimSpace(changelog[places[0][1]:places[1][0]]) != "":
		return errors.New("CHANGELOG.md has changes below [Unreleased]: they belong to the version, or do not release them")
	}
	return nil
}

// prepare writes a version into the changelog and the go.mod files of a working tree.
func prepare(dir, version string, at time.Time) error {
	listed, err := output(exec.Command("git", "-C", dir, "ls-files"))
	if err != nil {
		return err
	}
	found, err := modules(strings.Split(listed, "\n"), func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) })
	if err != nil {
		return err
	}
	for folder, f := range found {
		changed := false
		for _, r := range slices.Clone(f.Require) {
			if ours(r.Mod.Path) && r.Mod.Version != version {
				if err := f.AddRequire(r.Mod.Path, version); err != nil {
					return err
				}
				changed = true
			}
		}
		if !changed {
			continue
		}
		text, err := f.Format()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "go.mod"), text, 0o644); err != nil {
			return err
		}
	}
	name := filepath.Join(dir, "CHANGELOG.md")
	text, err := os.ReadFile(name)
	if err != nil || changes(string(text), version) == nil {
		return err
	}
	const unreleased = "## [Unreleased]\n"
	cut := fmt.Sprintf("%s\n## [%s] - %s\n", unreleased, strings.TrimPrefix(version, "v"), at.UTC().Format(time.DateOnly))
	if !bytes.Contains(text, []byte(unreleased)) {
		return errors.New("CHANGELOG.md has no ## [Unreleased]")
	}
	return os.WriteFile(name, bytes.Replace(text, []byte(unreleased), []byte(cut), 1), 0o644)
}
