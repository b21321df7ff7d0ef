package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// stage is one part of a Dockerfile: a file system, and what is said of it.
type stage struct {
	name, base string
	dir        string // the file system
	work       string // in it
	env        []string
	args       []string // of the build
	user       string
	signal     string
	entry      []string
	command    []string
}

// build does what the lines of a Dockerfile say, and refuses what it does not know. Base images are scratch, which is empty, and golang: this
// machine with its Go, where files of other places stand for the image's.
type build struct {
	context string            // the folder that is sent to Docker
	ignored []string          // paths in it, or names after **/
	args    map[string]string // --build-arg
	image   map[string]string // files of the image golang: where they are here
	dir     string            // for the stages
	stages  []*stage
}

var continued = regexp.MustCompile(`\\\n\s*`)

// run does all lines, and returns the last stage.
func (b *build) run(dockerfile string) (*stage, error) {
	for line := range strings.Lines(continued.ReplaceAllString(dockerfile, " ")) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if err := b.do(word, strings.TrimSpace(rest)); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
	}
	if len(b.stages) == 0 {
		return nil, errors.New("it has no FROM")
	}
	return b.stages[len(b.stages)-1], nil
}

func (b *build) do(word, rest string) (err error) {
	if word == "FROM" {
		return b.from(strings.Fields(rest))
	}
	if len(b.stages) == 0 {
		return errors.New("it comes before FROM")
	}
	s := b.stages[len(b.stages)-1]
	switch word {
	case "ARG":
		name, value, _ := strings.Cut(rest, "=")
		if given, ok := b.args[name]; ok {
			value = given
		}
		s.args = append(s.args, name+"="+value)
	case "ENV":
		if !strings.Contains(rest, "=") || strings.Contains(rest, " ") {
			return errors.New("not one NAME=value")
		}
		s.env = append(s.env, rest)
	case "WORKDIR":
		s.work = rest
		return os.MkdirAll(s.at(rest), 0o755)
	case "COPY":
		return b.copy(s, strings.Fields(rest))
	case "RUN":
		return b.command(s, rest)
	case "USER":
		s.user = rest
	case "STOPSIGNAL":
		s.signal = rest
	case "ENTRYPOINT":
		s.entry, err = words(rest)
	case "CMD":
		s.command, err = words(rest)
	default:
		return errors.New("this instruction is not known")
	}
	return err
}

// words reads the form of a list. In the other one a shell would get the signals.
func words(text string) (list []string, err error) {
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("it is no list: %w", err)
	}
	return list, nil
}

func (b *build) from(words []string) error {
	s := &stage{name: fmt.Sprint(len(b.stages)), work: "/"}
	switch {
	case len(words) == 3 && words[1] == "AS":
		s.name = words[2]
	case len(words) != 1:
		return errors.New("not an image, with or without AS and a name")
	}
	if s.base, _, _ = strings.Cut(words[0], ":"); s.base != "golang" && s.base != "scratch" {
		return errors.New("this image is not here")
	}
	s.dir = filepath.Join(b.dir, s.name)
	b.stages = append(b.stages, s)
	return os.MkdirAll(s.dir, 0o755)
}

// at returns where a path of the stage is on this machine.
func (s *stage) at(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(s.work, name)
	}
	return filepath.Join(s.dir, filepath.FromSlash(path.Clean(name)))
}

// command runs a line of the build by a shell, in the stage's folder. It may only call go: all else would need the image.
func (b *build) command(s *stage, line string) error {
	if s.base != "golang" || !regexp.MustCompile(`^(\w+=\S+ )*go `).MatchString(line) {
		return errors.New("there is no such command in the image")
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = s.at(".")
	cmd.Env = append(append(os.Environ(), s.args...), s.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (b *build) copy(s *stage, words []string) error {
	from, staged := strings.CutPrefix(words[0], "--from=")
	if staged {
		words = words[1:]
	}
	if len(words) != 2 {
		return errors.New("not a source and a target")
	}
	source, target := words[0], s.at(words[1])
	if strings.HasSuffix(words[1], "/") {
		target = filepath.Join(target, path.Base(source))
	}
	if !staged {
		return b.copyContext(filepath.Join(b.context, source), target)
	}
	for _, other := range b.stages[:len(b.stages)-1] {
		if other.name != from {
			continue
		}
		if here, ok := b.image[source]; ok && other.base == "golang" {
			return copyFile(here, target)
		}
		return copyFile(other.at(source), target)
	}
	return errors.New("there is no such stage before")
}

// copyContext copies a folder of the context, without what is ignored.
func (b *build) copyContext(source, target string) error {
	return filepath.WalkDir(source, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(b.context, name)
		if err != nil {
			return err
		}
		for _, pattern := range b.ignored {
			base, anywhere := strings.CutPrefix(pattern, "**/")
			if pattern == filepath.ToSlash(relative) || anywhere && base == d.Name() {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
		}
		if !d.Type().IsRegular() {
			return nil
		}
		below, err := filepath.Rel(source, name)
		if err != nil {
			return err
		}
		return copyFile(name, filepath.Join(target, below))
	})
}

func copyFile(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if info.Mode()&0o111 != 0 { // were it written here, what another test forks meanwhile would have it open, and it could not be run
		out, err := exec.Command("cp", "--preserve=mode", source, target).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("cp %s %s: %w: %s", source, target, err, out)
		}
		return err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(target, text, info.Mode().Perm())
}
