package main

import (
	"fmt"
	"io"
)

const howTo = `Next: the same with your Redis, a worker of your own, a look at your queues

  go run ./example/demo -uri=redis://localhost:6379/ -concurrency=100
  go run ./example/hello -uri=redis://localhost:6379/ -queues=hello
  go -C cmd/goworker run . status --watch -u redis://localhost:6379/

and a job for it, from

  Ruby   class Hello; @queue = :hello; end
         Resque.redis = "redis://localhost:6379"
         Resque.enqueue(Hello, "world", 1)

  PHP    Resque::setBackend("localhost:6379");
         Resque::enqueue("hello", "Hello", ["name" => "world"]);

  Node   import { Queue } from "node-resque";
         const queue = new Queue({
           connection: { host: "localhost", port: 6379 },
         });
         await queue.connect();
         await queue.enqueue("hello", "Hello", ["world", 1]);
`

// printHowTo says how to continue after the demo.
func printHowTo(w io.Writer) { fmt.Fprint(w, howTo) }
