// Flags has command line flags of its own beside goworker's. Define them before
// Init, Work or the first Enqueue, which parses both:
//
//	go run ./example/flags -greeting=Ahoy -queues=hello -concurrency=5
//	go run ./example/flags -help
//
// Nothing is defined by importing goworker. A program that calls flag.Parse
// itself imports github.com/goworker/goworker/flags as well, and one that uses
// pflag or cobra adds goworker.Flags() to its set.
package main

import (
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/goworker/goworker"
)

func main() {
	greeting := flag.String("greeting", "Hello", "how to greet")
	times := flag.Int("times", 1, "how often to greet")

	// Work would parse the command line too, but this program looks
	// at its flags first.
	if err := goworker.Init(); err != nil {
		log.Fatal(err)
	}
	if *times < 1 {
		log.Fatalf("-times=%d: greet at least once", *times)
	}
	goworker.Register("Hello", func(name string, _ ...any) {
		fmt.Print(strings.Repeat(*greeting+", "+name+"!\n", *times))
	})
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
