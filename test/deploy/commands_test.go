package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// Each process of the Procfile starts, works and stops as Heroku stops it.
func TestProcfile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dir := t.TempDir()
	if err := copyFile(worker(t), filepath.Join(dir, "bin", "worker")); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(read(t, filepath.Join(deploy, "Procfile"))) {
		m := regexp.MustCompile(`^[a-z]+: (\S.*)\n$`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%q is no line of a Procfile", line)
		}
		cmd := exec.Command("bash", "-c", "exec "+m[1])
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "REDIS_URL="+server.URI(), "DYNO=worker.1")
		p := start(t, cmd)
		p.works(server)
		p.stops(syscall.SIGTERM)
	}
}

// composed is what of a compose file is used.
type composed struct {
	Services map[string]struct {
		Image string `json:"image"`
		Build struct {
			Context    string `json:"context"`
			Dockerfile string `json:"dockerfile"`
		} `json:"build"`
		Command         []string          `json:"command"`
		Environment     map[string]string `json:"environment"`
		Restart         string            `json:"restart"`
		StopGracePeriod string            `json:"stop_grace_period"`
		ReadOnly        bool              `json:"read_only"`
		CapDrop         []string          `json:"cap_drop"`
		SecurityOpt     []string          `json:"security_opt"`
		Volumes         []string          `json:"volumes"`
		Healthcheck     struct {
			Test     []string `json:"test"`
			Interval string   `json:"interval"`
		} `json:"healthcheck"`
		DependsOn map[string]struct {
			Condition string `json:"condition"`
		} `json:"depends_on"`
	} `json:"services"`
	Volumes map[string]struct{} `json:"volumes"`
}

// The services of the compose file start, with what stands for their hosts.
func TestCompose(t *testing.T) {
	t.Parallel()
	var c composed
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(deploy, "compose.yaml"))), &c); err != nil {
		t.Fatal(err)
	}
	redis, w := c.Services["redis"], c.Services["worker"]
	if redis.Command[0] != "redis-server" {
		t.Fatalf("Redis is %q", redis.Command)
	}
	server := redistest.Start(t, redis.Command[1:]...)
	check := exec.Command(redis.Healthcheck.Test[1], append([]string{"-u", server.URI()}, redis.Healthcheck.Test[2:]...)...)
	if out, err := check.CombinedOutput(); err != nil || redis.Healthcheck.Test[0] != "CMD" || !strings.Contains(string(out), "PONG") {
		t.Errorf("the check of Redis is %q: %v", out, err)
	}
	if policy := server.List(t, "CONFIG", "GET", "maxmemory-policy"); policy[1] != "noeviction" {
		t.Errorf("Redis has %q", policy)
	}

	if file := filepath.Join(deploy, w.Build.Context, w.Build.Dockerfile); read(t, file) != read(t, filepath.Join(deploy, "Dockerfile")) {
		t.Errorf("the worker is built by %s", file)
	}
	if grace, err := time.ParseDuration(w.StopGracePeriod); err != nil || grace != goworker.StopTime(goworker.WorkerSettings{})+5*time.Second {
		t.Errorf("a worker has %s to stop", w.StopGracePeriod)
	}
	if w.Restart != "always" || w.DependsOn["redis"].Condition != "service_healthy" {
		t.Errorf("the worker is %+v", w)
	}
	host := regexp.MustCompile(`^redis://(\w+):6379/$`).FindStringSubmatch(w.Environment["REDIS_URL"])
	if host == nil || host[1] != "redis" {
		t.Fatalf("the worker's Redis is %q", w.Environment["REDIS_URL"])
	}
	cmd := exec.Command(worker(t), w.Command...)
	cmd.Env = append(os.Environ(), "REDIS_URL="+server.URI())
	p := start(t, cmd)
	p.works(server)
	p.stops(syscall.SIGTERM)
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			if volume, _, _ := strings.Cut(v, ":"); c.Volumes == nil {
				t.Errorf("the service %s uses the volume %s, which is not there", name, volume)
			} else if _, ok := c.Volumes[volume]; !ok {
				t.Errorf("the service %s uses the volume %s, which is not there", name, volume)
			}
		}
	}
}

// The commands of the unit and of the pods are those of the program: it starts with their arguments.
func TestArguments(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	unit := regexp.MustCompile(`(?m)^ExecStart=\S+ (.*)$`).FindStringSubmatch(read(t, filepath.Join(deploy, "systemd", "worker.service")))
	pods := regexp.MustCompile(`(?m)^            - (-.*)$`).FindAllStringSubmatch(read(t, filepath.Join(deploy, "k8s", "deployment.yaml")), -1)
	var ofPods []string
	for _, m := range pods {
		arg := strings.ReplaceAll(m[1], "$(POD_NAME)", "worker-7d9f-x2x")
		ofPods = append(ofPods, strings.ReplaceAll(arg, "=:9400", "=127.0.0.1:0"))
	}
	if len(ofPods) != 4 {
		t.Fatalf("the pods have %q", ofPods)
	}
	for _, args := range [][]string{strings.Fields(unit[1]), ofPods} {
		cmd := exec.Command(worker(t), args...)
		cmd.Env = append(os.Environ(), "REDIS_URL="+server.URI())
		p := start(t, cmd)
		p.prints("started")
		p.works(server)
		p.stops(syscall.SIGTERM)
	}
}
