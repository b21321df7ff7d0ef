package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/sdnotify"
)

// root is the repository, and deploy the folder with its files.
const (
	root   = "../.."
	deploy = root + "/deploy"
)

// soon is when a process that hangs fails its test.
const soon = time.Minute

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// process is a program that runs, and what it prints.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan error

	mu  sync.Mutex
	out strings.Builder
}

func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(text)
}

func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// start starts a command. The end of the test kills it, unless it has ended.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = p, p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		p.ended <- <-p.ended
	})
	return p
}

// prints waits until the process has printed what matches, and returns the first group.
func (p *process) prints(pattern string) (group string) {
	p.t.Helper()
	compiled := regexp.MustCompile(pattern)
	redistest.Eventually(p.t, soon, "the program prints "+pattern, func() bool {
		select {
		case err := <-p.ended:
			p.ended <- err
			if !compiled.MatchString(p.printed()) {
				p.t.Fatalf("the program ended (%v) and printed %s", err, p.printed())
			}
		default:
		}
		m := compiled.FindStringSubmatch(p.printed())
		if m == nil {
			return false
		}
		group = m[len(m)-1]
		return true
	})
	return group
}

// stops sends a signal, and wants the program to end well within the time that the files give it.
func (p *process) stops(signal syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	grace := goworker.StopTime(goworker.WorkerSettings{}) + sdnotify.Spare
	select {
	case err := <-p.ended:
		p.ended <- err
		if err != nil {
			p.t.Errorf("the program ends with %v: %s", err, p.printed())
		}
	case <-time.After(grace):
		p.t.Errorf("the program goes on for %s after %s: %s", grace, signal, p.printed())
	}
}

// ends waits for the end of the program, and returns its status.
func (p *process) ends() int {
	p.t.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(soon):
		p.t.Fatalf("the program goes on: %s", p.printed())
		return 0
	}
}

// works pushes a job, and waits until the program has done it.
func (p *process) works(server *redistest.Server) {
	p.t.Helper()
	processed := func() int {
		n, _ := strconv.Atoi(server.Text(p.t, "GET", "resque:stat:processed"))
		return n
	}
	before := processed()
	server.Do(p.t, "SADD", "resque:queues", "mail")
	server.Do(p.t, "RPUSH", "resque:queue:mail", `{"class":"SendMail","args":[{"To":"ada","Subject":"Deployed"},[]]}`)
	p.prints(`mail "Deployed" to ada`)
	redistest.Eventually(p.t, soon, "the job is done", func() bool { return processed() > before })
}

// image is what the Dockerfile builds.
func image(t *testing.T, dir string, args, files map[string]string) (*stage, error) {
	t.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	b := build{context: root, args: args, dir: dir, image: map[string]string{
		"/usr/local/go/lib/time/zoneinfo.zip": filepath.Join(strings.TrimSpace(string(goroot)), "lib", "time", "zoneinfo.zip"),
		"/etc/ssl/certs/ca-certificates.crt":  "/etc/ssl/certs/ca-certificates.crt",
	}}
	for name, file := range files {
		b.image[name] = file
	}
	b.ignored = strings.Fields(read(t, filepath.Join(deploy, "Dockerfile.dockerignore")))
	return b.run(read(t, filepath.Join(deploy, "Dockerfile")))
}

// program is the worker that the Dockerfile builds.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "deploy")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "worker")
	out, err := exec.Command("go", "build", "-C", root, "-trimpath", "-ldflags=-s", "-o", file, "./example/worker").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return file, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if file, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

func worker(t *testing.T) string {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return file
}
