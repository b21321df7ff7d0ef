// Hello greets from a worker: go run ./example/hello -queues=hello
package main

import (
	"fmt"
	"log"

	"github.com/goworker/goworker"
)

func main() {
	goworker.Register("Hello", func(queue string, args ...interface{}) error {
		fmt.Println("Hello from queue", queue, "with", args)
		return nil
	})
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
