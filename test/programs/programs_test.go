// Package programs holds small programs that combine goworker's command line
// with their own in each way the documentation describes, and runs them.
package programs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// What stands for the server's URI and for its host and port.
const (
	theURI  = "URI"
	theAddr = "ADDR"
)

func TestPrograms(t *testing.T) {
	t.Parallel()
	dir := build(t)
	for _, tt := range []struct {
		name    string
		program string
		args    string // separated by blanks
		env     []string
		queue   string
		want    []string // in what the program prints
		status  int
		left    int // jobs left in the queue
	}{
		{
			name: "one dash", program: "plain",
			args: "-queues greetings -exit-on-complete -uri=URI", want: []string{"hello from greetings to [world 1]"},
		},
		{
			name: "two dashes", program: "plain",
			args: "--queues=greetings --exit-on-complete --uri URI", want: []string{"hello from greetings to [world 1]"},
		},
		{
			name: "every flag of old", program: "plain",
			args: "-queues=none=2,greetings=1 -interval=0.1 -concurrency=3 -connections=1 -namespace=resque: -use-number -insecure-tls=false -tls-cert= -exit-on-complete=true -uri=URI",
			want: []string{"hello from greetings to [world 1]"},
		},
		{
			name: "REDIS_URL and a pattern", program: "plain", env: []string{"REDIS_URL=URI"},
			args: "-queues=gr*,!others -exit-on-complete", want: []string{"hello from greetings to [world 1]"},
		},
		{
			name: "REDIS_PROVIDER and interval 0", program: "plain", env: []string{"REDIS_PROVIDER=CLOUD", "CLOUD=URI", "REDIS_URL=redis://127.0.0.1:1/"},
			args: "-queues=* -interval=0", want: []string{"hello from greetings to [world 1]"},
		},
		{
			name: "a provider without a value", program: "plain", env: []string{"REDIS_PROVIDER=CLOUD", "REDIS_URL=URI"},
			args: "-queues=greetings -exit-on-complete", want: []string{"hello from greetings to [world 1]"},
		},
		{
			name: "no queues", program: "plain", env: []string{"REDIS_URL=URI"},
			status: 1, left: 1, want: []string{"Error: goworker: you must specify at least one queue"},
		},
		{
			name: "an unknown flag", program: "plain", env: []string{"REDIS_URL=URI"},
			args: "-queues=greetings -bogus=1", status: 1, left: 1, want: []string{"no flag -bogus;", "--exit-on-complete"},
		},
		{
			name: "help", program: "plain", env: []string{"REDIS_URL=redis://:secret@ADDR"},
			args: "-help", left: 1, want: []string{"Usage of", "--queues string", `(default "redis://localhost:6379/")`},
		},
		{
			name: "own flags, parsed by Init", program: "ownflags", env: []string{"REDIS_URL=URI"},
			args: "-greeting=hi -queues greetings -v -uri mine -exit-on-complete a -b",
			want: []string{`hi from greetings to [world 1], loud true, uri "mine", arguments ["a" "-b"]`},
		},
		{
			name: "own flags, two dashes", program: "ownflags", env: []string{"REDIS_URL=URI"},
			args: "--exit-on-complete --greeting hi --queues=greetings --v -- -queues",
			want: []string{`hi from greetings to [world 1], loud true, uri "", arguments ["-queues"]`},
		},
		{
			name: "own flags, help", program: "ownflags", env: []string{"REDIS_URL=URI"},
			args: "-h", left: 1, want: []string{"how to greet", "not Redis's", "--queues string"},
		},
		{
			name: "own flag.Parse", program: "ownparse",
			args: "-exit-on-complete -greeting=hi -uri=URI -queues greetings a",
			want: []string{`hi from greetings to [world 1], arguments ["a"]`},
		},
		{
			name: "own flag.Parse, two dashes", program: "ownparse",
			args: "--use-number --exit-on-complete --uri URI --queues=greetings",
			want: []string{`hello from greetings to [world 1], arguments []`},
		},
		{
			name: "settings", program: "settings", env: []string{"QUEUE_DATABASE=URI"},
			want: []string{"hello from greetings to [world 1]"},
		},
		{
			name: "settings, other flags", program: "settings", env: []string{"QUEUE_DATABASE=URI"},
			args: "serve --port 80 -x", want: []string{"hello from greetings to [world 1]"},
		},
		{
			name: "settings, overridden", program: "settings", env: []string{"QUEUE_DATABASE=redis://127.0.0.1:1/"},
			args: "-uri URI --queues=special", queue: "special", want: []string{"hello from special to [world 1]"},
		},
		{
			name: "settings, queues replaced", program: "settings", env: []string{"QUEUE_DATABASE=URI"},
			args: "-queues=special", left: 1,
		},
		{
			name: "own pflag.Parse", program: "pflagmain",
			args: "-vg hi --exit-on-complete a --queues greetings --uri=URI",
			want: []string{`hi from greetings to [world 1], loud true, arguments ["a"]`},
		},
		{
			name: "pflag flags, parsed by Work", program: "pflaginit",
			args: "-vghi -exit-on-complete a -queues greetings --uri=URI",
			want: []string{`hi from greetings to [world 1], loud true, arguments ["a"]`},
		},
		{
			name: "enqueue only", program: "enqueue", env: []string{"REDIS_URL=URI"},
			args: "serve -port=80 --verbose", left: 2, want: []string{"enqueued"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			conn := server.Dial(t)
			queue := tt.queue
			if queue == "" {
				queue = "greetings"
			}
			do(t, conn, "SADD", "resque:queues", queue)
			do(t, conn, "RPUSH", "resque:queue:"+queue, `{"class":"Hello","args":["world",1]}`)

			fill := strings.NewReplacer(theURI, server.URI(), theAddr, server.Addr)
			var args, env []string
			for _, arg := range strings.Fields(tt.args) {
				args = append(args, fill.Replace(arg))
			}
			for _, variable := range tt.env {
				name, value, _ := strings.Cut(variable, "=")
				env = append(env, name+"="+fill.Replace(value))
			}
			out, status := run(t, env, filepath.Join(dir, tt.program), args...)
			if status != tt.status {
				t.Errorf("exit status %d, want %d", status, tt.status)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("it did not print %s", want)
				}
			}
			if strings.Contains(out, "secret") {
				t.Error("it printed a password")
			}
			if left, err := redis.Int(conn.Do("LLEN", "resque:queue:"+queue)); err != nil || left != tt.left {
				t.Errorf("%d jobs are left (%v), want %d", left, err, tt.left)
			}
			if t.Failed() {
				t.Logf("%s %q printed\n%s", tt.program, args, out)
			}
		})
	}
}

// build builds all programs and returns the folder they are in.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-ldflags=-s", "-o", dir+string(filepath.Separator), "./...")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// run runs a program in an environment without anything goworker reads but what
// is given, and returns what it printed and its exit status.
func run(t *testing.T, env []string, program string, args ...string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "REDIS_") || strings.HasPrefix(variable, "FAILURE_BACKEND=")
	}), env...)
	printed, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("%s: %v\n%s", program, err, printed)
	}
	return string(printed), cmd.ProcessState.ExitCode()
}

func do(t *testing.T, conn redis.Conn, command string, args ...any) {
	t.Helper()
	if _, err := conn.Do(command, args...); err != nil {
		t.Fatal(command, err)
	}
}
