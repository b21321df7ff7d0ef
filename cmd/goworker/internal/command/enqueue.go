package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/internal/conn"
)

// toEnqueue is a job as the command line or a line of --stdin says it. Its fields are the flags.
type toEnqueue struct {
	Queue string            `json:"queue"`
	Class string            `json:"class"`
	Args  []json.RawMessage `json:"args"`

	ID        string            `json:"id"`
	At        string            `json:"at"`
	In        string            `json:"in"`
	Expire    string            `json:"expire"`
	Meta      map[string]string `json:"meta"`
	Unique    bool              `json:"unique"`
	UniqueKey string            `json:"unique_key"`
	Priority  string            `json:"priority"`
	Retries   *int              `json:"retries"`
	RunLimit  string            `json:"run_limit"`
	Result    string            `json:"result"`
	Logs      bool              `json:"logs"`
	Ruby      bool              `json:"resque_scheduler"`
}

// item is the job for the client, with its options.
func (j *toEnqueue) item() (goworker.Item, error) {
	var opts []goworker.EnqueueOption
	var wrong error
	span := func(name, text string, opt func(d time.Duration) goworker.EnqueueOption) {
		if text == "" {
			return
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s is %q; give a time such as 90s, 5m or 2h", name, text))
			return
		}
		opts = append(opts, opt(d))
	}
	if j.Class == "" {
		wrong = errors.Join(wrong, errors.New("the job has no class"))
	}
	if j.Queue == "" {
		wrong = errors.Join(wrong, errors.New("the job has no queue"))
	}
	if j.ID != "" {
		opts = append(opts, goworker.WithID(j.ID))
	}
	if j.At != "" {
		at, err := time.Parse(time.RFC3339, j.At)
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("at is %q; give a time such as 2026-11-23T18:00:00Z", j.At))
		}
		opts = append(opts, goworker.ProcessAt(at))
	}
	span("in", j.In, func(d time.Duration) goworker.EnqueueOption { return goworker.ProcessIn(d) })
	span("expire", j.Expire, func(d time.Duration) goworker.EnqueueOption { return goworker.ExpireAfter(d) })
	span("run limit", j.RunLimit, func(d time.Duration) goworker.EnqueueOption { return goworker.Timeout(d) })
	span("result", j.Result, func(d time.Duration) goworker.EnqueueOption { return goworker.WithResult(d) })
	if len(j.Meta) > 0 {
		opts = append(opts, goworker.WithMeta(j.Meta))
	}
	switch {
	case j.UniqueKey != "":
		opts = append(opts, goworker.Unique(goworker.ByKey(j.UniqueKey)))
	case j.Unique:
		opts = append(opts, goworker.Unique())
	}
	switch j.Priority {
	case "", "normal":
	case "high":
		opts = append(opts, goworker.Priority(goworker.High))
	case "urgent":
		opts = append(opts, goworker.Priority(goworker.Urgent))
	default:
		wrong = errors.Join(wrong, fmt.Errorf("priority is %q; it is normal, high or urgent", j.Priority))
	}
	if j.Retries != nil {
		opts = append(opts, goworker.Retry(*j.Retries))
	}
	if j.Logs {
		opts = append(opts, goworker.CaptureLogs())
	}
	if j.Ruby {
		opts = append(opts, goworker.ResqueScheduler())
	}
	args := make([]any, len(j.Args))
	for n, a := range j.Args {
		args[n] = a
	}
	return goworker.Item{Job: goworker.NewJob(j.Queue, j.Class, args...), Options: opts}, wrong
}

