// Command goworker serves Resque's queues over HTTP, and looks after the tokens of its clients.
package main

import (
	"os"

	"github.com/goworker/goworker/cmd/goworker/internal/command"
)

func main() { os.Exit(command.Main(os.Args[1:], os.Stdout, os.Stderr)) }
