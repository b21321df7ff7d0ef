// Program ownparse calls flag.Parse itself; importing the package flags has
// defined goworker's flags.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/goworker/goworker"
	_ "github.com/goworker/goworker/flags"
)

func main() {
	greeting := flag.String("greeting", "hello", "how to greet")
	flag.Parse()

	goworker.Register("Hello", func(queue string, args ...interface{}) error {
		fmt.Printf("%s from %s to %v, arguments %q\n", *greeting, queue, args, flag.Args())
		return nil
	})
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
