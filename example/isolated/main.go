// Isolated runs jobs that may crash, hang or eat memory, each in a process of its own.
// It enqueues four of them first:
//
//	go run ./example/isolated -queues=risky -exit-on-complete
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/goworker/goworker"
)

// convert stands for a library that does not always return.
func convert(ctx context.Context, file string) (string, error) {
	switch file {
	case "broken.tiff": // the library exits, and the process with it
		os.Exit(9)
	case "endless.tiff": // here it does not even look at its context
		select {}
	case "huge.tiff":
		var pixels [][]byte
		for range 64 {
			row := make([]byte, 16<<20)
			for i := 0; i < len(row); i += 4096 { // memory is taken when it is written to
				row[i] = 1
			}
			pixels = append(pixels, row)
			time.Sleep(50 * time.Millisecond)
		}
		return fmt.Sprint(len(pixels), " rows"), nil
	}
	return file + ".png", nil
}

func main() {
	goworker.Register("Convert", convert,
		goworker.Timeout(500*time.Millisecond), // the context ends
		goworker.Isolated(
			goworker.HardTimeout(15*time.Second),     // the job must end
			goworker.KillGrace(100*time.Millisecond), // else its process is killed
			goworker.MaxMemory(256<<20),
		),
	)
	goworker.AddHooks(goworker.Hooks{ // they run in the daemon
		Success: func(_ context.Context, d *goworker.Delivery) { fmt.Printf("done: %s\n", d.Result) },
		Failure: func(_ context.Context, d *goworker.Delivery, err error) { fmt.Println("failed:", err) },
	})

	// A child runs main too, and its job runs in Work.
	if !goworker.IsolatedChild() {
		for _, file := range []string{"cat.tiff", "broken.tiff", "endless.tiff", "huge.tiff"} {
			_, err := goworker.Default().Client().Enqueue(context.Background(), goworker.NewJob("risky", "Convert", file))
			if err != nil {
				log.Fatal(err)
			}
		}
	}
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
