package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

const version = "v0.9.9-test"

var epoch = time.Unix(0, 0)

// A release is built from two clones, in folders of other names and lengths, under other settings, and among changes that are not committed.
// All bytes are the same. What is in them is what the programs say.
func TestSameBytes(t *testing.T) {
	native := runtime.GOOS + "/" + runtime.GOARCH
	foreign := "windows/amd64"
	platforms := []string{native, foreign}
	if testing.Short() { // each platform compiles Go's own library
		platforms = platforms[:1]
	}
	first := filepath.Join(t.TempDir(), "dist")
	if err := (Release{Repository: "..", Commit: "HEAD", Version: version, Platforms: platforms}).Build(first); err != nil {
		t.Fatal(err)
	}

	clone := filepath.Join(t.TempDir(), "another place", "with a long name", "goworker")
	git(t, "..", "clone", "-q", "--no-checkout", ".", clone)
	commit := git(t, "..", "rev-parse", "HEAD")
	git(t, clone, "checkout", "-q", "--detach", commit)
	write(t, filepath.Join(clone, "cmd/goworker/more.go"), "package main\n\nfunc init() { println() }\n")
	write(t, filepath.Join(clone, "LICENSE"), "changed")
	write(t, filepath.Join(clone, "go.work"), "go 1.25.0\n\nuse .\n")
	git(t, clone, "tag", "cmd/goworker/v1.9.9")
	for name, value := range map[string]string{"GOFLAGS": "-tags=other -buildvcs=false", "GOAMD64": "v3", "CGO_ENABLED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"} {
		t.Setenv(name, value)
	}
	second := filepath.Join(t.TempDir(), "dist")
	if err := (Release{Repository: clone, Commit: commit, Version: version, Platforms: platforms}).Build(second); err != nil {
		t.Fatal(err)
	}

	one, two := files(t, first), files(t, second)
	if names := slices.Sorted(maps.Keys(one)); len(names) != 2*len(platforms)+1 {
		t.Errorf("a release of %q has %q", platforms, names)
	}
	for name, data := range one {
		if !bytes.Equal(data, two[name]) {
			t.Errorf("%s has %d bytes from one clone and other %d bytes from another", name, len(data), len(two[name]))
		}
	}
	for line := range strings.Lines(string(one["SHA256SUMS"])) {
		delete(one, strings.Fields(line)[1])
	}
	if len(one) != 1 {
		t.Errorf("SHA256SUMS leaves out %q", slices.Sorted(maps.Keys(one)))
	}

	for _, platform := range platforms {
		t.Run(platform, func(t *testing.T) { checkArchive(t, two, platform, commit) })
	}
}

