// Program pflagmain has pflag flags, adds goworker's to them and parses all.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/goworker/goworker"
)

func main() {
	greeting := pflag.StringP("greeting", "g", "hello", "how to greet")
	loud := pflag.BoolP("verbose", "v", false, "greet loudly")
	pflag.CommandLine.AddFlagSet(goworker.Flags())
	pflag.Parse()

	goworker.Register("Hello", func(queue string, args ...interface{}) error {
		fmt.Printf("%s from %s to %v, loud %t, arguments %q\n", *greeting, queue, args, *loud, pflag.Args())
		return nil
	})
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
