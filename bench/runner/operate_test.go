package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/bench/result"
)

func TestUnits(t *testing.T) {
	t.Parallel()
	got, err := unitsOf("goos: linux\npkg: x\nBenchmarkX/1_class-2 \t 20 \t 12.5 ns/op\t 3 redis-µs/fold\t 0 B/op\nPASS\n")
	if want := map[string]float64{"ns/op": 12.5, "redis-µs/fold": 3, "B/op": 0}; err != nil || !maps.Equal(got, want) {
		t.Errorf("read %v, %v", got, err)
	}
	for _, text := range []string{"", "PASS\n", "BenchmarkX-2 20 fast ns/op\n", "BenchmarkX-2 20 12 ns/op 3\n"} {
		if got, err := unitsOf(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// Each benchmark that the runner names is there, and reports the units that are read of it. Their rows have their places in the tables.
func TestGauges(t *testing.T) {
	t.Parallel()
	for _, g := range gauges {
		paths, _ := filepath.Glob(filepath.Join("..", "..", g.folder, "*_test.go"))
		source := ""
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			source += string(text)
		}
		name := regexp.MustCompile(`^\^(Benchmark\w+)`).FindStringSubmatch(g.name)
		if name == nil || !strings.Contains(source, "func "+name[1]+"(") {
			t.Errorf("%s has no benchmark %s", g.folder, g.name)
		}
		for _, row := range g.rows {
			if !slices.Contains(result.Works, row.work) || !slices.Contains(result.Figures, row.figure) {
				t.Errorf("package result does not know of %+v", row)
			}
		}
	}
}
