package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// elsewhere are commands that need a machine, a service or the network, which a test does not have. Lines
// that begin with one are parsed and not run.
var elsewhere = []string{"apt-get", "brew", "docker", "git", "heroku", "journalctl", "kill", "kubectl", "make", "scp", "sudo", "systemctl", "bundle"}

// prelude comes before each block of shell. redis-cli goes to the page's server and fails where Redis answers
// with an error. go get takes this module as it is here. Of a go run in the background the status is the
// program's own.
const prelude = `set -eu
redis-cli() {
	case " $* " in *" -p "*) set -- "$@" ;; *) set -- -p "$PORT" "$@" ;; esac
	command redis-cli -e "$@"
}
go() {
	if [ "$1" = mod ] && [ "$2" = init ]; then command go mod init "$3" 2>/dev/null; return; fi
	if [ "$1" = get ]; then
		[ -f go.mod ] || command go mod init snippet 2>/dev/null
		command go mod edit -go=1.25 -require="` + module + `@v0.0.0" -replace="` + module + `=$TOP"
		cp "$TOP/go.sum" .
		return
	fi
	export GOFLAGS=-mod=mod GOPROXY=off GOWORK=off
	if [ "$1" = run ] && [ -n "${BACKGROUND-}" ]; then # the program's own end is to be seen, not go's
		command go build -ldflags=-s -o "$HOME/.program" "$2"
		shift 2
		exec "$HOME/.program" "$@"
	fi
	command go "$@"
}
goworker() { # on a busy machine a search may not see all in the time that it has by default
	case " $* " in
	" config "* | *" --budget"* | *" -- "*) ;;
	*) if command goworker "$@" --help 2>/dev/null | grep -q -e "--budget"; then set -- "$@" --budget=1m; fi ;;
	esac
	command goworker "$@"
}
curl() { # a server that was just started does not listen yet; an answer that is an error fails the block
	for i in $(seq 1800); do
		command curl -sS --fail-with-body "$@" && return || [ $? = 7 ] || return
		sleep 0.1
	done
}
trap 'pwd > "$CWD"' EXIT
if [ -f "$HOME/.variables" ]; then . "$HOME/.variables"; fi # what a hidden setup leaves
eventually() { for i in $(seq 1800); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done; echo "never: $*"; return 1; }
`

// scene is what a page runs in: its server, its directory, its processes.
type scene struct {
	server     *redistest.Server
	sentinel   *redistest.Server // one that names the server, if the page asks for it
	home, dir  string            // dir is where the last block of shell left off
	groups     []int             // process groups that may still have processes
	background *process          // the last one, also after its end
	last       string            // what the last block printed
	binary     string            // the directory of the command goworker, if the page uses it
	http       [2]int            // the ports of its server
}

type process struct {
	cmd    *exec.Cmd
	output func() string
	exited chan error
}

func newScene(t *testing.T, p page) *scene {
	s := &scene{server: redistest.Start(t), home: t.TempDir()}
	s.dir = s.home
	if needsServer(p) {
		var err error
		if s.binary, err = serverCommand(); err != nil {
			t.Fatal(err)
		}
		s.http = [2]int{redistest.FreePort(t), redistest.FreePort(t)}
	}
	t.Cleanup(s.kill)
	return s
}

// kill ends all processes that the page has started.
func (s *scene) kill() {
	for _, group := range s.groups {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	s.groups = nil
}

// command runs in the scene, in a process group of its own, with its output in a file: a process that stays
// in the background holds no pipe open.
func (s *scene) command(ctx context.Context, name string, args ...string) (*exec.Cmd, func() string, error) {
	top := absolute(root)
	out, err := os.CreateTemp(s.home, ".output")
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_, port, _ := strings.Cut(s.server.Addr, ":")
	worker, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "REDIS_") || strings.HasPrefix(v, "SNIPPET") || strings.HasPrefix(v, "GOWORKER_")
	}), goEnv()...)
	cmd.Env = append(cmd.Env, "PORT="+port, "TOP="+top, "REDIS_URL="+s.server.URI(), "WORKER="+worker, "HOME="+s.home, "CWD="+filepath.Join(s.home, ".cwd"), "PATH="+filepath.Join(top, "test/docs/standin")+":"+s.binary+":"+os.Getenv("PATH"),
		"RUBYLIB="+filepath.Join(top, "test/docs/standin"))
	cmd.Env = append(cmd.Env, s.serving()...)
	read := func() string {
		text, err := os.ReadFile(out.Name())
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	return cmd, read, nil
}

// goEnv is where Go keeps what it has compiled and downloaded: the home directory of a scene has nothing.
var goEnv = sync.OnceValue(func() []string {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	dirs := strings.Fields(string(out))
	if err != nil || len(dirs) != 3 {
		panic(fmt.Sprintf("go env: %v: %s", err, out))
	}
	return []string{"GOCACHE=" + dirs[0], "GOMODCACHE=" + dirs[1], "GOPATH=" + dirs[2]}
})

