package docs

import (
	"fmt"
	"os"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// TestMain is also the programs worker and produce of the hidden setups, which begin in the folder standin: a
// daemon with some classes, and a producer.
func TestMain(m *testing.M) {
	switch os.Getenv("DOCS_WORKER") {
	case "":
		redistest.Main(m)
		return
	case "produce":
		if err := produce(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	register()
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
