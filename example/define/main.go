// Define runs classes that the compiler checks at both ends: what is enqueued and what is
// handled. A real program has the definitions in a package that the worker and the web server
// import; here one program is both.
//
//	go run ./example/define -queues=mail,images -exit-on-complete
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goworker/goworker"
)

// Mail is the one argument of SendMail: a Hash in Ruby.
type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

// ThumbnailArgs are several arguments, as Ruby's perform(path, width) takes them.
type ThumbnailArgs = goworker.Args2[string, int]

// Size is the result of Thumbnail: hooks and middleware find it in Delivery.Result.
type Size struct{ Width, Height int }

// The classes carry the options of both ends: retries for the handler, the queue and
// uniqueness for what enqueues.
var (
	SendMail  = goworker.Define[Mail, goworker.None]("SendMail", goworker.OnQueue("mail"), goworker.Retry(5))
	Thumbnail = goworker.Define[ThumbnailArgs, Size]("Thumbnail", goworker.OnQueue("images"), goworker.Unique())
)

func sendMail(ctx context.Context, m Mail) error {
	if m.To == "" {
		return goworker.Discard(errors.New("the mail has no recipient"))
	}
	fmt.Printf("%q to %s\n", m.Subject, m.To)
	return ctx.Err()
}

func thumbnail(_ context.Context, in ThumbnailArgs) (Size, error) {
	return Size{in.B, in.B * 3 / 4}, nil
}

func main() {
	d := goworker.Default()
	SendMail.Handle(d, goworker.NoResult(sendMail))
	Thumbnail.Handle(d, thumbnail)
	goworker.AddHooks(goworker.Hooks{
		Success: func(_ context.Context, job *goworker.Delivery) { fmt.Println(job.Class, "is done:", job.Result) },
	})

	ctx := context.Background()
	_, err := SendMail.Enqueue(ctx, d.Client(), Mail{To: "ann@example.com", Subject: "Welcome"})
	for range 2 { // the second is a duplicate
		_, again := Thumbnail.Enqueue(ctx, d.Client(), ThumbnailArgs{A: "cat.png", B: 320})
		if errors.Is(again, goworker.ErrDuplicate) {
			fmt.Println(again)
		} else {
			err = errors.Join(err, again)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