func (p *program) enqueue() *cobra.Command {
	var j toEnqueue
	var stdin bool
	var retries int
	var c *cobra.Command
	c = p.changes(&cobra.Command{
		Use: "enqueue CLASS [JSON…] -q QUEUE", Short: "Enqueue a job, or many from standard input",
		Long: "enqueue enqueues a job of a class. Its arguments are JSON: 7, true, '\"text\"', '{\"id\":7}'.\n\n" +
			"With --stdin it reads a job a line, as JSON: {\"class\":\"SendEmail\",\"args\":[7],\"queue\":\"mail\"}, with further fields named as the flags:\n" +
			"id, at, in, expire, meta, unique, unique_key, priority, retries, run_limit, result, logs, resque_scheduler. Of a line without a queue it is that\n" +
			"of -q. The jobs go in steps of 1,000. A line that is refused is named by its number, and the others are enqueued.",
		Example: "  goworker enqueue SendEmail 7 '\"welcome\"' -q mail --in 5m\n  goworker enqueue --stdin -q mail < jobs.jsonl",
	}, func(ctx context.Context, o *operator, args []string) error {
		if c.Flags().Changed("retries") {
			j.Retries = &retries
		}
		if stdin {
			if len(args) > 0 {
				return usagef("with --stdin the classes stand in the lines, and %s is one too many", args[0])
			}
			return o.enqueueLines(ctx, j)
		}
		if len(args) == 0 {
			return usagef("%s takes a class and its arguments, or --stdin", c.CommandPath())
		}
		if j.Queue == "" {
			return usagef("say which queue the job goes to, with -q")
		}
		j.Class = args[0]
		for _, text := range args[1:] {
			if !json.Valid([]byte(text)) {
				return usagef("%s is no JSON; a text stands in double quotes, which the shell needs in single ones: '%s'", text, `"text"`)
			}
			j.Args = append(j.Args, json.RawMessage(text))
		}
		return o.enqueueOne(ctx, j)
	})
	f := c.Flags()
	f.StringVarP(&j.Queue, "queue", "q", "", "the queue")
	f.BoolVar(&stdin, "stdin", false, "read jobs from standard input, a JSON object a line")
	f.StringVar(&j.ID, "id", "", "an id; without one, and without other options, the job has none, as Ruby's")
	f.StringVar(&j.At, "at", "", "when it runs, such as 2026-11-23T18:00:00Z")
	f.StringVar(&j.In, "in", "", "how long it waits first, such as 5m")
	f.StringVar(&j.Expire, "expire", "", "do not run it after this time, such as 1h")
	f.StringToStringVar(&j.Meta, "meta", nil, "texts beside the arguments, such as tenant=acme")
	f.BoolVar(&j.Unique, "unique", false, "only if no equal job waits or runs")
	f.StringVar(&j.UniqueKey, "unique-key", "", "only if no job with this key waits or runs")
	f.StringVar(&j.Priority, "priority", "", "normal, high or urgent, within its queue")
	f.IntVar(&retries, "retries", 0, "how often it is retried after an error, in place of what its class has")
	f.StringVar(&j.RunLimit, "run-limit", "", "how long it may run, in place of what its class has")
	f.StringVar(&j.Result, "result", "", "keep what becomes of it for this time after its end, such as 1h")
	f.BoolVar(&j.Logs, "logs", false, "with --result: keep its log lines too")
	f.BoolVar(&j.Ruby, "resque-scheduler", false, "with --at or --in: wait where Ruby's tools see it")
	return c
}

// enqueueOne enqueues the job of the command line.
func (o *operator) enqueueOne(ctx context.Context, j toEnqueue) error {
	item, err := j.item()
	if err != nil {
		return usageError{err}
	}
	what := "enqueue " + escaped(j.Class) + " in queue " + escaped(j.Queue)
	if ok, err := o.agree(ctx, plan{Sentence: what, Count: 1}); !ok {
		return err
	}
	ctx, cancel := o.within(ctx)
	defer cancel()
	r, err := o.client().Enqueue(ctx, item.Job, item.Options...)
	var d *goworker.DuplicateError
	if err != nil && !errors.As(err, &d) {
		return o.late(ctx, err)
	}
	object := view.Object{{Key: "id", Value: r.ID}, {Key: "class", Value: j.Class}, {Key: "queue", Value: j.Queue}, {Key: "enqueued", Value: d == nil}}
	if d != nil {
		if o.json {
			if err := o.print(object.With("holder", d.Holder), ""); err != nil {
				return err
			}
		}
		return partly("not enqueued: %w", d)
	}
	on := j.Class + " in queue " + j.Queue
	if r.ID != "" {
		on += ", with the id " + r.ID
	}
	if err := o.enqueued(ctx, on, 1); err != nil {
		return err
	}
	text := escaped(j.Class) + " is in queue " + escaped(j.Queue)
	if j.At != "" || j.In != "" {
		text = escaped(j.Class) + " is delayed for queue " + escaped(j.Queue)
	}
	if r.ID != "" {
		text += ", with the id " + escaped(r.ID)
	}
	return o.print(object, text)
}

// enqueued records in the audit what was enqueued.
func (o *operator) enqueued(ctx context.Context, what string, jobs int64) error {
	return o.in.Doors()[0].Record(ctx, "Enqueue", what, jobs, nil)
}

const (
	enqueueTogether = 1000    // jobs in one step of --stdin
	longestLine     = 8 << 20 // bytes; the client refuses payloads long before
)

// counts are what became of the lines of --stdin.
type counts struct{ enqueued, duplicates, refused, lines int }

