package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// servePorts are the ports that pages print for goworker serve: for jobs and for the admin pages.
var servePorts = [2]string{"7777", "7778"}

// serverCommand builds the command goworker and returns the directory that it is in. It is a module of its own.
var serverCommand = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "command")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-ldflags=-s", "-o", filepath.Join(dir, "goworker"), ".")
	cmd.Dir = filepath.Join(absolute(root), "cmd", "goworker")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build of cmd/goworker: %w\n%s", err, out)
	}
	return dir, nil
})

// needsServer reports whether a page runs goworker serve, or another of its commands.
func needsServer(p page) bool {
	for _, b := range p.items {
		for line := range strings.Lines(b.text + "\n" + b.directives["setup"]) {
			if b.lang == "sh" && strings.HasPrefix(strings.TrimSpace(line), "goworker ") {
				return true
			}
		}
	}
	return false
}

// serving is the environment in which goworker serve listens on the page's own ports.
func (s *scene) serving() []string {
	if s.binary == "" {
		return nil
	}
	return []string{
		"GOWORKER_HTTP_LISTEN=127.0.0.1:" + strconv.Itoa(s.http[0]),
		"GOWORKER_HTTP_ADMIN_LISTEN=127.0.0.1:" + strconv.Itoa(s.http[1]),
	}
}
