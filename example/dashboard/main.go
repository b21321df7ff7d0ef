// Dashboard runs a worker, and shows its Resque below a path of its own web server. People sign in with a name and a password.
//
//	goworker dashboard passwd ann --role operator >> users
//	go run ./example/dashboard -uri=embedded: -users=users
//
// Then open http://localhost:8080/jobs/.
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
	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/embedded"
)

func main() {
	uri := flag.String("uri", "", "the URI of the Redis server; empty: REDIS_URL")
	listen := flag.String("listen", "localhost:8080", "the address of the web server")
	users := flag.String("users", "users", "the file of users; goworker dashboard passwd makes its lines")
	flag.Parse()
	if err := run(*uri, *listen, *users); err != nil {
		log.Fatal(err)
	}
}

func run(uri, listen, file string) error {
	d := goworker.New(goworker.WorkerSettings{URI: uri, QueuesString: "mail", LogLevel: "warn"})
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open)
	d.Register("SendMail", func(_ context.Context, to string) error {
		fmt.Println("mail to", to)
		return nil
	})
	users, err := dashboard.BasicAuth(file)
	if err != nil {
		return err
	}
	pages, err := dashboard.New(d.Client(), dashboard.Options{
		User:        users,
		Hosts:       []string{"ops.example.com"}, // under which people open it, beside localhost and IP addresses
		Environment: "example",
	})
	if err != nil {
		return err
	}
	d.AddPart(web(listen, pages))
	return d.Work() // until a signal stops it
}

// web is the program's own web server.
func web(listen string, pages *dashboard.Server) goworker.Part {
	mux := http.NewServeMux()
	mux.Handle("/jobs/", pages)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "the rest of the program") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return goworker.Part{
		Name: "web",
		Start: func(context.Context) error {
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			fmt.Printf("the dashboard is at http://%s/jobs/\n", l.Addr())
			go func() {
				if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
					log.Print(err)
				}
			}()
			return nil
		},
		Stop: func(ctx context.Context) error {
			// The pages that are open have streams, which the server would wait for.
			return errors.Join(pages.Shutdown(ctx), server.Shutdown(ctx))
		},
	}
}
