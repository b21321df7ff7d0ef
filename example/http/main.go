// Http serves jobs over HTTP below a path of its own web server, beside workers that run some of them.
//
//	go run ./example/http -uri=embedded:
//	curl localhost:8080/jobs/v2/shop/queues/mail/jobs -d 'to ada'
//
// The worker runs this job. It does not work the queue img, so HTTP consumers take from that:
//
//	curl localhost:8080/jobs/v2/shop/queues/img/jobs -d 'cat.png'
//	curl localhost:8080/jobs/v2/shop/reservations -d '{"queues":["img"]}'
//
// It asks for no token, so it listens on this machine only. To serve a network, leave Open out, and make tokens with
// the command goworker.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/httpapi"
)

func main() {
	uri := flag.String("uri", "", "the URI of the Redis server; empty: REDIS_URL")
	listen := flag.String("listen", "localhost:8080", "the address of the web server")
	flag.Parse()
	if err := run(*uri, *listen); err != nil {
		log.Fatal(err)
	}
}

func run(uri, listen string) error {
	d := goworker.New(goworker.WorkerSettings{URI: uri, QueuesString: "shop.mail", LogLevel: "warn"})
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open)
	d.Register("HTTPJob", func(_ context.Context, body httpapi.Body) error {
		fmt.Printf("working on %q\n", body)
		return nil
	})
	api, err := httpapi.New(d.Client(), httpapi.Settings{Open: true})
	if err != nil {
		return err
	}
	d.AddPart(api.Part())
	d.AddPart(web(listen, api))
	return d.Work() // until a signal stops it
}

// web is the program's own web server. It begins after the API and stops before it.
func web(listen string, api *httpapi.API) goworker.Part {
	mux := http.NewServeMux()
	mux.Handle("/jobs/", http.StripPrefix("/jobs", api))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "the rest of the program") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return goworker.Part{
		Name: "web", Requires: []string{"httpapi"},
		Start: func(context.Context) error {
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			fmt.Printf("jobs over HTTP at http://%s/jobs\n", l.Addr())
			go func() {
				if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
					log.Print(err)
				}
			}()
			return nil
		},
		Stop: func(ctx context.Context) error {
			api.Drain() // consumers that wait get their answer; else the server would wait for them
			return server.Shutdown(ctx)
		},
	}
}
