package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/embedded"
)

// dev shows a fleet at work on this machine.
func (p *program) dev() *cobra.Command {
	var pace float64
	var perhaps string
	var plain bool
	c := p.long(&cobra.Command{
		Use: "dev", Short: "Start a Redis, a worker, load and a dashboard, to play with", Args: noArguments,
		Long: "dev starts redis-server where it is installed, else a Redis inside this process, and a worker with five sample classes. Jobs come until Ctrl-C. It prints the address of a dashboard. It keeps nothing, and\n" +
			"touches no other Redis. The lines that it prints push jobs of other languages.",
	}, func(ctx context.Context, o *operator, _ []string) error {
		switch {
		case o.uri != "" || o.context != "":
			return usagef("dev starts a Redis of its own; leave out --uri and --context")
		case !(pace > 0) || pace > 10_000:
			return usagef("--rate takes a number of jobs a second, at most 10,000")
		}
		err := o.p.play(ctx, o, perhaps, pace, plain)
		if ctx.Err() != nil { // that is how it ends
			return nil
		}
		return err
	})
	c.Flags().Float64Var(&pace, "rate", 20, "how many jobs come in a second")
	c.Flags().BoolVar(&plain, "no-dashboard", false, "start no dashboard")
	c.Flags().StringVar(&perhaps, "redis-server", "redis-server", "the program that is Redis")
	return c
}

