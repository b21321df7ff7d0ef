package httpclient_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/httpclient"
)

// devServer is what goworker serve --dev is: a server with a Redis of its own that asks for no token.
func devServer() (url string, stop func()) {
	redis, err := goworker.NewClient(goworker.WorkerSettings{URI: "embedded://127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}, goworker.WithDialer("embedded", embedded.Open))
	if err != nil {
		log.Fatal(err)
	}
	api, err := httpapi.New(redis, httpapi.Settings{Open: true, QuietAccess: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := api.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(api)
	return server.URL, func() {
		api.Drain()
		server.Close()
		_ = api.Stop(context.Background())
		redis.Close()
	}
}

func Example() {
	url, stop := devServer() // in a program of its own: goworker serve --dev
	defer stop()
	client, err := httpclient.New(url, "dev")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := client.Publish(ctx, "mail", []byte("ada@example.com"), httpclient.Tries(3)); err != nil {
		log.Fatal(err)
	}
	consumer := httpclient.Consumer{
		Client: client, Queues: []string{"mail"},
		Handler: func(_ context.Context, job *httpclient.Job) error {
			fmt.Printf("a mail to %s, delivery %d of %d\n", job.Body, job.Attempt, job.Tries)
			cancel() // the consumer stops, and acknowledges the job
			return nil
		},
	}
	if err := consumer.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: a mail to ada@example.com, delivery 1 of 3
}
