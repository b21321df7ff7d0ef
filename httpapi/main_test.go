package httpapi_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) {
	if uri := os.Getenv(serverEnv); uri != "" {
		if err := runServer(uri); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.Main(m)
}
