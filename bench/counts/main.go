// Command counts tells regressions of the hot path from the noise of the machine: it
// counts the instructions of benchmarks under valgrind. Start it in bench/:
//
//	go run ./counts          # fails where a count is more than 3 % above the recorded one
//	go run ./counts -record  # writes counts/counts.json
//
// A benchmark runs with two numbers of iterations; the difference, by iteration, is
// free of the program's start. The collector is off, and what the processor offers
// beyond its base is not used, so that a count depends on the code, on Go and on
// GOARCH only. With another Go or GOARCH than recorded there is nothing to compare:
// the command says so and does not fail.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

const (
	file = "counts/counts.json"
	gate = 1.03

	few = 500 // iterations of the first of a row's two runs
)

// counted are the rows. A row keeps its name, and with it its count, when its benchmark
// moves: then only the folder, seen from the module's root, and the benchmark change here.
// The second run of a row has so many iterations more that two counts of the same code
// differ by about one per cent at most.
var counted = []struct {
	row, dir, benchmark string
	more                int
}{
	{"parse a payload", "internal/payload", "ParsePayload/44B", 20_000},
	{"exchange 1 job", "internal/resque", "Exchange/1", 5_000},
	{"exchange 100 jobs", "internal/resque", "Exchange/100", 2_000},
	{"call a handler", ".", "Perform/context_string_int", 10_000},
	{"run a job, 1 worker", ".", "Daemon/lockstep/1", 6_000},
	{"run a job, 25 workers", ".", "Daemon/lockstep/25", 10_000},
	{"fail a job, 1 worker", ".", "Daemon/failing/1", 4_000},
	{"fail a job, 25 workers", ".", "Daemon/failing/25", 6_000},
}

type recorded struct {
	Go     string           `json:"go"` // without its patch release
	Arch   string           `json:"arch"`
	Counts map[string]int64 `json:"instructions"` // per iteration
}

func main() {
	record := flag.Bool("record", false, "write the counts instead of comparing with them")
	flag.Parse()
	if err := run(*record); err != nil {
		fmt.Fprintln(os.Stderr, "counts:", err)
		os.Exit(1)
	}
}

func run(record bool) error {
	parts := strings.SplitN(runtime.Version(), ".", 3)
	now := recorded{Go: strings.Join(parts[:min(2, len(parts))], "."), Arch: runtime.GOARCH, Counts: make(map[string]int64)}
	var old recorded
	if !record {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &old); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if old.Go != now.Go || old.Arch != now.Arch {
			fmt.Printf("Nothing is compared: the counts are of %s on %s, and this is %s on %s. Record them with -record.\n", old.Go, old.Arch, now.Go, now.Arch)
			return nil
		}
	}
	dir, err := os.MkdirTemp("", "counts")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	built := make(map[string]string)
	worse := 0
	for _, c := range counted {
		if built[c.dir] == "" {
			binary := filepath.Join(dir, fmt.Sprint(len(built)))
			build := exec.Command("go", "test", "-c", "-o", binary, ".")
			build.Dir = filepath.Join("..", c.dir)
			if out, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("building the benchmarks of %s: %w\n%s", c.dir, err, out)
			}
			built[c.dir] = binary
		}
		n, err := perIteration(built[c.dir], c.dir, c.benchmark, c.more)
		if err != nil {
			return fmt.Errorf("%s (%s): %w", c.row, c.benchmark, err)
		}
		now.Counts[c.row] = n
		was, ok := old.Counts[c.row]
		switch {
		case record:
			fmt.Printf("%-30s %8d\n", c.row, n)
		case !ok:
			return fmt.Errorf("%s has no recorded count; record it with -record", c.row)
		default:
			fmt.Printf("%-30s %8d  %+5.1f %%\n", c.row, n, 100*(float64(n)/float64(was)-1))
			if float64(n) > gate*float64(was) {
				worse++
			}
		}
	}
	if worse > 0 {
		return fmt.Errorf("%d of %d take over 3 %% more instructions than recorded; mend it, or record the new counts with -record and say why", worse, len(counted))
	}
	if !record {
		return nil
	}
	text, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func perIteration(binary, dir, name string, more int) (int64, error) {
	low, err := total(binary, dir, name, few)
	if err != nil {
		return 0, err
	}
	high, err := total(binary, dir, name, few+more)
	return (high - low) / int64(more), err
}

var collected = regexp.MustCompile(`Collected : (\d+)`)

// total counts a whole run of a benchmark's binary.
func total(binary, dir, name string, iterations int) (int64, error) {
	pattern := "^Benchmark" + strings.ReplaceAll(name, "/", "$/^") + "$"
	cmd := exec.Command("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", binary,
		"-test.run=^$", "-test.bench="+pattern, fmt.Sprintf("-test.benchtime=%dx", iterations))
	cmd.Dir = filepath.Join("..", dir)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1,cpu.all=off")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return 0, errors.New("valgrind is not installed; make bench-check installs it")
	}
	found := collected.FindSubmatch(out)
	if err != nil || found == nil || !strings.Contains(string(out), "ns/op") {
		return 0, fmt.Errorf("the benchmark did not run under valgrind (%v):\n%s", err, out)
	}
	return strconv.ParseInt(string(found[1]), 10, 64)
}
