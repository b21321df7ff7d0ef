package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

func (p *program) workers() *cobra.Command {
	return p.noun("workers", "See the workers of all programs; remove dead ones", p.workersLs(), p.workersShow())
}

func (p *program) workersLs() *cobra.Command {
	var busy bool
	c := p.verb(&cobra.Command{
		Use: "ls", Short: "List the workers of all programs, Ruby's too", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		workers, err := o.in.Workers(ctx)
		now := time.Now()
		l := o.list(view.Column{Head: "WORKER", Cut: true}, view.Column{Head: "UP", Right: true}, view.Column{Head: "BEAT", Right: true},
			view.Column{Head: "DONE", Right: true}, view.Column{Head: "FAILED", Right: true}, view.Column{Head: "WORKS ON", Cut: true}, view.Column{Head: "FOR", Right: true})
		for _, w := range workers {
			if busy && w.Working == nil {
				continue
			}
			on, since := "", ""
			if j := w.Working; j != nil {
				on, since = j.Class, view.Ago(now, j.RunAt)
				if j.Class == "" {
					on = "?"
				}
			}
			l.add(workerObject(w), w.ID, view.Ago(now, w.Started), view.Ago(now, w.Heartbeat), view.Count(w.Processed), view.Count(w.Failed), on, since)
		}
		return l.close("there are no workers", err)
	})
	c.Flags().BoolVar(&busy, "busy", false, "only those that have a job in hand")
	return c
}

// showNamed shows the things that a command line names by their ids; on several Redises there may be several with one id. The error names
// those that are not there, in the sentence of lacking.
func showNamed[T any](ids []string, all []T, sentence string, idOf func(T) string, show func(T) error) error {
	var absent []string
	for _, id := range ids {
		found := false
		for _, one := range all {
			if idOf(one) != id {
				continue
			}
			found = true
			if err := show(one); err != nil {
				return err
			}
		}
		if !found {
			absent = append(absent, id)
		}
	}
	return lacking(ids, absent, sentence)
}

func (p *program) workersShow() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "show ID…", Short: "Show workers: their queues and the job in hand", Args: some("the ids of workers"),
	}, func(ctx context.Context, o *operator, args []string) error {
		workers, err := o.in.Workers(ctx)
		if err != nil {
			return err
		}
		return showNamed(args, workers, "there is no worker %s", func(w inspect.WorkerInfo) string { return w.ID }, func(w inspect.WorkerInfo) error {
			pairs := [][2]string{
				{"worker", w.ID}, {"host", w.Host}, {"pid", w.PID}, {"queues", strings.Join(w.Queues, ", ")}, {"started", view.Time(w.Started)},
				{"heartbeat", view.Time(w.Heartbeat)}, {"processed", view.Count(w.Processed)}, {"failed", view.Count(w.Failed)}, {"shard", w.Shard},
			}
			if j := w.Working; j != nil {
				pairs = append(pairs, [2]string{"works on", j.Class}, [2]string{"of queue", j.Queue}, [2]string{"since", view.Time(j.RunAt)}, [2]string{"payload", string(j.Payload)})
			}
			return o.show(workerObject(w), pairs...)
		})
	})
}

// workerObject is a worker in JSON.
func workerObject(w inspect.WorkerInfo) view.Object {
	o := view.Object{
		{Key: "worker", Value: w.ID}, {Key: "host", Value: w.Host}, {Key: "pid", Value: w.PID}, {Key: "queues", Value: w.Queues}, {Key: "started", Value: w.Started},
		{Key: "heartbeat", Value: w.Heartbeat}, {Key: "processed", Value: w.Processed}, {Key: "failed", Value: w.Failed},
	}
	var working view.Object
	if j := w.Working; j != nil {
		working = view.Object{{Key: "queue", Value: j.Queue}, {Key: "class", Value: j.Class}, {Key: "run_at", Value: j.RunAt}, {Key: "payload", Value: j.Payload}}
	}
	o = o.With("working", working)
	if w.Shard != "" {
		o = o.With("shard", w.Shard)
	}
	return o
}

