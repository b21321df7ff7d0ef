package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/config"
)

// A file with mistakes is refused, and each is said with its line and column.
func ExampleUse() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "worker.yaml")
	_ = os.WriteFile(path, []byte("queues: [mail]\nconcurency: 5\nbilling:\n  rate: ten\n"), 0o600)

	d := goworker.New(goworker.WorkerSettings{})
	var billing struct{ Rate int }
	config.Use(d, config.Path(path)).Section("billing", &billing)
	var wrong *config.Error
	if errors.As(d.Init(), &wrong) {
		for _, m := range wrong.Mistakes {
			fmt.Println(strings.TrimPrefix(m.String(), dir+"/"))
		}
	}
	// Output:
	// worker.yaml:2:1: unknown key concurency; did you mean concurrency?
	// worker.yaml:4:9: rate is "ten": it must be a whole number
}

// A Value has what the file says, also after it was read again; without a file it is the default.
func ExampleValue() {
	billing := config.Value[struct{ Rate int }]{Default: struct{ Rate int }{Rate: 3}}
	d := goworker.New(goworker.WorkerSettings{QueuesString: "mail"})
	config.Use(d).Section("billing", &billing)
	fmt.Println(billing.Get().Rate)
	// Output: 3
}
