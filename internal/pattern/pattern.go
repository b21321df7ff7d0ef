// Package pattern has regular expressions that are compiled when they are first used. A program that uses none does not pay
// for them as it starts: the child process of an isolated job starts for that job.
package pattern

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression. It is safe for concurrent use.
type Pattern struct{ compiled func() *regexp.Regexp }

// New returns a pattern. The first use of one that does not compile panics, so a test must use each.
func New(expression string) Pattern {
	return Pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

// MatchString is Regexp.MatchString.
func (p Pattern) MatchString(text string) bool { return p.compiled().MatchString(text) }

// FindString is Regexp.FindString.
func (p Pattern) FindString(text string) string { return p.compiled().FindString(text) }

// FindStringSubmatch is Regexp.FindStringSubmatch.
func (p Pattern) FindStringSubmatch(text string) []string {
	return p.compiled().FindStringSubmatch(text)
}

// ReplaceAllString is Regexp.ReplaceAllString.
func (p Pattern) ReplaceAllString(text, with string) string {
	return p.compiled().ReplaceAllString(text, with)
}
