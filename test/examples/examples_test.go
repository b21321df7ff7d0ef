// Package examples runs the programs of the folder example as a reader would.
package examples

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// welcomeJob is what Rails writes for
//
//	WelcomeJob.perform_later(User.find(1), :newcomer, at: Time.utc(2026, 11, 21))
const welcomeJob = `{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"WelcomeJob",` +
	`"job_id":"0f2a","queue_name":"mailers","arguments":[{"_aj_globalid":"gid://shop/User/1"},` +
	`{"_aj_serialized":"ActiveJob::Serializers::SymbolSerializer","value":"newcomer"},` +
	`{"at":{"_aj_serialized":"ActiveJob::Serializers::TimeWithZoneSerializer","value":"2026-11-21T01:00:00.000000000+01:00","time_zone":"Berlin"},` +
	`"_aj_ruby2_keywords":["at"]}],"executions":0}]}`

// programs is the folder the programs are in.
var programs string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "examples")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	dir += string(filepath.Separator)
	examples := exec.Command("go", "build", "-ldflags=-s", "-o", dir, "../../example/...")
	command := exec.Command("go", "build", "-ldflags=-s", "-o", dir, ".")
	command.Dir = filepath.Join("..", "..", "cmd", "goworker")
	for _, cmd := range []*exec.Cmd{examples, command} {
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
	}
	programs = dir
	return m.Run()
}

