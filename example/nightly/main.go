// Nightly makes a report of the day before as a chain of jobs, each night at three: the sales are read from an archive,
// summed up, written, and sent. The archive is away at first, so reading is retried. A day without sales fails for good, and
// an alert is sent.
//
//	go run ./example/nightly
//	go run ./example/nightly -uri=redis://localhost:6379/
//	go run ./example/nightly -cron='*/10 * * * * *'
//
//	Read ──▶ Sum ──▶ Write ──▶ Send
//	  └───────┴── a failure ─────┴──▶ Alert
//
// It makes two reports at once, the second of a day without sales. With -cron it waits for ticks instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
)

// report is the workflow of one day. Read may take long and fails now and then; what follows waits until it has ended well.
func report(day string) *goworker.Node {
	return goworker.Chain(
		goworker.Step(goworker.NewJob("reports", "Read", day), goworker.Named("sales"),
			goworker.Retry(3)),
		goworker.Step(goworker.NewJob("reports", "Sum")),
		goworker.Step(goworker.NewJob("reports", "Write", day)),
		goworker.Step(goworker.NewJob("mail", "Send", "boss@example.com"), goworker.ExpireAfter(12*time.Hour)),
	).OnError(goworker.NewJob("mail", "Alert", "report of "+day))
}

// yesterday is the workflow of a tick.
func yesterday() *goworker.Node { return report(time.Now().AddDate(0, 0, -1).Format(time.DateOnly)) }

var errNoSales = errors.New("there are no sales")

// register gives a daemon the jobs. sales are those of a day; each first try to read them fails. alert says that there is no
// report.
func register(d *goworker.Daemon, sales func(day string) []int, alert func(text string)) {
	d.Register("Read", func(ctx context.Context, day string) ([]int, error) {
		switch read := sales(day); {
		case goworker.FromContext(ctx).Attempt == 1:
			fmt.Println("read: the archive is away")
			return nil, errors.New("the archive is away")
		case len(read) == 0:
			return nil, goworker.Discard(errNoSales) // no other try finds some
		default:
			fmt.Println("read:", read)
			return read, nil
		}
	}, goworker.Retry(3, goworker.Delays{200 * time.Millisecond, time.Second}))
	d.Register("Sum", func(sales []int) (total int, err error) {
		for _, n := range sales {
			total += n
		}
		fmt.Println("sum:", total)
		return total, nil
	})
	d.Register("Write", func(ctx context.Context, day string, total int) (string, error) {
		sales, err := goworker.ResultOf[[]int](ctx, "sales") // of a step before the last one
		return fmt.Sprintf("%s: %d sales, %d in all", day, len(sales), total), err
	})
	d.Register("Send", func(to, text string) (string, error) {
		fmt.Printf("mail to %s: %s\n", to, text)
		return text, nil
	})
	d.Register("Alert", func(what string, f goworker.StepFailure) {
		alert(fmt.Sprintf("no %s: %s: %s", what, f.Class, f.Error))
	})
}

func main() {
	uri := flag.String("uri", "embedded:", "the URI of the Redis server")
	cron := flag.String("cron", "", "when to make reports; the program then runs until it is interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *uri, *cron)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, uri, cron string) error {
	d := goworker.New(goworker.WorkerSettings{URI: uri, Queues: []string{"mail", "reports"}, Concurrency: 2, LogLevel: "error"})
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open)
	alerts := make(chan string, 1000)
	register(d, func(day string) []int {
		if day == "2026-02-30" {
			return nil
		}
		return []int{120, 75, 310}
	}, func(text string) { alerts <- text })
	spec := cron
	if spec == "" {
		spec = "0 3 * * *"
	}
	if err := d.ScheduleWorkflow("nightly", spec, yesterday, goworker.Deadline(time.Hour)); err != nil {
		return err
	}

	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- d.Run(running)
		stop()
	}()
	var err error
	if cron == "" {
		err = show(running, d.Client(), alerts)
	} else {
		<-running.Done()
	}
	stop()
	return errors.Join(err, <-ended)
}

// show makes a report as a tick would, and one that fails.
func show(ctx context.Context, client *goworker.Client, alerts <-chan string) error {
	for _, day := range []string{"2026-03-01", "2026-02-30"} {
		receipt, err := client.Start(ctx, report(day), goworker.WithID("report-"+day))
		if err != nil {
			return err
		}
		if receipt.Existed { // an earlier run of this program made it
			fmt.Println("the report of", day, "was made before")
			continue
		}
		text, err := goworker.Await[string](ctx, client, receipt.ID)
		var failed *goworker.WorkflowError
		switch {
		case errors.As(err, &failed):
			fmt.Printf("the workflow failed in %s: %s\n", failed.Class, failed.Message)
			select { // nobody waits for the jobs of OnError but this program
			case text := <-alerts:
				fmt.Println("alert:", text)
			case <-ctx.Done():
			}
		case err != nil:
			return err
		default:
			fmt.Println("the workflow is done:", text)
		}
	}
	return nil
}
