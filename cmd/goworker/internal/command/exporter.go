package command

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/metrics"
)

// defaultExporter is where an exporter listens. A program that reaches it learns the names of queues.
const defaultExporter = ":9401"

// exporter shows a fleet to Prometheus and to autoscalers.
func (p *program) exporter() *cobra.Command {
	var listen, cert, key string
	c := p.long(&cobra.Command{
		Use: "exporter", Short: "Show a fleet to Prometheus, and to autoscalers", Args: nounArguments,
		Long: "exporter serves the metrics of a fleet at /metrics, what an autoscaler goes by at /scale?queue=NAME, and /healthz. It looks at Redis when it is asked, at most once a second.\n" +
			"It changes nothing. One for each Redis is enough, and none is needed where a process shows the fleet itself.",
		Example: "  goworker exporter -u redis://cache:6379/0\n  goworker exporter -n resque:shop --listen 127.0.0.1:9401",
	}, func(ctx context.Context, o *operator, _ []string) error {
		certificate, err := certificateOf(cert, key)
		if err != nil {
			return usageError{err}
		}
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return exitError{exitFailed, fmt.Errorf("the exporter cannot listen at %s: %w; choose another address with --listen", listen, err)}
		}
		scheme := "http"
		if certificate != nil {
			scheme, l = "https", tls.NewListener(l, certificate)
		}
		o.note("the metrics are at %s://%s/metrics", scheme, reachable(l.Addr()))
		return serveMetrics(ctx, l, metrics.Exporter(o))
	})
	f := c.Flags()
	f.StringVar(&listen, "listen", defaultExporter, "the address to listen on")
	f.StringVar(&cert, "tls-cert", "", "serve TLS with this certificate")
	f.StringVar(&key, "tls-key", "", "the key of --tls-cert")
	return c
}

// answerWithin bounds an answer: a look takes five seconds at most.
const answerWithin = 15 * time.Second

// serveMetrics serves until the context ends or the listener fails.
func serveMetrics(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerWithin, ReadTimeout: bodyWithin, WriteTimeout: answerWithin, IdleTimeout: idleFor, MaxHeaderBytes: mostHeaders}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("the exporter at %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if server.Shutdown(stop) != nil {
		_ = server.Close()
	}
	return nil
}
