package usage

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The limits are those of the process's own group and of all groups around it, whichever is the tightest.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		self, files string
		memory, cpu string
	}{
		"no groups":       {"", "", "", ""},
		"a container":     {"0::/\n", "memory.max 512 cpu.max 150000_100000", "512", "150000 100000"},
		"without a limit": {"0::/\n", "memory.max max cpu.max max_100000", "max", "max 100000"},
		"a service of systemd": {"0::/system.slice/worker.service\n",
			"system.slice/worker.service/memory.max 1024 system.slice/memory.max max system.slice/worker.service/cpu.max max_100000", "1024", "max 100000"},
		"the slice is tighter": {"0::/system.slice/worker.service\n",
			"system.slice/worker.service/memory.max 1024 system.slice/memory.max 900 system.slice/worker.service/cpu.max 50000_100000 system.slice/cpu.max 20000_50000", "900", "20000 50000"},
		"another's group":          {"0::/a\n", "b/memory.max 1 memory.max 7", "7", ""},
		"a path outside":           {"0::/../../b\n", "b/memory.max 3", "3", ""},
		"both versions":            {"5:memory:/x\n0::/y\n", "x/memory.max 1 y/memory.max 2", "2", ""},
		"what the mount lacks":     {"0::/kubepods/pod1\n", "memory.max 8 cpu.max 1000_100000", "8", "1000 100000"},
		"what is no number at all": {"0::/a\n", "a/memory.max max a/cpu.max x_y memory.max 9 cpu.max 100_0", "9", "x y"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "self"), tc.self)
			files := strings.Fields(tc.files)
			for n := 0; n < len(files); n += 2 {
				write(t, filepath.Join(dir, "mount", files[n]), strings.ReplaceAll(files[n+1], "_", " ")+"\n")
			}
			if memory, cpu := limits(filepath.Join(dir, "self"), filepath.Join(dir, "mount")); memory != tc.memory || cpu != tc.cpu {
				t.Errorf("%q and %q, want %q and %q", memory, cpu, tc.memory, tc.cpu)
			}
		})
	}
	if memory, cpu := limits("/nowhere", "/nowhere"); memory+cpu != "" {
		t.Errorf("without the files: %q and %q", memory, cpu)
	}
}

func TestResident(t *testing.T) {
	t.Parallel()
	if rss := Resident(); rss < 1<<20 && runtime.GOOS == "linux" {
		t.Errorf("this process has %d bytes", rss)
	}
	if rss := resident("/nowhere"); rss != 0 {
		t.Errorf("where the system does not say, it has %d bytes", rss)
	}
}

// Only memory that is above the limit in three looks one after another counts, and it counts once.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		looks string // a letter each: above, not above
		after int    // in which look it counts; 0: in none
	}{
		"below":          {"nnnnnnnn", 0},
		"above":          {"aaaaaaaa", 3},
		"for a moment":   {"aanaanna", 0},
		"after a moment": {"aanaaaan", 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				looks, counted := 0, 0
				var log bytes.Buffer
				most := new(atomic.Int64)
				most.Store(2 << 20)
				p := watch(clock.System, slog.New(slog.NewTextHandler(&log, nil)), func() int64 {
					looks++
					if tc.looks[(looks-1)%len(tc.looks)] == 'a' {
						return 3 << 20
					}
					return 2 << 20
				}, most, func(rss int64) {
					if counted++; rss != 3<<20 || looks != tc.after {
						t.Errorf("%d bytes in look %d", rss, looks)
					}
				})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- p.Run(ctx) }()
				time.Sleep(8*Every - 1)
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if want := min(1, tc.after); counted != want || strings.Count(log.String(), "stays above MaxRSS") != want || want == 0 && looks != 8 {
					t.Errorf("it counted %d times in %d looks:\n%s", counted, looks, &log)
				}
			})
		})
	}
}

func TestWatchSaysHowMuch(t *testing.T) {
	t.Parallel()
	most := new(atomic.Int64)
	most.Store(1 << 62)
	p := Watch(clock.System, nil, most, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil || !strings.HasSuffix(p.Info().(string), " MiB, at most 4398046511104.0 MiB") {
		t.Errorf("%v, %v", err, p.Info())
	}
}