// play runs the worker, the load, the dashboard and the status until the context or the operator ends them.
func (p *program) play(ctx context.Context, o *operator, server string, pace float64, plain bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	uri, closeRedis, err := o.redis(ctx, server)
	if err != nil {
		return err
	}
	defer closeRedis()
	d := worker(goworker.WorkerSettings{
		URI: uri, Namespace: o.place.Namespace, QueuesString: "payments,mail,images,reports", Concurrency: 10, Logger: slog.New(slog.DiscardHandler),
	})
	defer d.Close()
	samples(d)
	ended := make(chan error, 1)
	go func() {
		err := d.Run(ctx)
		stop(errors.Join(errors.New("the worker has stopped"), err))
		ended <- err
	}()
	defer func() {
		stop(nil)
		<-ended
	}()
	go func() {
		if err := load(ctx, d.Client(), pace); err != nil {
			stop(err)
		}
	}()
	if !plain {
		closeDashboard, err := o.besideDev(ctx, d.Client(), stop)
		if err != nil {
			return err
		}
		defer closeDashboard()
	}
	if _, err := io.WriteString(o.out, pushLines(uri, d.Client().Namespace())); err != nil {
		return err
	}
	o.close()
	o.clients, o.in = []*goworker.Client{d.Client()}, d.Client().Inspect()
	err = o.live(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// besideDev starts a dashboard on a free port of this machine, and prints its address. end gets the error of one that fails; stop ends it.
func (o *operator) besideDev(ctx context.Context, client *goworker.Client, end context.CancelCauseFunc) (stop func(), err error) {
	e := &entry{token: dashboard.NewToken()}
	options := dashboard.Options{Environment: "dev", ReadOnly: o.p.changeless(), Logger: slog.New(slog.DiscardHandler)} // a log would disturb the status
	if options.Token, err = dashboard.NewTokenGate(e.token, dashboard.User{Name: o.p.who(), Role: dashboard.Admin}); err != nil {
		return nil, err
	}
	pages, err := dashboard.New(client, options)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(o.out, "The dashboard is at %s\n\n", e.addresses("http", l.Addr(), nil)[0]); err != nil {
		_ = l.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	served.Go(func() {
		if err := servePages(ctx, l, pages, options.Logger); err != nil {
			end(err)
		}
	})
	return func() {
		cancel()
		served.Wait()
	}, nil
}

// live shows the status below the lines that push.
func (o *operator) live(ctx context.Context) error {
	const every = 2 * time.Second
	if !o.terminal {
		return o.watchPlain(ctx, every)
	}
	w := &watcher{o: o, ctx: ctx, every: every, width: o.width, height: o.height}
	_, err := tea.NewProgram(w, tea.WithContext(ctx), tea.WithInput(o.stdin), tea.WithOutput(o.out), tea.WithoutSignalHandler()).Run()
	if w.interrupted || errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// redis starts a Redis, and returns its URI and a function that ends it.
func (o *operator) redis(ctx context.Context, program string) (uri string, stop func(), err error) {
	path, err := exec.LookPath(program)
	if err != nil {
		s, err := embedded.Start("127.0.0.1:0", goworker.DialOptions{})
		if err != nil {
			return "", nil, err
		}
		o.note("redis-server is not installed, so this is a Redis inside this process: it shows no speed, and knows no tracking, slow log, users, roles and CONFIG.")
		return "redis://" + s.Addr() + "/", func() { _ = s.Close() }, nil
	}
	dir, err := os.MkdirTemp("", "goworker-dev-")
	if err != nil {
		return "", nil, err
	}
	for range 5 { // another program may take the port meanwhile
		port := freePort()
		cmd := exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no", "--logfile", filepath.Join(dir, "redis.log"))
		if err = cmd.Start(); err != nil {
			break
		}
		gone := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(gone)
		}()
		stop = func() {
			_ = cmd.Process.Signal(os.Interrupt)
			<-gone
			_ = os.RemoveAll(dir)
		}
		if err = answers(ctx, "127.0.0.1:"+port, gone); err == nil {
			return "redis://127.0.0.1:" + port + "/", stop, nil
		}
		_ = cmd.Process.Kill()
		<-gone
	}
	_ = os.RemoveAll(dir)
	return "", nil, fmt.Errorf("%s does not start: %w", path, err)
}

// freePort returns a port that no program has at the moment.
func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "6379"
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// answers waits until a Redis answers.
func answers(ctx context.Context, addr string, gone <-chan struct{}) (err error) {
	const patience = 10 * time.Second
	for until := time.Now().Add(patience); time.Now().Before(until); {
		var c redis.Conn
		if c, err = redis.DialContext(ctx, "tcp", addr); err == nil {
			_, err = c.Do("PING")
			_ = c.Close()
		}
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			return errors.New("it has ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return err
}

// samples registers five classes: quick and slow ones, one with a limit, one that is retried, one that fails.
func samples(d *goworker.Daemon) {
	takes := func(least, most time.Duration, fails float64) goworker.HandlerFunc {
		return func(ctx context.Context, _ *goworker.Delivery) error {
			if err := sleep(ctx, least+rand.N(most-least)); err != nil {
				return err
			}
			if rand.Float64() < fails {
				return errors.New("the other side said no")
			}
			return nil
		}
	}
	d.Register("ChargeCard", takes(20*time.Millisecond, 80*time.Millisecond, 0.1), goworker.Retry(3))
	d.Register("SendMail", takes(5*time.Millisecond, 30*time.Millisecond, 0))
	d.Register("Thumbnail", takes(100*time.Millisecond, 400*time.Millisecond, 0))
	d.Register("Report", takes(time.Second, 3*time.Second, 0), goworker.MaxRunning(2))
	d.Register("ImportRow", takes(time.Millisecond, 10*time.Millisecond, 0.3))
}

// load enqueues sample jobs, so many a second.
func load(ctx context.Context, client *goworker.Client, pace float64) error {
	tick := time.NewTicker(time.Duration(float64(time.Second) / pace))
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		job, opts := goworker.NewJob("mail", "SendMail", fmt.Sprintf("ann%d@example.com", n), "Welcome"), []goworker.EnqueueOption(nil)
		switch {
		case n%40 == 7:
			job = goworker.NewJob("reports", "Report", n)
		case n%10 == 3:
			job = goworker.NewJob("images", "Thumbnail", fmt.Sprintf("cat%d.png", n), 320)
		case n%8 == 1:
			job = goworker.NewJob("payments", "ChargeCard", 100*n)
		case n%15 == 2:
			job = goworker.NewJob("mail", "ImportRow", fmt.Sprintf("cat;grey;%d", n))
		case n%20 == 5:
			opts = append(opts, goworker.ProcessIn(30*time.Second))
		}
		if _, err := client.Enqueue(ctx, job, opts...); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// pushLines say how other languages push jobs to it.
func pushLines(uri, namespace string) string {
	address := strings.TrimSuffix(strings.TrimPrefix(uri, "redis://"), "/")
	host, port, _ := net.SplitHostPort(address)
	job := `{"class":"SendMail","args":["ann","Hello"]}`
	return `A worker with the classes ChargeCard, SendMail, Thumbnail, Report and ImportRow
runs on ` + uri + `. Push it a job from

  goworker  goworker enqueue -q mail -u ` + uri + ` SendMail '"ann"'
  redis     redis-cli -p ` + port + ` RPUSH ` + namespace + `queue:mail \
              '` + job + `'
  Ruby      Resque.redis = "` + address + `"
            Resque::Job.create(:mail, "SendMail", "ann", "Hello")
  PHP       Resque::setBackend("` + address + `");
            Resque::enqueue("mail", "SendMail", ["ann", "Hello"]);
  Node      const queue = new Queue({
              connection: { host: "` + host + `", port: ` + port + ` } });
            await queue.connect();
            await queue.enqueue("mail", "SendMail", ["ann", "Hello"]);
  Python    redis.Redis(port=` + port + `).rpush("` + namespace + `queue:mail",
              '` + job + `')

`
}
