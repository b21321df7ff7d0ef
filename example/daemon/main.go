// Daemon runs two daemons in one program, without globals: many workers for
// mails, which wait most of the time, and few for images, which compute. Each has
// settings, classes and parts of its own; a context stops both.
//
//	go run ./example/daemon &
//	go run ./example/enqueue
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/goworker/goworker"
)

// mailServer stands for a connection that the jobs share.
type mailServer struct{}

func (*mailServer) connect(context.Context) error { fmt.Println("mail server: connected"); return nil }
func (*mailServer) quit(context.Context) error    { fmt.Println("mail server: closed"); return nil }

func (*mailServer) send(mail struct{ To, Subject string }, attachments []string) error {
	fmt.Printf("mail server: %q to %s\n", mail.Subject, mail.To)
	return nil
}

func newMailDaemon() *goworker.Daemon {
	d := goworker.New(goworker.WorkerSettings{QueuesString: "mail", Concurrency: 50})
	server := &mailServer{}
	// The part requires nothing, so it starts before the workers and outlives every job.
	d.AddPart(goworker.Part{Name: "mail server", Start: server.connect, Stop: server.quit})
	d.Register("SendMail", server.send)
	return d
}

func newImageDaemon() *goworker.Daemon {
	d := goworker.New(goworker.WorkerSettings{QueuesString: "images", Concurrency: 2})
	// The part requires the poller, so it starts last and stops first: the place to
	// announce that the daemon works.
	d.AddPart(goworker.Part{
		Name:     "readiness",
		Requires: []string{"poller"},
		Start:    func(context.Context) error { fmt.Println("images: ready"); return nil },
		Stop:     func(context.Context) error { fmt.Println("images: not ready any more"); return nil },
	})
	d.Register("Thumbnail", func(path string, width, height int) {
		fmt.Printf("images: %s, %d by %d pixels\n", path, width, height)
	})
	return d
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	daemons := []*goworker.Daemon{newMailDaemon(), newImageDaemon()}
	ended := make(chan error, len(daemons))
	for _, d := range daemons {
		go func() {
			defer d.Close()
			ended <- d.Run(ctx)
		}()
	}
	status := 0
	for range daemons {
		if err := <-ended; err != nil {
			log.Print(err)
			status = 1
		}
		stop() // when one ends, for any reason, the other stops too
	}
	os.Exit(status)
}
