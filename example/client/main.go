// Client is a small web server that enqueues: POST /signup?mail=ann@example.com answers 202
// when the job is in its queue. A call ends with its request, at the latest after a second.
//
//	go run ./example/client -addr=localhost:8080
//	curl -X POST -H 'X-Tenant: acme' 'localhost:8080/signup?mail=ann@example.com'
//	go run ./example/typed -queues=mail
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/goworker/goworker"
)

// mail is the argument of SendMail, which ../typed handles.
type mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

// tenantKey is the context key of the tenant whose request it is.
type tenantKey struct{}

// byTenant is middleware around all calls that enqueue: it gives the jobs the tenant of the request.
// Their handlers find it in Delivery.Meta.
func byTenant(next goworker.EnqueueFunc) goworker.EnqueueFunc {
	return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
		if tenant, ok := ctx.Value(tenantKey{}).(string); ok {
			for i := range items {
				items[i].Options = append(items[i].Options, goworker.WithMeta(map[string]string{"tenant": tenant}))
			}
		}
		return next(ctx, items)
	}
}

// logged is such middleware, too.
func logged(next goworker.EnqueueFunc) goworker.EnqueueFunc {
	return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
		start := time.Now()
		receipts, err := next(ctx, items)
		for _, item := range items {
			log.Printf("%s for queue %s in %s, error %v", item.Job.Payload.Class, item.Job.Queue, time.Since(start).Round(time.Millisecond), err)
		}
		return receipts, err
	}
}

// signUp enqueues a mail.
func signUp(client *goworker.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if tenant := r.Header.Get("X-Tenant"); tenant != "" {
			ctx = context.WithValue(ctx, tenantKey{}, tenant)
		}
		to := r.FormValue("mail")
		job := goworker.NewJob("mail", "SendMail", mail{to, "Welcome"}, []string{"terms.pdf"})
		// A user who presses the button twice gets one mail.
		receipt, err := client.Enqueue(ctx, job, goworker.Unique(goworker.ByKey("welcome "+to)))
		switch {
		case errors.Is(err, goworker.ErrDuplicate):
			http.Error(w, "your mail is on its way already", http.StatusConflict)
		case errors.Is(err, goworker.ErrUnconfirmed):
			// It may be enqueued. Unique makes it safe to try again.
			http.Error(w, "please try again", http.StatusGatewayTimeout)
		case err != nil:
			http.Error(w, "please try again later", http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprintln(w, receipt.ID)
		}
	}
}

func main() {
	addr := flag.String("addr", "localhost:8080", "where the server listens")
	flag.Parse()
	if err := run(*addr); err != nil {
		log.Fatal(err)
	}
}

func run(addr string) error {
	// One Client for the whole program. It dials at the first call, so the server starts
	// while Redis is away.
	client, err := goworker.NewClient(goworker.WorkerSettings{Connections: 10}, goworker.WithEnqueueMiddleware(logged, byTenant))
	if err != nil {
		return err
	}
	defer client.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("POST /signup", signUp(client))
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(closing)
}
