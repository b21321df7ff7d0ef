// Program chaos attacks real worker processes and real Redis servers, counts every job
// by its id, and shows that none is lost. It runs in its own folder:
//
//	go run .                                   every fault once
//	go run . -duration=1h                      the same, then many at once for an hour
//	go run . -faults=kill -kills=1000 -jobs=1000000 -workers=10
//
// It exits with status 1 if a job was lost, if one ran twice without a reason that is
// allowed, or if anything else is not as it must be.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	if err := attack(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

var errBad = errors.New("not all is as it must be; see above")

func attack() error {
	var opts options
	names := flag.String("faults", "all", "which faults, separated by commas, by name or as F1, F2, …; see -list")
	list := flag.Bool("list", false, "say which faults there are")
	out := flag.String("out", "", "write the table as Markdown to this file, between its marks if it has them")
	atOnce := flag.Int("parallel", 6, "how many faults at once, each with a Redis of its own")
	flag.Uint64Var(&opts.seed, "seed", rand.Uint64N(1<<32), "of all that is random")
	flag.IntVar(&opts.kills, "kills", 20, "how often the fault kill kills")
	flag.IntVar(&opts.jobs, "jobs", 6000, "how many jobs the fault kill has")
	flag.IntVar(&opts.workers, "workers", 5, "how many processes work in kill and mixed")
	flag.DurationVar(&opts.duration, "duration", 0, "how long to go on with many faults at once when each was tried")
	flag.BoolVar(&opts.keep, "keep", false, "keep the ledgers of good runs too")
	flag.BoolVar(&opts.short, "short", false, "try one short case of the faults that take minutes, as make test does")
	flag.Parse()
	if *list {
		for _, f := range faults {
			fmt.Printf("%-16s %s\n", f.name, f.title)
		}
		fmt.Print(elsewhere)
		return nil
	}
	chosen, err := choose(*names, opts.duration > 0)
	if err != nil {
		return err
	}
	cleanup, err := opts.prepare()
	if err != nil {
		return err
	}
	defer cleanup()
	fmt.Printf("seed %d\n%s", opts.seed, titles())
	rows := runAll(opts, chosen, *atOnce)
	total := newResult()
	for _, r := range rows {
		total.add(r)
	}
	if *out != "" {
		how := fmt.Sprintf("`go run . %s`, seed %d, %s, %d processors, %s:", strings.Join(os.Args[1:], " "), opts.seed,
			time.Now().Format("2 January 2006"), runtime.NumCPU(), runtime.Version())
		if err := writeTable(*out, markdown(rows, total, how)); err != nil {
			return err
		}
	}
	fmt.Println(total.sum())
	if total.bad() {
		return errBad
	}
	return nil
}

// choose finds faults by their names or their numbers in the catalogue.
func choose(names string, long bool) (chosen []fault, err error) {
	for _, name := range strings.Split(names, ",") {
		found := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
			if name == "all" {
				return f.long && !long
			}
			return f.name != name && !strings.HasPrefix(f.title, name+":")
		})
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no fault %q; -list says which there are", name)
		}
		chosen = append(chosen, found...)
	}
	return chosen, nil
}

// runAll runs the faults, several at once, but the long ones alone, and prints each
// row as soon as it is there.
func runAll(opts options, chosen []fault, atOnce int) []result {
	rows := make([]result, len(chosen))
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(1, atOnce))
	for i, f := range chosen {
		if f.long {
			wg.Wait()
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r := f.run(opts)
			r.name, r.title = f.name, f.title
			mu.Lock()
			defer mu.Unlock()
			rows[i] = r
			fmt.Print(r.row())
		})
	}
	wg.Wait()
	return rows
}

// The marks between which a file holds the table.
const (
	tableBegins = "<!-- chaos: begin -->\n"
	tableEnds   = "<!-- chaos: end -->\n"
)

// writeTable replaces what stands between the marks, or the whole file.
func writeTable(path, table string) error {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	before, rest, begins := strings.Cut(string(old), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if begins && ends {
		table = before + tableBegins + table + tableEnds + after
	}
	return os.WriteFile(path, []byte(table), 0o644)
}
