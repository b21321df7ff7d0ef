package deploy

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"crypto/x509"

	"github.com/goworker/goworker/internal/redistest"
)

// contained returns a command that runs in the file system of a stage alone, as its user, with the environment of the image. Without root
// it is another user's in a namespace, in which it seems to be root.
func (s *stage) contained(args []string, env ...string) *exec.Cmd {
	all := slices.Concat(s.entry, args)
	cmd := &exec.Cmd{Path: all[0], Args: all, Dir: "/", Env: append(slices.Clone(s.env), env...)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: s.dir}
	uid, gid, _ := strings.Cut(s.user, ":")
	u, _ := strconv.Atoi(uid)
	g, _ := strconv.Atoi(gid)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u), Gid: uint32(g)}
	} else {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

// open lets every user pass through the folders above the stage.
func open(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// The image of the Dockerfile, line by line: the program in it starts, knows zones, verifies Redis by the authorities of the image, answers
// probes, works, and stops by the image's signal.
func TestImage(t *testing.T) {
	t.Parallel()
	authority := redistest.NewAuthority(t)
	authority.Issue(t, "server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	authorities := filepath.Join(t.TempDir(), "authorities")
	if err := os.WriteFile(authorities, []byte(read(t, "/etc/ssl/certs/ca-certificates.crt")+read(t, authority.Crt("ca"))), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := image(t, t.TempDir(), nil, map[string]string{"/etc/ssl/certs/ca-certificates.crt": authorities})
	if err != nil {
		t.Fatal(err)
	}
	open(t, s.dir)
	if err := os.Chmod(filepath.Join(s.dir, "etc/ssl/certs/ca-certificates.crt"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s.base != "scratch" || s.user != "65532:65532" {
		t.Errorf("the image is of %s and runs as %q", s.base, s.user)
	}
	stop := unix.SignalNum(s.signal)
	if stop != syscall.SIGTERM {
		t.Errorf("it is stopped by %q", s.signal)
	}

	tlsAddr, server := authority.Start(t, "server", "no")
	args := []string{"-queues=critical,mail,low", "-health=127.0.0.1:0"}
	secret := "REDIS_URL=rediss://" + tlsAddr
	p := start(t, s.contained(args, secret))
	address := p.prints(`probes are answered at (http://\S+)`)
	p.works(server)
	for _, path := range []string{"/startupz", "/readyz", "/healthz"} {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = r.Body.Close(); r.StatusCode != http.StatusOK {
			t.Errorf("%s is %s", path, r.Status)
		}
	}
	p.stops(stop)
	if n := server.Int(t, "SCARD", "resque:workers"); n > 0 {
		t.Errorf("%d workers stay", n)
	}

	// What the image has is what it needs: without it the program says what is missing.
	for file, want := range map[string]string{
		"etc/ssl/certs/ca-certificates.crt": "certificate",
		"usr/share/zoneinfo.zip":            "Europe/Berlin",
	} {
		hidden := filepath.Join(s.dir, "hidden")
		if err := os.Rename(filepath.Join(s.dir, file), hidden); err != nil {
			t.Fatal(err)
		}
		p := start(t, s.contained(args, secret))
		if status := p.ends(); status != 1 || !strings.Contains(p.printed(), want) {
			t.Errorf("without %s it ends with %d: %s", file, status, p.printed())
		}
		if err := os.Rename(hidden, filepath.Join(s.dir, file)); err != nil {
			t.Fatal(err)
		}
	}
}

// The Go of the image compiles this module, and each line that is not understood, or that would put a shell before the program, fails.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := read(t, filepath.Join(deploy, "Dockerfile"))
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, filepath.Join(root, "go.mod")))[1]
	if !strings.Contains(text, "FROM golang:"+version+" AS build\n") {
		t.Errorf("it does not build with Go %s, which go.mod asks for", version)
	}
	for _, wrong := range []string{
		"HEALTHCHECK CMD curl localhost", "FROM scratch\nENTRYPOINT /program", "FROM alpine", "FROM golang:1.25\nRUN apt-get install curl", "FROM scratch\nRUN go version",
		"FROM scratch\nCOPY --from=build /a /b", "FROM scratch\nADD . .", "USER 1", "FROM scratch\nVOLUME /data", "FROM scratch\nCOPY missing.txt /",
	} {
		b := build{context: root, dir: t.TempDir()}
		if _, err := b.run(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
	if strings.Contains(text, "HEALTHCHECK") {
		t.Error("it has a HEALTHCHECK")
	}
}

// The same file builds the operator's command, for the exporter.
func TestImageOfTheCommand(t *testing.T) {
	t.Parallel()
	s, err := image(t, t.TempDir(), map[string]string{"MODULE": "cmd/goworker", "PROGRAM": "."}, nil)
	if err != nil {
		t.Fatal(err)
	}
	open(t, s.dir)
	p := start(t, s.contained([]string{"version"}))
	if status := p.ends(); status != 0 || !strings.Contains(p.printed(), "go") {
		t.Errorf("it ends with %d: %s", status, p.printed())
	}
}
