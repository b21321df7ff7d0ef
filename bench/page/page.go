// Package page keeps docs/benchmarks.md and its plots the same as the results:
// what stands there between a pair of marks
//
//	<!-- results: name -->
//	<!-- end of results -->
//
// is made from the results file, and a test compares.
package page

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/goworker/goworker/bench/plots"
	"github.com/goworker/goworker/bench/result"
)

// Name is the page's file in docs, and Plots the folder of its pictures.
const (
	Name  = "benchmarks.md"
	Plots = "benchmarks"
)

var section = regexp.MustCompile(`(?s)<!-- results: ([a-z-]+) -->\n.*?<!-- end of results -->`)

// Write draws the plots and fills the page.
func Write(docs string, f result.File) error {
	if _, err := plots.Write(filepath.Join(docs, Plots), f); err != nil {
		return err
	}
	path := filepath.Join(docs, Name)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	filled, err := Fill(string(text), f)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(filled), 0o644)
}

// Fill returns the page with its sections rewritten.
func Fill(text string, f result.File) (string, error) {
	var unknown error
	filled := section.ReplaceAllStringFunc(text, func(old string) string {
		name := section.FindStringSubmatch(old)[1]
		generate, ok := sections[name]
		if !ok {
			unknown = fmt.Errorf("%s has a section %q that nothing is known of", Name, name)
			return old
		}
		return "<!-- results: " + name + " -->\n" + generate(f) + "<!-- end of results -->"
	})
	return filled, unknown
}
