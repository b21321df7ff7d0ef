package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/goworker/goworker/dashboard"
)

// What a client of the dashboard gets. There is no limit for an answer: the streams of pages go on for minutes.
const (
	headerWithin = 10 * time.Second
	bodyWithin   = 30 * time.Second
	idleFor      = 2 * time.Minute
	mostHeaders  = 64 << 10
	stopWithin   = 5 * time.Second
)

// servePages serves pages until the context ends or the listener fails.
func servePages(ctx context.Context, l net.Listener, pages *dashboard.Server, log *slog.Logger) error {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin))
			}
			pages.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: headerWithin, IdleTimeout: idleFor, MaxHeaderBytes: mostHeaders,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
		err = fmt.Errorf("the dashboard at %s: %w", l.Addr(), err)
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	_ = pages.Shutdown(stop) // it ends the streams, which the server would wait for
	if server.Shutdown(stop) != nil {
		_ = server.Close()
	}
	return err
}

// certificateOf returns how TLS is served; nil: it is not. The files are read for each connection, so a certificate that was renewed
// is served at once. While they are wrong the last one is served.
func certificateOf(cert, key string) (*tls.Config, error) {
	if (cert == "") != (key == "") {
		return nil, errors.New("--tls-cert and --tls-key go together")
	}
	if cert == "" {
		return nil, nil
	}
	last, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	var mu sync.Mutex
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			fresh, err := tls.LoadX509KeyPair(cert, key)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				last = fresh
			}
			served := last
			return &served, nil
		},
	}, nil
}

// opening is not the address itself: other users of this machine can read the arguments of a browser.
var opening = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>goworker</title><meta http-equiv="refresh" content="{{.Refresh}}"></head>
<body><p><a href="{{.To}}">Go on to the dashboard</a></p></body></html>
`))

// openBrowser gives the browser a file that only this user can read, and that goes on to an address. remove deletes the file.
func (o *operator) openBrowser(address string) (remove func(), err error) {
	remove = func() {}
	dir, err := os.MkdirTemp("", "goworker-dashboard-") // 0700
	if err != nil {
		return remove, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "open.html")
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return remove, err
	}
	err = opening.Execute(f, struct{ Refresh, To string }{"0;url=" + address, address})
	if err = errors.Join(err, f.Close()); err != nil {
		return remove, err
	}
	command := []string{"xdg-open", file}
	switch runtime.GOOS {
	case "darwin":
		command[0] = "open"
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", file}
	}
	if browser, _ := o.p.lookup("BROWSER"); browser != "" {
		command[0] = browser
	}
	cmd := exec.Command(command[0], command[1:]...)
	if err = cmd.Start(); err != nil {
		return remove, err
	}
	go func() { _ = cmd.Wait() }() // it may be the browser, which outlives this command
	return remove, nil
}
