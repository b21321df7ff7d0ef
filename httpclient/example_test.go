package httpclient_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/goworker/goworker/httpclient"
)

func ExampleClient_Publish() {
	client, err := httpclient.New("https://jobs.example.com", "shop", httpclient.Token(os.Getenv("JOBS_TOKEN")))
	if err != nil {
		log.Fatal(err)
	}
	id, err := client.Publish(context.Background(), "mail", []byte("ada@example.com"),
		httpclient.Delay(time.Minute), httpclient.Tries(3), httpclient.IdempotencyKey("order-1815"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id)
}

func ExampleConsumer() {
	client, err := httpclient.New("https://jobs.example.com", "shop", httpclient.Token(os.Getenv("JOBS_TOKEN")))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	consumer := httpclient.Consumer{
		Client: client, Queues: []string{"mail"}, Concurrency: 10,
		Handler: func(ctx context.Context, job *httpclient.Job) error {
			fmt.Printf("a mail to %s, delivery %d of %d\n", job.Body, job.Attempt, job.Tries)
			return nil
		},
	}
	if err := consumer.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
