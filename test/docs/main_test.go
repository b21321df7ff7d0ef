package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// TestMain is also the program worker of the hidden setups, which begins in the folder standin: a daemon with
// some classes.
func TestMain(m *testing.M) {
	if os.Getenv("DOCS_WORKER") == "" {
		redistest.Main(m)
		return
	}
	goworker.Register("Hello", func(name string) { fmt.Println("hello", name) })
	goworker.Register("Report", func(ctx context.Context, account string) error { return wait(ctx) }, goworker.Concurrency(1))
	goworker.Register("Slow", func(ctx context.Context) error { return wait(ctx) })
	goworker.Register("Charge", func(account string) error { return errors.New("the bank does not answer") })
	goworker.Register("Fetch", func(url string) error { return errors.New("no answer") }, goworker.Retry(5))
	goworker.Register("Exit", func() { os.Exit(3) })
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return nil
	}
}