func (p *program) processes() *cobra.Command {
	return p.noun("processes", "See goworker processes, and servers that take jobs over HTTP", p.processesLs(), p.processesShow())
}

func (p *program) processesLs() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "ls", Short: "List processes with their versions, leases and jobs", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		processes, err := o.in.Processes(ctx)
		if len(processes) == 0 && err != nil {
			return err
		}
		sample, err := o.in.Sample(ctx)
		now := time.Now()
		l := o.list(view.Column{Head: "PROCESS", Cut: true}, view.Column{Head: "VERSION", Cut: true}, view.Column{Head: "UP", Right: true},
			view.Column{Head: "WORKERS", Right: true}, view.Column{Head: "JOBS", Right: true}, view.Column{Head: "LEASE", Right: true}, view.Column{Head: "QUEUES", Cut: true})
		for _, i := range processes {
			lease := view.Span(i.LeaseAge)
			if i.Dead {
				lease = "dead"
			}
			l.add(processObject(i), i.ID, i.Version, view.Ago(now, i.Since), view.Count(int64(i.Concurrency)), view.Count(i.Jobs), lease, i.Queues)
		}
		for _, t := range sample.Servings {
			l.add(takerObject(t), t.ID, t.Version, view.Ago(now, t.Since), "http", view.Count(int64(t.Waiting))+" wait", "", strings.Join(t.Queues, ","))
		}
		return l.close("no goworker process holds a lease here", err)
	})
}

func (p *program) processesShow() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "show ID…", Short: "Show processes", Args: some("the ids of processes"),
	}, func(ctx context.Context, o *operator, args []string) error {
		processes, err := o.in.Processes(ctx)
		if err != nil {
			return err
		}
		return showNamed(args, processes, "no process %s holds a lease here", func(i inspect.ProcessInfo) string { return i.ID }, func(i inspect.ProcessInfo) error {
			lease := "renewed " + view.Span(i.LeaseAge) + " ago"
			if i.Dead {
				lease = "lost: it was found dead, and its jobs are being brought back"
			}
			pairs := [][2]string{
				{"process", i.ID}, {"host", i.Host}, {"pid", fmt.Sprint(i.PID)}, {"version", i.Version}, {"queues", i.Queues},
				{"workers", fmt.Sprint(i.Concurrency)}, {"jobs", fmt.Sprint(i.Jobs)}, {"since", view.Time(i.Since)}, {"lease", lease}, {"shard", i.Shard},
			}
			return o.show(processObject(i), append(pairs, vitalsPairs(i)...)...)
		})
	})
}

// processObject is a process in JSON.
func processObject(i inspect.ProcessInfo) view.Object {
	o := view.Object{
		{Key: "process", Value: i.ID}, {Key: "kind", Value: "worker"}, {Key: "host", Value: i.Host}, {Key: "pid", Value: i.PID}, {Key: "version", Value: i.Version},
		{Key: "queues", Value: i.Queues}, {Key: "workers", Value: i.Concurrency}, {Key: "since", Value: i.Since}, {Key: "jobs", Value: i.Jobs},
		{Key: "lease_age", Value: i.LeaseAge}, {Key: "dead", Value: i.Dead}, {Key: "vitals", Value: vitalsObject(i.Vitals)}, {Key: "stuck", Value: stuckObjects(i.Stuck)},
		{Key: "bridges", Value: bridgeObjects(i.Bridges)},
	}
	if i.Shard != "" {
		o = o.With("shard", i.Shard)
	}
	return o
}

// takerObject is an HTTP server in JSON.
func takerObject(t inspect.SampleTaker) view.Object {
	o := view.Object{
		{Key: "process", Value: t.ID}, {Key: "kind", Value: "http"}, {Key: "host", Value: t.Host}, {Key: "pid", Value: t.PID}, {Key: "version", Value: t.Version},
		{Key: "address", Value: t.Address}, {Key: "queues", Value: t.Queues}, {Key: "since", Value: t.Since}, {Key: "waiting", Value: t.Waiting},
	}
	if t.Shard != "" {
		o = o.With("shard", t.Shard)
	}
	return o
}
