package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Platforms are those that a release has archives for.
var Platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

// module is the folder of the command.
const module = "cmd/goworker"

// Release is what Build builds.
type Release struct {
	Repository string   // a clone of goworker; nothing in it is changed, and what is not committed is not built
	Commit     string   // what is built
	Version    string   // such as v1.2.3
	Platforms  []string // such as linux/amd64
	cache      string   // Go's build cache; "" is that of the user
}

// source is a clone of one commit, in a folder of its own.
type source struct {
	dir    string
	commit string
	time   time.Time // of the commit; all files in an archive have it
	env    []string  // of go
}

// Build writes an archive and an SBOM for each platform, and their SHA256SUMS, into a folder that is empty or not there.
//
// The bytes depend on the commit, the version and the version of Go, and on nothing else: not on the folder, the user, the time, or the settings of Go.
func (r Release) Build(out string) error {
	if there, err := os.ReadDir(out); err == nil && len(there) > 0 {
		return fmt.Errorf("%s is not empty: remove it first", out)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	src, err := r.clone(filepath.Join(temp, "source"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, platform := range r.Platforms {
		if err := r.one(src, platform, filepath.Join(temp, strings.ReplaceAll(platform, "/", "-")), out); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
	}
	return sums(out)
}

// clone makes a clone of the commit, in which the only tag is the version's. Go writes tag and commit into the program, and the tag need not be in the repository yet.
func (r Release) clone(dir string) (*source, error) {
	repository, err := filepath.Abs(r.Repository)
	if err != nil {
		return nil, err
	}
	src := &source{dir: dir, env: environment(r.cache)}
	if src.commit, err = output(exec.Command("git", "-C", repository, "rev-parse", "--verify", r.Commit+"^{commit}")); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"clone", "-q", "--shared", "--no-tags", "--no-checkout", "--template=", repository, dir},
		{"-C", dir, "-c", "core.autocrlf=false", "-c", "advice.detachedHead=false", "checkout", "-q", "--detach", src.commit},
		{"-C", dir, "tag", "--no-sign", module + "/" + r.Version},
	} {
		if _, err := output(exec.Command("git", args...)); err != nil {
			return nil, err
		}
	}
	at, err := output(exec.Command("git", "-C", dir, "show", "-s", "--format=%ct", src.commit))
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return nil, err
	}
	src.time = time.Unix(seconds, 0).UTC()
	return src, nil
}

// environment is what go runs in. Of its own settings only those are kept that say where things are, and which Go it is.
func environment(cache string) []string {
	keep := []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOPATH", "GOMODCACHE", "GOCACHE", "GOROOT", "GOTMPDIR", "GOTOOLCHAIN", "GOMAXPROCS", "GOGC", "GOMEMLIMIT"}
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "CGO_") || strings.HasPrefix(name, "GO") && !slices.Contains(keep, name) {
			continue
		}
		env = append(env, v)
	}
	env = append(env, "GOENV=off", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0")
	if cache != "" {
		env = append(env, "GOCACHE="+cache)
	}
	return env
}

func (s *source) run(platform string, args ...string) (string, error) {
	c := exec.Command("go", args...)
	c.Dir = filepath.Join(s.dir, module)
	system, processor, _ := strings.Cut(platform, "/")
	c.Env = append(slices.Clip(s.env), "GOOS="+system, "GOARCH="+processor)
	return output(c)
}

// one builds for a platform.
func (r Release) one(src *source, platform, temp, out string) error {
	if !strings.Contains(platform, "/") {
		return errors.New("a platform is a system and a processor, such as linux/amd64")
	}
	program := filepath.Join(temp, "goworker")
	if strings.HasPrefix(platform, "windows/") {
		program += ".exe"
	}
	if _, err := src.run(platform, "build", "-trimpath", "-buildvcs=true", "-mod=readonly", "-ldflags=-s -w", "-o", program, "."); err != nil {
		return err
	}
	licenses, err := src.licenses(platform)
	if err != nil {
		return err
	}
	bill, err := r.bill(src, program, platform, licenses)
	if err != nil {
		return err
	}
	files := []file{
		{name: filepath.Base(program), path: program, executable: true},
		{name: "THIRD_PARTY_LICENSES.txt", data: texts(licenses)},
		{name: "sbom.cdx.json", data: bill},
	}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		files = append(files, file{name: name, path: filepath.Join(src.dir, name)})
	}
	name := "goworker_" + strings.TrimPrefix(r.Version, "v") + "_" + strings.ReplaceAll(platform, "/", "_")
	if err := os.WriteFile(filepath.Join(out, name+".cdx.json"), bill, 0o644); err != nil {
		return err
	}
	return archive(filepath.Join(out, name), strings.HasPrefix(platform, "windows/"), files, src.time)
}

// sums writes SHA256SUMS as sha256sum does.
func sums(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), lines.Bytes(), 0o644)
}

// verify builds the release again, from an empty build cache, and compares the sums with those in a folder.
func (r Release) verify(published string) error {
	want, err := os.ReadFile(filepath.Join(published, "SHA256SUMS"))
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	r.cache = filepath.Join(temp, "cache")
	if err := r.Build(filepath.Join(temp, "dist")); err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(temp, "dist", "SHA256SUMS"))
	if err != nil {
		return err
	}
	if bytes.Equal(got, want) {
		return nil
	}
	version, err := output(exec.Command("go", "env", "GOVERSION"))
	if err != nil {
		return err
	}
	return fmt.Errorf("the sums differ; is this commit %s, and was it %s that built the release? here:\n%sthere:\n%s", r.Commit, version, got, want)
}

// output runs a command, and returns what it writes. Its errors say what the command said.
func output(c *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), nil
}
