package goworker

import (
	"context"
	"crypto/x509"
	"net/url"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// A daemon runs jobs, and is woken by a push, wherever its Redis is: the interval
// is longer than the test waits.
func TestWorksAnywhere(t *testing.T) {
	t.Parallel()
	ca := redistest.NewAuthority(t)
	ca.Issue(t, "server", &x509.Certificate{IPAddresses: loopback})
	ca.Issue(t, "worker", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	secure, _ := ca.Start(t, "server", "yes")
	plain := redistest.Start(t, "--requirepass", "s3cret%/")
	password := url.QueryEscape("s3cret%/")

	for name, settings := range map[string]WorkerSettings{
		"TLS with a CA and a client certificate": {URI: "rediss://" + secure,
			TLSCertPath: ca.Crt("ca"), TLSClientCertPath: ca.Crt("worker"), TLSClientKeyPath: ca.Key("worker")},
		"a unix socket with a password": {URI: "unix://:" + password + "@" + plain.Socket()},
		"another database":              {URI: "valkey://:" + password + "@" + plain.Addr + "/3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings.QueuesString, settings.Logger, settings.PollInterval = "*", quiet, time.Hour
			d := New(settings)
			defer d.Close()
			ran := make(chan string, 1)
			d.Register("Tell", func(what string) { ran <- what })
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- d.Run(ctx) }()
			redistest.Eventually(t, 10*time.Second, "the workers are registered", func() bool {
				workers, err := d.Workers()
				return err == nil && len(workers) == DefaultConcurrency
			})
			if err := d.Enqueue(&Job{"anywhere", Payload{"Tell", []interface{}{name}}}); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-ran:
				if got != name {
					t.Errorf("the job says %q", got)
				}
			case <-time.After(20 * time.Second):
				t.Error("the push woke nobody")
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