// start runs a command and notes its process group.
func (s *scene) start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	s.groups = append(s.groups, cmd.Process.Pid)
	return nil
}

// run runs a command to its end, which has to be a good one, and returns what it printed.
func (s *scene) run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd, out, err := s.command(ctx, name, args...)
	if err != nil {
		return "", err
	}
	if err := s.start(cmd); err != nil {
		return "", err
	}
	err = cmd.Wait()
	return out(), err
}

// shell runs lines of bash.
func (s *scene) shell(t *testing.T, text string) (string, error) {
	out, err := s.run(t, "bash", "-c", prelude+s.here(text))
	if dir, err := os.ReadFile(filepath.Join(s.home, ".cwd")); err == nil {
		s.dir = strings.TrimSpace(string(dir))
	}
	return out, err
}

// here is a text with the addresses of the page's servers.
func (s *scene) here(text string) string {
	_, port, _ := strings.Cut(s.server.Addr, ":")
	text = regexp.MustCompile(`\b6379\b`).ReplaceAllString(text, port)
	for i, port := range servePorts {
		if s.binary != "" {
			text = regexp.MustCompile(`\b`+port+`\b`).ReplaceAllString(text, strconv.Itoa(s.http[i]))
		}
	}
	if s.sentinel != nil {
		_, port, _ := strings.Cut(s.sentinel.Addr, ":")
		text = regexp.MustCompile(`\b26379\b`).ReplaceAllString(text, port)
	}
	return text
}

// serve replaces the page's server by a master with Sentinels, or by a Cluster.
func (s *scene) serve(t *testing.T, shape string) error {
	switch shape {
	case "sentinel":
		fleet := redistest.StartSentinel(t)
		s.server, s.sentinel = fleet.Master(t), fleet.Sentinels[0]
	case "cluster":
		s.server = redistest.StartCluster(t).Nodes[0]
	default:
		return fmt.Errorf("no Redis of the shape %q is known", shape)
	}
	return nil
}

// local leaves out the lines of a block that need another machine.
func local(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 0 && slices.Contains(elsewhere, words[0]) {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// interpreters are the languages whose blocks are run as a whole.
var interpreters = map[string][]string{
	"js":     {"node", "--input-type=module", "-e"},
	"ruby":   {"ruby", "-rresque", "-e"},
	"php":    {"php", "-d", "include_path=" + filepath.Join(absolute(root), "test", "docs", "standin"), "-r"},
	"python": {python(), "-c"},
}

// python is one that has the packages redis and msgpack: Debian's own, where another one is first in the path.
func python() string {
	if exec.Command("python3", "-c", "import redis, msgpack").Run() == nil {
		return "python3"
	}
	return "/usr/bin/python3"
}

func absolute(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return path
}

// TestBlocks runs the blocks of each page.
func TestBlocks(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if sections := p.apart(); len(sections) > 0 {
				for _, section := range sections {
					t.Run(section.items[0].section, func(t *testing.T) {
						t.Parallel()
						section.play(t)
					})
				}
				return
			}
			p.play(t)
		})
	}
}

// play runs the blocks of a page in their order.
func (p page) play(t *testing.T) {
	var s *scene // made for the first block that needs one
	for _, b := range p.items {
		if s == nil && needsScene(b) {
			s = newScene(t, p)
		}
		if err := b.play(t, p, s); err != nil {
			t.Fatalf("%s:%d: %v", p.name, b.line, err)
		}
	}
}

// apart returns the sections of a page that has a scene for each of them, each as a page, and nothing for
// another page.
func (p page) apart() (sections []page) {
	if !slices.ContainsFunc(p.items, func(b item) bool { return b.is("apart") }) {
		return nil
	}
	for _, b := range p.items {
		switch last := len(sections) - 1; {
		case b.is("apart"):
		case last < 0 || sections[last].items[0].section != b.section:
			sections = append(sections, page{p.name, []item{b}})
		default:
			sections[last].items = append(sections[last].items, b)
		}
	}
	return sections
}

func needsScene(b item) bool {
	return b.lang == "sh" || b.lang == "acl" || interpreters[b.lang] != nil || b.is("run") || b.is("file") || b.is("redis")
}

