// Package browser walks through the dashboard with a browser, as its users do, and looks at every page for barriers.
//
// The journeys are scripts for Node.js that drive Chromium. npm ci in this folder installs what they need.
package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a journey or a look at all pages may take.
const patience = 8 * time.Minute

// binary is the fleet, built from this tree.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "goworker")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "fleet")
	build := exec.Command("go", "build", "-ldflags=-s", "-o", binary, "./fleet")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the fleet:", err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// fleet starts a fleet, and returns its places as JSON. The test's end stops it.
func fleet(t *testing.T) string {
	t.Helper()
	c := exec.Command(binary)
	var errs bytes.Buffer
	c.Stderr = &errs
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		killed := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
		defer killed.Stop()
		if err := c.Wait(); err != nil {
			t.Errorf("the fleet: %v\n%s", err, errs.String())
		}
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil || !json.Valid(line) {
		t.Fatalf("the fleet does not say where it is: %v %s\n%s", err, line, errs.String())
	}
	return string(line)
}

// script runs a script against a fleet of its own.
func script(t *testing.T, args ...string) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("the journeys need Node.js 20 or newer: %v", err)
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("the journeys need Chromium: %v", err)
	}
	if _, err := os.Stat(filepath.Join("node_modules", "playwright-core", "package.json")); err != nil {
		t.Fatal("playwright-core is not installed: run `npm ci` in test/browser")
	}
	c := exec.CommandContext(t.Context(), node, args...)
	c.Env = append(os.Environ(), "PLACES="+fleet(t), "CHROMIUM="+chromium)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &errs, time.Second
	late := time.AfterFunc(patience, func() { _ = c.Process.Signal(os.Interrupt) })
	defer late.Stop()
	if err := c.Run(); err != nil {
		t.Errorf("%s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

// TestJourneys: what people come for works, each on a fleet of its own.
func TestJourneys(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob("journeys/*.mjs")
	if err != nil || len(all) < 12 {
		t.Fatalf("there are %d journeys: %v", len(all), err)
	}
	for _, journey := range all {
		t.Run(strings.TrimSuffix(filepath.Base(journey), ".mjs"), func(t *testing.T) {
			t.Parallel()
			script(t, "run.mjs", journey)
		})
	}
}

// TestPages: no page has a barrier that axe-core finds, is wider than its window or has the browser complain, in both themes. SHOTS names a
// directory for pictures of all of them.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, width := range []string{"1440", "768", "390"} {
		for _, theme := range []string{"light", "dark"} {
			t.Run(width+" "+theme, func(t *testing.T) {
				t.Parallel()
				t.Log(script(t, "pages.mjs", width, theme))
			})
		}
	}
}

// TestPictures writes the pictures of the docs into the directory that PICTURES names. Each has to be made from what is on the pages.
func TestPictures(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("PICTURES")
	if dir == "" {
		t.Skip("make pictures makes them")
	}
	t.Log(script(t, "pictures.mjs", dir))
}
