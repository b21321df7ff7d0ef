// Worker is a program to deploy. The files in the folder deploy run it: under systemd, in a container, on Kubernetes.
//
//	go run ./example/worker -queues=critical,mail,low -health=localhost:9400
//	curl localhost:9400/readyz
//	go run ./example/enqueue
//
// It tells systemd how it is, answers probes if -health says where, reads a configuration file if -config names one, and ends by an error
// with a status that is not 0.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/config"
	"github.com/goworker/goworker/health"
)

// mail is an argument of a job.
type mail struct{ To, Subject string }

func main() {
	listen := flag.String("health", "", "where to answer probes, as in :9400; empty: nowhere")
	d := goworker.Default()
	config.Use(d)
	d.Register("SendMail", func(m mail, attachments []string) error {
		log.Printf("mail %q to %s with %v", m.Subject, m.To, attachments) // a program of yours sends it
		return nil
	}, goworker.Timeout(30*time.Second), goworker.Retry(3))
	if err := d.Schedule("digest", goworker.Recurring{
		Cron: "0 9 * * * Europe/Berlin", Class: "SendMail", Queue: "mail", Args: []any{mail{"all@example.com", "The news of the day"}, []string{}},
	}); err != nil {
		log.Fatal(err)
	}
	if err := goworker.Init(); err != nil { // which reads the command line
		log.Fatal(err)
	}
	if *listen != "" && !goworker.IsolatedChild() {
		d.AddPart(probes(d, *listen))
	}
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}

// probes returns the part that answers the probes, from before the first job until after the last.
func probes(d *goworker.Daemon, address string) goworker.Part {
	server := &http.Server{Handler: health.Handler(d), ReadHeaderTimeout: 5 * time.Second}
	return goworker.Part{
		Name: "health",
		Start: func(ctx context.Context) error {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
			if err != nil {
				return err
			}
			log.Printf("probes are answered at http://%s", l.Addr())
			go func() { log.Print("the probes' server has ended: ", server.Serve(l)) }()
			return nil
		},
		Stop: func(context.Context) error { return server.Close() },
	}
}
