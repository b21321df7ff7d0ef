// Retries enqueues three payments and makes them: one succeeds at the second try, one
// is not worth a second try, and one has been made already.
//
//	go run ./example/retries -queues=payments
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
)

var (
	errDeclined = errors.New("the card was declined")
	errMade     = errors.New("this payment was made before")
)

// pay stands for a call to a bank that is busy at first.
func pay(ctx context.Context, customer string) error {
	run := goworker.FromContext(ctx)
	switch {
	case customer == "bob":
		return fmt.Errorf("paying for %s: %w", customer, errDeclined)
	case customer == "carol":
		return goworker.Discard(errMade) // nothing is left to do, and no operator need look
	case run.Attempt == 1:
		return goworker.RetryIn(time.Second, errors.New("the bank asks to come again in a second"))
	}
	fmt.Printf("%s has paid at attempt %d; %d retries were left\n", customer, run.Attempt, run.RetriesLeft)
	return nil
}

func register(d *goworker.Daemon) {
	d.Register("Pay", pay, goworker.Retry(5, // 6 runs at most
		goworker.Exponential{Base: 2 * time.Second, Max: time.Minute}, goworker.NoRetryOn(errDeclined)))
	d.AddHooks(goworker.Hooks{
		Retry: func(_ context.Context, d *goworker.Delivery, err error, at time.Time) {
			fmt.Printf("hook: attempt %d failed (%v), the next is at %s\n", d.Attempt, err, at.Format(time.TimeOnly))
		},
		Failure: func(_ context.Context, d *goworker.Delivery, err error) { fmt.Println("hook: given up:", err) },
		Discard: func(_ context.Context, d *goworker.Delivery, err error) { fmt.Println("hook: dropped:", err) },
	})
}

func main() {
	register(goworker.Default())
	for _, customer := range []string{"alice", "bob", "carol"} {
		job := goworker.NewJob("payments", "Pay", customer)
		if _, err := goworker.Default().Client().Enqueue(context.Background(), job); err != nil {
			log.Fatal(err)
		}
	}
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
