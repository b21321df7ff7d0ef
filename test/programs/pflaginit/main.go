// Program pflaginit has pflag flags and lets goworker.Work parse the command
// line, so that goworker's long flags need only one dash.
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

	goworker.Register("Hello", func(queue string, args ...interface{}) error {
		fmt.Printf("%s from %s to %v, loud %t, arguments %q\n", *greeting, queue, args, *loud, pflag.Args())
		return nil
	})
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
