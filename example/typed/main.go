// Typed registers functions with typed arguments: each JSON argument is decoded into its parameter. A job whose
// arguments do not fit fails with a sentence that says which one and why.
//
//	go run ./example/enqueue
//	go run ./example/typed -queues=mail,images
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goworker/goworker"
)

// Mail is a Hash in Ruby:
//
//	Resque.enqueue(SendMail, { to: "ann@example.com", subject: "Welcome" }, ["terms.pdf"])
type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

// sendMail takes a context, a struct and a list. The context ends when the job must stop, and carries what is known of it.
func sendMail(ctx context.Context, mail Mail, attachments []string) error {
	if mail.To == "" {
		return errors.New("the mail has no recipient")
	}
	job := goworker.FromContext(ctx)
	fmt.Printf("%s from queue %s: %q to %s with %v\n", job.Class, job.Queue, mail.Subject, mail.To, attachments)
	return ctx.Err()
}

// Size is a result: middleware and hooks find it in Delivery.Result.
type Size struct{ Width, Height int }

// thumbnail takes plain values and returns a result beside its error.
func thumbnail(path string, width, height int) (Size, error) {
	if width <= 0 || height <= 0 {
		return Size{}, fmt.Errorf("%s cannot become %d by %d pixels", path, width, height)
	}
	fmt.Printf("Thumbnail of %s, %d by %d pixels\n", path, width, height)
	return Size{width, height}, nil
}

func register(d *goworker.Daemon) {
	d.Register("SendMail", sendMail)
	d.Register("Thumbnail", thumbnail)
}

func main() {
	register(goworker.Default())
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
