// Command goworker shows and mends what waits in a Resque, and serves its queues over HTTP.
package main

import (
	"os"

	"github.com/goworker/goworker/cmd/goworker/internal/command"
	"github.com/goworker/goworker/cmd/goworker/internal/quiet"
)

func main() {
	quiet.Restore()
	os.Exit(command.Main(os.Args[1:], os.Stdout, os.Stderr))
}
