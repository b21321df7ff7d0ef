// Command goworker is benmanns/goworker with the benchmark's handlers: what a
// program looks like before it changes its import path.
package main

import (
	"fmt"
	"os"

	"github.com/benmanns/goworker"

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
