package config_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/config"
	"github.com/goworker/goworker/internal/redistest"
)

// programVariable makes the test binary the program of a test.
const programVariable = "CONFIG_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		if err := program(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.Main(m)
}

// billing is the section of the program.
type billing struct {
	Rate    int
	Timeout time.Duration
	Key     config.Secret
}

func (b *billing) Check() error {
	if b.Rate > 100 {
		return fmt.Errorf("the rate is %d, and the bank takes 100", b.Rate)
	}
	return nil
}

// program is a worker whose jobs say what the section has.
func program() error {
	var section config.Value[billing]
	section.Default.Rate = 1
	section.Changed = func(was, is billing) { fmt.Printf("changed from %d to %d\n", was.Rate, is.Rate) }
	config.Section("billing", &section)
	goworker.Register("Charge", func() (string, error) {
		b := section.Get()
		fmt.Printf("charged at %d within %s by %s\n", b.Rate, b.Timeout, b.Key.Reveal())
		return "", nil
	})
	goworker.Register("Isolated", func() { fmt.Printf("isolated at %d\n", section.Get().Rate) }, goworker.Isolated())
	if runtime.GOOS == "linux" {
		goworker.Register("Kept", func() { fmt.Printf("kept at %d in %d\n", section.Get().Rate, os.Getpid()) }, goworker.Isolated(goworker.Reuse(1000)))
	}
	goworker.Register("Slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	goworker.Default().OnReady(func() { fmt.Println("ready") })
	return goworker.Work()
}