// checkArchive holds what an archive has to the modules that its program names.
func checkArchive(t *testing.T, dist map[string][]byte, platform, commit string) {
	base := "goworker_" + strings.TrimPrefix(version, "v") + "_" + strings.ReplaceAll(platform, "/", "_")
	var inside map[string][]byte
	program := "goworker"
	if strings.HasPrefix(platform, "windows/") {
		program += ".exe"
		inside = unzip(t, dist[base+".zip"], base)
	} else {
		inside = untar(t, dist[base+".tar.gz"], base)
	}
	want := []string{"CHANGELOG.md", "LICENSE", "README.md", "THIRD_PARTY_LICENSES.txt", program, "sbom.cdx.json"}
	if got := slices.Sorted(maps.Keys(inside)); !slices.Equal(got, want) {
		t.Errorf("the archive has %q, and should have %q", got, want)
	}
	if !bytes.Equal(inside["sbom.cdx.json"], dist[base+".cdx.json"]) {
		t.Error("the SBOM in the archive is another one than that beside it")
	}
	if !strings.HasPrefix(string(inside["LICENSE"]), "MIT License") {
		t.Errorf("LICENSE is %q: not what the commit has", inside["LICENSE"])
	}

	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(inside["sbom.cdx.json"]), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != cyclonedx.SpecVersion1_6 || bom.Metadata.Component.Version != version {
		t.Errorf("the SBOM is of %v and names goworker %s", bom.SpecVersion, bom.Metadata.Component.Version)
	}
	where := filepath.Join(t.TempDir(), program)
	if err := os.WriteFile(where, inside[program], 0o755); err != nil {
		t.Fatal(err)
	}
	shown, err := exec.Command("go", "version", "-m", where).Output()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(where)
	if err != nil {
		t.Fatal(err)
	}
	linked := []string{"std " + strings.TrimPrefix(info.GoVersion, "go")}
	for line := range strings.Lines(string(shown)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "dep" {
			continue
		}
		if ours(words[1]) {
			words[2] = version
		} else if !strings.Contains(string(inside["THIRD_PARTY_LICENSES.txt"]), "\n"+words[1]+" "+words[2]+", ") {
			t.Errorf("THIRD_PARTY_LICENSES.txt leaves out %s %s", words[1], words[2])
		}
		linked = append(linked, words[1]+" "+words[2])
	}
	var named []string
	for _, c := range *bom.Components {
		named = append(named, c.Name+" "+c.Version)
		if c.Licenses == nil {
			t.Errorf("the SBOM has no license of %s", c.Name)
		}
	}
	slices.Sort(linked)
	if !slices.Equal(named, linked) {
		t.Errorf("the SBOM names\n%q\nand go version -m\n%q", named, linked)
	}

	if platform != runtime.GOOS+"/"+runtime.GOARCH {
		return
	}
	out, err := exec.Command(where, "version").CombinedOutput()
	if want := "goworker " + version + " " + commit + " " + info.GoVersion + "\n"; err != nil || string(out) != want {
		t.Errorf("goworker version writes %q (%v), and should write %q", out, err, want)
	}
}

func TestLicenses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, wrong string }{
		"ours":    {"LICENSE", read(t, "../LICENSE"), ""},
		"British": {"LICENCE.md", read(t, "../LICENSE"), ""},
		"none":    {"README.md", "It is free.", "is a known license"},
		"unknown": {"LICENSE", "Do with it what you like, but not on Sundays.", "is a known license"},
		"asks":    {"COPYING", "SPDX-License-Identifier: AGPL-3.0-only\n" + affero, "which is none of"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, c.file), c.text)
			l, err := readLicense("example.com/m v1.0.0", dir)
			if c.wrong == "" && (err != nil || !slices.Equal(l.names, []string{"MIT"}) || l.texts[0] != c.text) {
				t.Errorf("got %v, %v", l, err)
			}
			if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("got %v, %v; the error should say %q", l, err, c.wrong)
			}
		})
	}
}

// affero is the notice that programs under that license carry.
const affero = `This program is free software: you can redistribute it and/or modify
it under the terms of the GNU Affero General Public License as published by
the Free Software Foundation, either version 3 of the License, or
(at your option) any later version.

This program is distributed in the hope that it will be useful,
but WITHOUT ANY WARRANTY; without even the implied warranty of
MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.  See the
GNU Affero General Public License for more details.
`

