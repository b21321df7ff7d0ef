// Package page keeps the figures of the docs the same as the results: what stands
// in a page between a pair of marks
//
//	<!-- results: name -->
//	<!-- end of results -->
//
// is made from the results file, and so is a single figure in a sentence:
//
//	<!-- figure: ours noop 25 jobs_per_s -->196,540<!-- end -->
//
// A test compares.
package page

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/goworker/goworker/bench/plots"
	"github.com/goworker/goworker/bench/result"
)

// Plots is the folder of the pictures, in docs.
const Plots = "benchmarks"

var (
	section = regexp.MustCompile(`(?s)<!-- results: ([a-z-]+) -->\n.*?<!-- end of results -->`)
	inText  = regexp.MustCompile(`<!-- figure: ([\w-]+) ([\w-]+) (\d+) (\w+) -->([^<]*)<!-- end -->`)
)

// Pages are the paths of the pages that may have figures.
func Pages(docs string) ([]string, error) {
	pages := []string{filepath.Join(docs, "..", "README.md")}
	for _, pattern := range []string{"*.md", "internals/*.md"} {
		found, err := filepath.Glob(filepath.Join(docs, pattern))
		if err != nil {
			return nil, err
		}
		pages = append(pages, found...)
	}
	return pages, nil
}

// Write draws the plots, gives the model of sizes its figures and fills the pages.
func Write(docs string, f result.File) error {
	if _, err := plots.Write(filepath.Join(docs, Plots), f); err != nil {
		return err
	}
	if err := writeModel(docs, f); err != nil {
		return err
	}
	pages, err := Pages(docs)
	if err != nil {
		return err
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		filled, err := Fill(string(text), f)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if filled == string(text) {
			continue
		}
		if err := os.WriteFile(path, []byte(filled), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Fill returns a page with its sections and figures rewritten.
func Fill(text string, f result.File) (string, error) {
	var unknown error
	filled := section.ReplaceAllStringFunc(text, func(old string) string {
		name := section.FindStringSubmatch(old)[1]
		generate, ok := sections[name]
		if !ok {
			unknown = fmt.Errorf("there is a section %q that nothing is known of", name)
			return old
		}
		return "<!-- results: " + name + " -->\n" + generate(f) + "<!-- end of results -->"
	})
	filled = inText.ReplaceAllStringFunc(filled, func(old string) string {
		m := inText.FindStringSubmatch(old)
		workers, err := strconv.Atoi(m[3])
		row, ok := f.Get(m[1], m[2], workers, m[4])
		if err != nil || !ok {
			unknown = fmt.Errorf("the results have no row for %s", old)
			return old
		}
		return fmt.Sprintf("<!-- figure: %s %s %s %s -->%s<!-- end -->", m[1], m[2], m[3], m[4], result.Number(row.Median))
	})
	return filled, unknown
}