// enqueueLines enqueues the jobs of standard input.
func (o *operator) enqueueLines(ctx context.Context, like toEnqueue) error {
	in := bufio.NewScanner(o.stdin)
	in.Buffer(nil, longestLine)
	var n counts
	if o.dryRun || o.place.Protect { // the plan says how many
		text, err := io.ReadAll(o.stdin)
		if err != nil {
			return err
		}
		jobs := int64(bytes.Count(bytes.TrimSpace(text), []byte("\n")) + 1)
		if len(bytes.TrimSpace(text)) == 0 {
			jobs = 0
		}
		if ok, err := o.confirm(ctx, plan{Sentence: "enqueue " + view.Plural(jobs, "job"), Count: jobs}); !ok {
			return err
		}
		in = bufio.NewScanner(bytes.NewReader(text))
		in.Buffer(nil, longestLine)
	}
	batch := lineBatch{o: o, n: &n}
	for in.Scan() {
		n.lines++
		line := bytes.TrimSpace(in.Bytes())
		if len(line) == 0 {
			continue
		}
		job := like
		err := job.read(line)
		var item goworker.Item
		if err == nil {
			item, err = job.item()
		}
		if err != nil {
			batch.refuse(n.lines, err)
			continue
		}
		if err := batch.add(ctx, n.lines, item); err != nil {
			return errors.Join(err, o.enqueued(ctx, "jobs of standard input", int64(n.enqueued)), n.print(o))
		}
	}
	err := in.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("line %d is longer than 8 MiB; nothing from it on was enqueued", n.lines+1)
	}
	err = errors.Join(err, batch.send(ctx))
	if err = errors.Join(err, o.enqueued(ctx, "jobs of standard input", int64(n.enqueued)), n.print(o)); err != nil {
		return err
	}
	switch {
	case n.refused > 0 && n.enqueued == 0 && n.duplicates == 0:
		return exitError{exitFailed, errors.New("no line was enqueued")}
	case n.refused > 0 || n.duplicates > 0:
		return partly("%s and %s were left out", view.Plural(int64(n.refused), "refused line"), view.Plural(int64(n.duplicates), "duplicate"))
	}
	return nil
}

// read fills in what a line says.
func (j *toEnqueue) read(line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	j.Meta = nil
	if err := d.Decode(j); err != nil {
		return fmt.Errorf("it is no job: %w", err)
	}
	if d.More() {
		return errors.New("it is more than one job; write each on a line of its own")
	}
	return nil
}

func (n *counts) print(o *operator) error {
	return o.print(view.Object{{Key: "enqueued", Value: n.enqueued}, {Key: "duplicates", Value: n.duplicates}, {Key: "refused", Value: n.refused}, {Key: "lines", Value: n.lines}},
		view.Plural(int64(n.enqueued), "job")+" enqueued")
}

// lineBatch collects the jobs of lines for one step.
type lineBatch struct {
	o     *operator
	n     *counts
	items []goworker.Item
	lines []int // their numbers
}

func (b *lineBatch) refuse(line int, err error) {
	b.n.refused++
	b.o.note("line %d is refused: %v", line, err)
}

func (b *lineBatch) add(ctx context.Context, line int, item goworker.Item) error {
	b.items, b.lines = append(b.items, item), append(b.lines, line)
	if len(b.items) < enqueueTogether {
		return nil
	}
	return b.send(ctx)
}

// send enqueues what was collected. Where Redis or the client refuses one of the jobs, none is enqueued; then each goes by itself, and the refused ones are
// named.
func (b *lineBatch) send(ctx context.Context) error {
	items, lines := b.items, b.lines
	b.items, b.lines = nil, nil
	if len(items) == 0 {
		return nil
	}
	one, cancel := b.o.within(ctx)
	defer cancel()
	receipts, err := b.o.client().EnqueueMany(one, items...)
	switch {
	case err == nil:
	case len(items) == 1 && !broken(one, err):
		b.refuse(lines[0], err)
		return nil
	case broken(one, err):
		return fmt.Errorf("lines %d to %d: %w", lines[0], lines[len(lines)-1], b.o.late(one, err))
	default:
		for n := range items {
			alone := lineBatch{o: b.o, n: b.n, items: items[n : n+1], lines: lines[n : n+1]}
			if err := alone.send(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	for n, r := range receipts {
		if r.Duplicate != nil {
			b.n.duplicates++
			b.o.note("line %d is a duplicate: %v", lines[n], r.Duplicate)
			continue
		}
		b.n.enqueued++
	}
	return nil
}

// broken reports whether an error is about the way to Redis, and not about a job.
func broken(ctx context.Context, err error) bool {
	return ctx.Err() != nil || conn.Away(err) || errors.Is(err, goworker.ErrUnconfirmed)
}