// play runs or checks one block.
func (b item) play(t *testing.T, p page, s *scene) error {
	switch {
	case b.is("interrupt"):
		return s.interrupt()
	case b.is("redis"):
		return s.serve(t, b.directives["redis"])
	case b.is("fresh"):
		if s != nil {
			s.kill()
			s.server.Do(t, "FLUSHALL")
		}
		return nil
	case b.lang == "":
		if b.is("declare") {
			return nil
		}
		return fmt.Errorf("a block without a language has no rule; give it one, see test/docs")
	case b.is("output"):
		return b.compare(t, s)
	case b.lang != "go" && b.is("setup"):
		if out, err := s.shell(t, b.directives["setup"]); err != nil {
			return fmt.Errorf("its setup: %w\n%s", err, out)
		}
	}
	if b.is("file") {
		path := filepath.Join(s.home, b.directives["file"])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
			return err
		}
	}
	out, err := b.do(t, p, s)
	if err = b.exited(err); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	for want := range strings.Lines(b.directives["prints"]) {
		if want = strings.TrimSpace(want); !strings.Contains(folded(out), folded(want)) {
			return fmt.Errorf("it did not print %q but\n%s", want, out)
		}
	}
	for not := range strings.Lines(b.directives["lacks"]) {
		if not = strings.TrimSpace(not); not != "" && strings.Contains(folded(out), folded(not)) {
			return fmt.Errorf("it should not have printed %q, and printed\n%s", not, out)
		}
	}
	if check, ok := b.directives["check"]; ok {
		if out, err := s.shell(t, check); err != nil {
			return fmt.Errorf("its check: %w\n%s", err, out)
		}
	}
	return nil
}

// folded is a text in one line with single blanks: goworker breaks its sentences at the width of a terminal.
func folded(text string) string { return strings.Join(strings.Fields(text), " ") }

// exited returns what is wrong with the end of a block.
func (b item) exited(err error) error {
	want := b.directives["exits"]
	if want == "" {
		return err
	}
	status := "0"
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		status = strconv.Itoa(exit.ExitCode())
	}
	if status != want {
		return fmt.Errorf("it ended with %s, not %s: %v", status, want, err)
	}
	return nil
}

// do runs a block, or checks one that is not run.
func (b item) do(t *testing.T, p page, s *scene) (string, error) {
	out := ""
	var err error
	switch {
	case b.lang == "sh":
		if text, err := exec.Command("bash", "-n", "-c", b.text).CombinedOutput(); err != nil {
			return string(text), err
		}
		if b.is("background") {
			return "", s.inBackground(local(b.text))
		}
		out, err = s.shell(t, local(b.text))
	case interpreters[b.lang] != nil:
		command := interpreters[b.lang]
		if b.lang == "js" {
			// The packages of node are in the folder of the tests with node-resque.
			back := s.dir
			s.dir = filepath.Join(absolute(root), "test", "interop")
			defer func() { s.dir = back }()
		}
		out, err = s.run(t, command[0], append(slices.Clone(command[1:]), s.here(strings.TrimPrefix(b.text, "<?php")))...)
	case b.lang == "go" && b.is("run"):
		program, err2 := runnable()
		if err2 != nil {
			return "", err2
		}
		out, err = s.run(t, "env", "SNIPPET="+fragmentName(p, b), program)
	case b.lang == "go":
		return "", nil // TestGoBlocks compiles it
	case formats[b.lang] != nil:
		return "", formats[b.lang](t, s, b.text)
	default:
		return "", fmt.Errorf("no rule says how a block of %q is checked; see test/docs", b.lang)
	}
	s.last = out
	return out, err
}

// inBackground starts lines of bash, which later blocks find running.
func (s *scene) inBackground(text string) error {
	cmd, out, err := s.command(context.Background(), "bash", "-c", "BACKGROUND=yes\n"+prelude+s.here(text))
	if err != nil {
		return err
	}
	if err := s.start(cmd); err != nil {
		return err
	}
	s.background = &process{cmd, out, make(chan error, 1)}
	go func(p *process) { p.exited <- p.cmd.Wait() }(s.background)
	return nil
}

// interrupt presses Ctrl-C and waits for the end.
func (s *scene) interrupt() error {
	p := s.background
	if p == nil {
		return errors.New("nothing runs in the background")
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		return err
	}
	select {
	case err := <-p.exited:
		if err != nil {
			return fmt.Errorf("what ran in the background ended with %w:\n%s", err, p.output())
		}
		return nil
	case <-time.After(2 * time.Minute): // a stop alone may take 25 s
		return fmt.Errorf("what runs in the background does not end:\n%s", p.output())
	}
}

// compare compares what a block shows with what the last block printed, or waits until what runs in the
// background has printed it.
func (b item) compare(t *testing.T, s *scene) error {
	if s == nil {
		return errors.New("an output without a block before it")
	}
	if b.directives["output"] == "" {
		if !shows(b.text, s.last) {
			return fmt.Errorf("the page shows\n%s\nand the block before it printed\n%s", b.text, s.last)
		}
		return nil
	}
	if s.background == nil {
		return errors.New("nothing runs in the background")
	}
	end := time.Now().Add(3 * time.Minute)
	for {
		over := time.Now().After(end) || len(s.background.exited) > 0 // before the look: an end comes after what was printed
		if shows(b.text, s.background.output()) {
			return nil
		}
		if over {
			return fmt.Errorf("the page shows\n%s\nand what runs in the background printed\n%s", b.text, s.background.output())
		}
		time.Sleep(20 * time.Millisecond)
	}
}
