// Program ownflags has flags of its own, among them one that goworker has too,
// and lets goworker.Init parse the command line.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/goworker/goworker"
)

func main() {
	greeting := flag.String("greeting", "hello", "how to greet")
	loud := flag.Bool("v", false, "greet loudly")
	uri := flag.String("uri", "", "a URI that is not Redis's")

	if err := goworker.Init(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	defer goworker.Close()
	goworker.Register("Hello", func(queue string, args ...interface{}) error {
		fmt.Printf("%s from %s to %v, loud %t, uri %q, arguments %q\n", *greeting, queue, args, *loud, *uri, flag.Args())
		return nil
	})
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
