package command

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	codeSpan  = regexp.MustCompile("`([^`\n]+)`")
	shellWord = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
	flagWord  = regexp.MustCompile(`^--?([a-z][a-z-]*)`)
)

// TestCommandsOfTheDocs: each goworker command that a page shows is one that the program has, with flags that it has. In a table whose
// first column is headed by a command, each row names verbs of it.
func TestCommandsOfTheDocs(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/internals/*.md"} {
		paths, err := filepath.Glob(filepath.Join("../../../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range commandsOf(string(text)) {
				seen++
				if why := wrongCommand(line); why != "" {
					t.Errorf("%s shows %q: %s", filepath.Base(path), line, why)
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("the pages show %d commands; this test reads the wrong folder", seen)
	}
	for line, wrong := range map[string]bool{
		"goworker inspect ping":                                false,
		"goworker inspect pong":                                true,
		"goworker queues nobody":                               true,
		"goworker nothing":                                     true,
		"goworker control pause --self --for 1h --why 'a --b'": false,
		"goworker inspect ping --nothing":                      true,
	} {
		if why := wrongCommand(line); (why != "") != wrong {
			t.Errorf("%q: %q", line, why)
		}
	}
}

// commandsOf returns the commands that a page shows.
func commandsOf(page string) (commands []string) {
	fenced, head := "", "" // the language of the block, and the command that heads the table
	for _, line := range strings.Split(page, "\n") {
		if after, fence := strings.CutPrefix(line, "```"); fence {
			if fenced = strings.TrimSpace(after); after == "" {
				fenced = ""
			}
			continue
		}
		if fenced != "" {
			if line = strings.TrimSpace(line); fenced == "sh" && strings.HasPrefix(line, "goworker ") {
				commands = append(commands, line)
			}
			continue
		}
		cell, row := "", strings.HasPrefix(line, "|")
		if row {
			cell = strings.Split(line, "|")[1]
		} else {
			head = ""
		}
		for n, code := range codeSpan.FindAllStringSubmatch(line, -1) {
			switch first := n == 0 && strings.Contains(cell, code[0]); {
			case strings.HasPrefix(code[1], "goworker "):
				commands = append(commands, code[1])
				if verb, _, open := strings.Cut(code[1], " …"); row && first && open {
					head = verb
				}
			case head != "" && strings.Contains(cell, code[0]):
				commands = append(commands, head+" "+code[1])
			}
		}
	}
	return commands
}

// wrongCommand says why a line is no command of the program; "": it is one.
func wrongCommand(line string) string {
	line, _, _ = strings.Cut(line, " #")
	words := shellWord.FindAllString(strings.NewReplacer("[-", "-", "]", "", "\\|", " ", ";", " ;").Replace(line), -1)[1:]
	if n := slices.IndexFunc(words, func(w string) bool { return slices.Contains([]string{"|", "||", "&&", ";", ">", "<", "…"}, w) }); n >= 0 {
		words = words[:n]
	}
	root := (&program{}).root()
	root.InitDefaultCompletionCmd("completion")
	found, rest, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	var given []string
	value := false // the word is the value of the flag before it
	for n, word := range rest {
		if value {
			value = false
			continue
		}
		if word == "--" {
			given = append(given, rest[n+1:]...)
			break
		}
		flag := flagWord.FindStringSubmatch(word)
		if flag == nil {
			given = append(given, word)
			continue
		}
		found.InitDefaultHelpFlag()
		known := found.Flag(flag[1])
		if known == nil && len(flag[1]) == 1 {
			known = found.Flags().ShorthandLookup(flag[1])
		}
		if known == nil {
			return found.CommandPath() + " has no flag " + flag[0]
		}
		value = known.NoOptDefVal == "" && !strings.Contains(word, "=")
	}
	if found.HasSubCommands() && len(given) > 0 && given[0] != strings.ToUpper(given[0]) {
		return found.CommandPath() + " has no command " + given[0]
	}
	return ""
}
