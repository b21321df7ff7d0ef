// Package httpclient publishes and takes jobs over goworker's HTTP API, version 2. It needs no Redis: a URL and a token are all.
//
//	client, err := httpclient.New("https://jobs.example.com", "shop", httpclient.Token(os.Getenv("JOBS_TOKEN")))
//	…
//	id, err := client.Publish(ctx, "mail", []byte("ada@example.com"), httpclient.Delay(time.Minute))
//
// A Consumer runs a function for each job of some queues:
//
//	consumer := httpclient.Consumer{
//		Client: client, Queues: []string{"mail"}, Concurrency: 10,
//		Handler: func(ctx context.Context, job *httpclient.Job) error { return send(ctx, job.Body) },
//	}
//	err := consumer.Run(ctx)
//
// Errors of the server are a *Problem. The client repeats a request that failed on its way only if that changes nothing: it
// reads, it is idempotent, or it has an idempotency key.
package httpclient