func TestExamples(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args string   // separated by blanks
		jobs []string // queue and payload, in turn; without any, the enqueue example's
		want []string // in what it prints
	}{
		{
			name: "hello", args: "-queues=hello",
			want: []string{"Hello from queue hello with [world 1]"},
		},
		{
			name: "typed", args: "-queues=mail,images",
			want: []string{
				`SendMail from queue mail: "Welcome" to ann@example.com with [terms.pdf]`,
				"Thumbnail of cat.png, 320 by 240 pixels",
			},
		},
		{
			name: "middleware", args: "-queues=reports",
			want: []string{
				"result 2026-10 from archive, error <nil>", "hook: Report is done",
				`error a month looks like 2026-10, not like "October"`, "hook: Report failed: a month", "hook: stopping",
			},
		},
		{
			name: "limits", args: "-queues=calls,reports",
			jobs: []string{"calls", `{"class":"Call","args":["acme","/x"]}`, "reports", `{"class":"Report","args":["acme",10]}`},
			want: []string{"call for acme to /x", "report of acme for month 10"},
		},
		{
			name: "flags", args: "-greeting=Ahoy -times=2 -queues=hello",
			want: []string{"Ahoy, world!\nAhoy, world!\n"},
		},
		{
			name: "activejob", args: "-queues=mailers", jobs: []string{"mailers", welcomeJob},
			want: []string{"job 0f2a, attempt 1: welcome User 1 of shop as newcomer at 2026-11-21T00:00:00Z"},
		},
		{
			name: "isolated", args: "-queues=risky",
			want: []string{
				`done: "cat.tiff.png"`, "failed: the child process of Convert exited with status 9 before the handler returned",
				"failed: Convert reached its hard time limit of 15s", "MiB of memory, more than its limit of 256.0 MiB, and were killed",
			},
		},
		{
			name: "unique", args: "-queues=unique", jobs: []string{"unique", `{"class":"Report","args":["May"]}`},
			want: []string{
				"refused: there is a job for it in unique\nrefused: there is a job for it in unique\n",
				"report of October", `document 7 is "Word"`, "remember the meeting today", "too late to remember the meeting yesterday",
			},
		},
		{
			name: "longjob", args: "-queues=imports", jobs: []string{"imports", `{"class":"Import","args":["users.csv"],"id":"import-7"}`},
			want: []string{"announced the import of users.csv\n", "goes on behind row 150\nimported 300 rows of users.csv, ticket 24\n"},
		},
		{
			name: "searchindex", args: "-queues=search", jobs: []string{"search", `{"class":"Index","args":["books",7,8]}`},
			want: []string{"books: one request with 5 documents: [3 4 5 6 7]", "argument 2 of Index is"},
		},
		{
			name: "define", args: "-queues=mail,images", jobs: []string{"mail", `{"class":"SendMail","args":[{"to":"","subject":"Hi"}]}`},
			want: []string{
				`"Welcome" to ann@example.com`, "SendMail is done: <nil>", "Thumbnail is done: {320 240}", "the mail has no recipient",
				"goworker: this job of class Thumbnail is unique",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			if tt.jobs == nil {
				finish(t, program(t, server, "enqueue"))
			}
			for push := range slices.Chunk(tt.jobs, 2) {
				server.Do(t, "SADD", "resque:queues", push[0])
				server.Do(t, "RPUSH", "resque:queue:"+push[0], push[1])
			}
			args := append(strings.Fields(tt.args), "-exit-on-complete", "-interval=0.1")
			out := finish(t, program(t, server, tt.name, args...))
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("it did not print %q but\n%s", want, out)
				}
			}
		})
	}

	t.Run("retries", func(t *testing.T) {
		t.Parallel()
		cmd := program(t, redistest.Start(t), "retries", "-queues=payments")
		read, write := io.Pipe()
		cmd.Stdout, cmd.Stderr = write, write
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan error, 1)
		go func() {
			exited <- cmd.Wait()
			_ = write.Close()
		}()
		left := []string{
			"hook: attempt 1 failed (the bank asks", "alice has paid at attempt 2; 4 retries were left",
			"hook: given up: paying for bob: the card was declined", "hook: dropped: this payment was made before",
		}
		for lines := bufio.NewScanner(read); lines.Scan(); {
			before := len(left)
			left = slices.DeleteFunc(left, func(want string) bool { return strings.HasPrefix(lines.Text(), want) })
			if before > 0 && len(left) == 0 {
				_ = cmd.Process.Signal(syscall.SIGTERM)
			}
		}
		if err := <-exited; err != nil || len(left) > 0 {
			t.Errorf("it ended with %v and never printed %q", err, left)
		}
	})

	t.Run("shards", func(t *testing.T) {
		t.Parallel()
		cmd := program(t, nil, "shards")
		cmd.Env = append(cmd.Env, "MAIL_REDIS="+redistest.Start(t).URI(), "VIDEO_REDIS="+redistest.Start(t).URI())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		left := []string{"mail says hello", "video says hello"}
		for lines := bufio.NewScanner(out); len(left) > 0 && lines.Scan(); {
			left = slices.DeleteFunc(left, func(want string) bool { return lines.Text() == want })
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil || len(left) > 0 {
			t.Errorf("it ended with %v and never printed %q", err, left)
		}
	})

	t.Run("delayed", func(t *testing.T) {
		t.Parallel()
		out := finish(t, program(t, redistest.Start(t), "delayed"))
		for _, want := range []string{
			`delayed: Remind ["Ann"] in `, `delayed: Remind ["Dot"] in 24h0m0s`, "cancelled for Cid: 1",
			"not waiting any longer for Bob: 1", "sooner for Dot: 1", "time to call Ann", "time to call Bob", "time to call Dot",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("it did not print %q but\n%s", want, out)
			}
		}
	})

	t.Run("results", func(t *testing.T) {
		t.Parallel()
		out := finish(t, program(t, redistest.Start(t), "results"))
		if first, second := "watched: running, 1 of 3, 1 so far", "watched: running, 2 of 3, 3 so far"; !strings.Contains(out, first) && !strings.Contains(out, second) { // on a busy machine one of them may be missed
			t.Errorf("it printed neither %q nor %q but\n%s", first, second, out)
		}
		for _, want := range []string{
			"watched: done, 3 of 3, 6 so far", "awaited: 9", "failed: there is nothing to add",
			"of class Sum in queue numbers: the job was cancelled",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("it did not print %q but\n%s", want, out)
			}
		}
	})

	t.Run("calling", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{nil, {"-uri=" + redistest.Start(t).URI()}} {
			out := finish(t, program(t, nil, "calling", args...))
			for _, want := range []string{
				"three tea cost 1350\n", "refused: goworker: Call: shop.Price takes (string, int); argument 2 is a string\n",
				"by its old name: 1 cup for 12.00\n", "shipped: 3 tea for 13.50\n",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("it did not print %q but\n%s", want, out)
				}
			}
		}
	})

	for _, where := range []string{"embedded", "real"} {
		t.Run("workflows/"+where, func(t *testing.T) {
			t.Parallel()
			var args []string
			if where == "real" {
				args = append(args, "-uri="+redistest.Start(t).URI())
			}
			out := finish(t, program(t, nil, "nightly", args...))
			for _, want := range []string{
				"read: the archive is away", "mail to boss@example.com: 2026-03-01: 3 sales, 505 in all",
				"the workflow failed in Read: there are no sales", "alert: no report of 2026-02-30: Read: there are no sales",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("nightly did not print %q but\n%s", want, out)
				}
			}
			sheet := filepath.Join(t.TempDir(), "sheet.png")
			out = finish(t, program(t, nil, "pipeline", append(args, "-pictures=3", "-out="+sheet)...))
			for _, want := range []string{"fetched picture 2", "strip 1 has 3 sizes", "the sheet has 3 strips", "made " + sheet} {
				if !strings.Contains(out, want) {
					t.Errorf("pipeline did not print %q but\n%s", want, out)
				}
			}
			if _, err := os.Stat(sheet); err != nil {
				t.Error(err)
			}
		})
	}

	t.Run("daemon", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		cmd := program(t, server, "daemon")
		read, write := io.Pipe()
		cmd.Stdout, cmd.Stderr = write, write
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		finish(t, program(t, server, "enqueue"))

		exited := make(chan error, 1)
		go func() {
			exited <- cmd.Wait()
			_ = write.Close()
		}()
		left := []string{"mail server: connected", "images: ready", `mail server: "Welcome" to ann@example.com`, "images: cat.png, 320 by 240 pixels"}
		after := []string{"images: not ready any more", "mail server: closed"}
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if i := slices.Index(left, lines.Text()); i >= 0 {
				if left = slices.Delete(left, i, i+1); len(left) == 0 {
					_ = cmd.Process.Signal(syscall.SIGTERM)
				}
			} else if i := slices.Index(after, lines.Text()); i >= 0 && len(left) == 0 {
				after = slices.Delete(after, i, i+1)
			}
		}
		if err := <-exited; err != nil || len(left)+len(after) > 0 {
			t.Errorf("it ended with %v and never printed %q", err, append(left, after...))
		}
	})
}

