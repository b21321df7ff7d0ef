// Command ours is this module with the benchmark's handlers: the same program
// as the goworker contender, after the import path has changed.
package main

import (
	"fmt"
	"os"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

func main() {
	p := probe.New()
	for class, handler := range p.Handlers() {
		goworker.Register(class, handler)
	}
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	p.Close()
}
