// Program plain has no flags of its own: goworker.Work parses the command line.
package main

import (
	"fmt"
	"os"

	"github.com/goworker/goworker"
)

func hello(queue string, args ...interface{}) error {
	fmt.Printf("hello from %s to %v\n", queue, args)
	return nil
}

func main() {
	goworker.Register("Hello", hello)
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