// The web server enqueues, refuses a duplicate, tells its users when Redis is away, and ends in order.
func TestClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	wrong := program(t, nil, "client", "-addr=localhost:0")
	wrong.Env = append(wrong.Env, "REDIS_URL=http://localhost")
	if out, err := wrong.CombinedOutput(); err == nil || wrong.ProcessState.ExitCode() != 1 {
		t.Errorf("with a wrong URI it ended with %v:\n%s", err, out)
	}

	cmd := program(t, server, "client", "-addr=localhost:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("it began with %q, %v", line, err)
	}
	signUp := func() int {
		r, err := http.NewRequest(http.MethodPost, "http://"+addr+"/signup?mail=ann@example.com", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Tenant", "acme")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	again := func() (status int, tries int) { // on a busy machine Redis may take longer than the second that a user waits
		for tries = 1; tries <= 60; tries++ {
			if status = signUp(); status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout {
				break
			}
		}
		return status, tries
	}
	first, tries := again()
	if second, _ := again(); first != http.StatusAccepted && (first != http.StatusConflict || tries == 1) || second != http.StatusConflict {
		t.Errorf("it answered %d and %d", first, second)
	}
	if n := server.Int(t, "LLEN", "resque:queue:mail"); n != 1 {
		t.Errorf("it enqueued %d jobs", n)
	}
	if job := server.Text(t, "LINDEX", "resque:queue:mail", 0); !strings.Contains(job, `"meta":{"tenant":"acme"}`) {
		t.Errorf("it enqueued %s", job)
	}
	worker := finish(t, program(t, server, "typed", "-queues=mail", "-exit-on-complete", "-interval=0.1"))
	if want := `SendMail from queue mail: "Welcome" to ann@example.com with [terms.pdf]`; !strings.Contains(worker, want) {
		t.Errorf("the worker did not print %q but\n%s", want, worker)
	}
	server.Stop()
	if status := signUp(); status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout {
		t.Errorf("without Redis it answered %d", status)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error("it ended with", err)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"embedded", "real"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			args, runs := []string{"-jobs=1000", "-command=" + filepath.Join(programs, "goworker")}, 1
			var server *redistest.Server
			if where == "real" {
				// It keeps what the first run leaves: the second must not be misled.
				server, runs = redistest.Start(t), 2
				args = append(args, "-uri="+server.URI())
			}
			for n := range runs {
				cmd := program(t, server, "demo", args...)
				cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
				out := finish(t, cmd)
				for _, want := range []string{
					"$ goworker status\ngoworker-demo: at ", fmt.Sprintf("processed %d,%03d ", 1017*(n+1)/1000, 1017*(n+1)%1000),
					"1,000 jobs for 25 workers, on ",
					"18 jobs have failed:", "10 x ChargeCard", "5 x Audit", "2 x ImportRow", "1 x InvalidPayload",
					"1,017 processed, 19 failures, 0 waiting",
					"Resque.enqueue(Hello", "Resque::enqueue(", "queue.enqueue(",
				} {
					if !strings.Contains(out, want) {
						t.Errorf("it did not print %q but\n%s", want, out)
					}
				}
				for class, want := range map[string]string{ // processed, failed, retried, cured
					"Ping": "701 0 0 0", "SendMail": "199 0 0 0", "ChargeCard": "60 10 10 10", "Thumbnail": "40 0 0 0",
					"Audit": "10 5 5 5", "ImportRow": "6 4 2 0", "InvalidPayload": "1 1 0 0", "all": "1,017 20 17 15",
				} {
					if got := row(out, class); got != want {
						t.Errorf("the row of %s begins with %q, want %q", class, got, want)
					}
				}
			}
		})
	}
}

// row returns the first four figures of a row of the demo's table.
func row(out, class string) string {
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) == 10 && fields[0] == class {
			return strings.Join(fields[1:5], " ")
		}
	}
	return ""
}

// program is one of them, with the address of Redis in its environment. It is killed
// if it does not end by itself.
func program(t *testing.T, server *redistest.Server, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(programs, name), args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "REDIS_") || strings.HasPrefix(variable, "FAILURE_BACKEND=")
	})
	if server != nil {
		cmd.Env = append(cmd.Env, "REDIS_URL="+server.URI())
	}
	return cmd
}

// finish runs a program to its end, which is to be a good one, and returns what it
// printed.
func finish(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}