// A commit that prepare has made ready passes check; each thing that is not ready is named.
func TestGates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	commit := func(files map[string]string) {
		t.Helper()
		for name, text := range files {
			write(t, filepath.Join(dir, name), text)
		}
		git(t, dir, "add", ".")
		git(t, dir, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "m")
	}
	ready := func(version string) {
		t.Helper()
		if err := check(dir, "HEAD", version); err != nil {
			t.Errorf("not ready for %s: %v", version, err)
		}
	}
	refused := func(version string, sentences ...string) {
		t.Helper()
		err := check(dir, "HEAD", version)
		if err == nil {
			t.Errorf("%s is ready, though %q", version, sentences)
			return
		}
		if lines := strings.Split(err.Error(), "\n"); len(lines) != len(sentences) {
			t.Errorf("%s: %v", version, err)
		}
		for _, s := range sentences {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: the error does not say %q: %v", version, s, err)
			}
		}
	}
	commit(map[string]string{
		"CHANGELOG.md":    "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- All.\n",
		"go.mod":          "module " + root + "\n\ngo 1.25.0\n",
		"metrics/go.mod":  "module " + root + "/metrics\n\ngo 1.25.0\n\nrequire " + root + " v0.0.0\n\nreplace " + root + " => ../\n",
		"test/aid/go.mod": "module " + root + "/test/aid\n\ngo 1.25.0\n\nrequire " + root + " v0.0.0\n\nreplace " + root + " => ../../\n",
	})
	old := git(t, dir, "rev-parse", "HEAD")
	commit(map[string]string{"test/operate/mixed/RELEASE": old + "\n"})
	refused("v0.9.0", "CHANGELOG.md must begin", "metrics/go.mod requires "+root+" v0.0.0, and must require v0.9.0")

	for range 2 { // the second time changes nothing
		if err := prepare(dir, "v0.9.0", epoch); err != nil {
			t.Fatal(err)
		}
	}
	if text := read(t, filepath.Join(dir, "CHANGELOG.md")); text != "# Changelog\n\n## [Unreleased]\n\n## [0.9.0] - 1970-01-01\n\n### Added\n\n- All.\n" {
		t.Errorf("the changelog is\n%s", text)
	}
	if text := read(t, filepath.Join(dir, "test/aid/go.mod")); !strings.Contains(text, "v0.0.0") {
		t.Errorf("prepare wrote a version into a module without tags:\n%s", text)
	}
	commit(nil)
	ready("v0.9.0")
	refused("v0.9.1", "metrics/go.mod requires", "CHANGELOG.md has")

	git(t, dir, "tag", "v0.9.0")
	released := git(t, dir, "rev-parse", "HEAD")
	if err := prepare(dir, "v0.10.0", epoch); err != nil {
		t.Fatal(err)
	}
	commit(nil)
	refused("v0.10.0", "RELEASE names "+old+", and the last release, v0.9.0, is "+released)
	commit(map[string]string{"test/operate/mixed/RELEASE": released + "\n"})
	ready("v0.10.0")
	commit(map[string]string{"metrics/go.mod": read(t, filepath.Join(dir, "metrics/go.mod")) + "\nreplace example.com/m => example.com/n v1.0.0\n"})
	refused("v0.10.0", "replaces example.com/m")
	for _, wrong := range []string{"", "1.2.3", "v1.2", "v2.0.0", "v1.2.3+build"} {
		if canonical(wrong) == nil {
			t.Errorf("%q is a version", wrong)
		}
	}
}

// The page for the one who releases names the tag of each module.
func TestPageNamesTags(t *testing.T) {
	t.Parallel()
	found, err := tree{dir: "..", commit: "HEAD"}.modules()
	if err != nil {
		t.Fatal(err)
	}
	page := read(t, "../docs/internals/releasing.md")
	for _, tag := range tags(found, "v1.2.3") {
		if !strings.Contains(page, "`"+tag+"`") {
			t.Errorf("docs/internals/releasing.md does not name the tag %s", tag)
		}
	}
	for _, platform := range Platforms {
		if !strings.Contains(page, platform) {
			t.Errorf("docs/internals/releasing.md does not name %s", platform)
		}
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := output(exec.Command("git", append([]string{"-C", dir}, args...)...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]byte)
	for _, e := range entries {
		found[e.Name()] = []byte(read(t, filepath.Join(dir, e.Name())))
	}
	return found
}

func untar(t *testing.T, data []byte, folder string) map[string][]byte {
	t.Helper()
	decompressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]byte)
	for r := tar.NewReader(decompressed); ; {
		h, err := r.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || path.Dir(h.Name) != folder {
			t.Errorf("the archive has %s of %d:%d %s", h.Name, h.Uid, h.Gid, h.Uname)
		}
		if found[path.Base(h.Name)], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func unzip(t *testing.T, data []byte, folder string) map[string][]byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]byte)
	for _, f := range r.File {
		if path.Dir(f.Name) != folder {
			t.Errorf("the archive has %s", f.Name)
		}
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if found[path.Base(f.Name)], err = io.ReadAll(content); err != nil {
			t.Fatal(err)
		}
	}
	return found
}
