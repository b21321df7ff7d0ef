package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/shell"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect/checks"
)

// doctor runs the checks.
func (p *program) doctor() *cobra.Command {
	var strict, fix bool
	var files fileChecks
	c := p.long(&cobra.Command{
		Use: "doctor [CHECK…]", Short: "Look for what is wrong with Redis, its keys and the fleet",
		Long: "doctor runs all checks, or those with the numbers that are given. A check says ok, found, not all seen, or could not look;\n" +
			"the last two are no ok. The exit code is 5 where it found an error; with --strict 6 where it is not ok in another way.\n" +
			"With --fix it mends what can be mended, one finding after the other, and asks before each.\n" +
			"With --manifest or --unit it looks at these files before.",
		Example: "  goworker doctor\n  goworker doctor --budget 20s --strict\n  goworker doctor --fix 24\n  goworker doctor --unit /etc/systemd/system/worker.service --stop-time 25s",
	}, func(ctx context.Context, o *operator, args []string) error {
		options := checks.Options{Budget: o.budget, Accept: o.place.Accept, ReadOnly: o.p.changeless()}
		for _, a := range args {
			var n int
			if _, err := fmt.Sscanf(a, "%d", &n); err != nil || fmt.Sprint(n) != a || checks.ByNumber(n) == nil {
				return usagef("there is no check %s; goworker doctor --json lists them", a)
			}
			options.Only = append(options.Only, n)
		}
		if fix && o.p.changeless() {
			return usagef("--fix changes what it mends, and --read-only or GOWORKER_READ_ONLY forbids that: leave it out")
		}
		return o.doctor(ctx, options, strict, fix, files)
	})
	c.Flags().BoolVar(&strict, "strict", false, "end with 6 unless every check is ok or accepted")
	c.Flags().BoolVar(&fix, "fix", false, "mend what can be mended, after asking")
	files.flags(c.Flags())
	return c
}

// mostMended is how many findings of one check --fix mends.
const mostMended = 1000

// tally counts how checks ended.
type tally struct {
	checks                                        map[string]bool
	ok, warnings, errors, partly, blind, accepted int

	redises, away int
}

func (o *operator) doctor(ctx context.Context, options checks.Options, strict, fix bool, files fileChecks) error {
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, o.timeout+options.Budget, errDeadline)
	defer cancel()
	t := tally{checks: make(map[string]bool), redises: len(o.clients)}
	var fixable []checks.Finding
	inFiles, err := files.run()
	if err != nil {
		return err
	}
	for _, f := range inFiles {
		t.add(f)
		if err := o.finding(f); err != nil {
			return err
		}
	}
	if fix {
		options.Most = mostMended
	}
	var away []error
	for f, err := range checks.Run(limited, o.in, options) {
		if err != nil { // of several Redises the next one follows
			if err = o.late(limited, err); f.Shard != "" {
				err = fmt.Errorf("shard %s: %w", f.Shard, err)
			}
			away = append(away, err)
			continue
		}
		t.add(f)
		if err := o.finding(f); err != nil {
			return err
		}
		if f.State == checks.Found && f.Fixable() {
			fixable = append(fixable, f)
		}
	}
	t.away = len(away)
	if !o.json && len(t.checks) > 0 {
		fmt.Fprintln(o.out, t.String(time.Since(began)))
		if t.errors+t.warnings > 0 {
			fmt.Fprintln(o.out, "runbook: "+checks.Runbook)
		}
	}
	if fix {
		if err := o.fix(ctx, fixable, &t); err != nil {
			return err
		}
	}
	switch {
	case len(away) > 0:
		return errors.Join(away...)
	case t.errors > 0:
		return exitError{exitFound, nil}
	case strict && t.warnings+t.partly+t.blind > 0:
		return exitError{exitWarned, nil}
	}
	return nil
}

// add counts a finding.
func (t *tally) add(f checks.Finding) {
	t.checks[f.Check.Name] = true
	n := 1 + f.More
	switch f.State {
	case checks.OK:
		t.ok++
	case checks.Accepted:
		t.accepted += n
	case checks.NotAllSeen:
		t.partly++
	case checks.CouldNotLook:
		t.blind++
	case checks.Found:
		if f.Check.Severity == checks.Error {
			t.errors += n
		} else {
			t.warnings += n
		}
	}
}

func (t *tally) String(took time.Duration) string {
	text := view.Plural(int64(len(t.checks)), "check")
	if t.redises > 1 {
		text += fmt.Sprintf(" of %d Redises", t.redises)
	}
	text += fmt.Sprintf(": %d ok", t.ok)
	for _, part := range []struct {
		n    int
		text string
	}{{t.errors, "error"}, {t.warnings, "warning"}} {
		if part.n > 0 {
			text += ", " + view.Plural(int64(part.n), part.text)
		}
	}
	for _, part := range []struct {
		n    int
		text string
	}{{t.partly, "not all seen"}, {t.blind, "could not look"}, {t.accepted, "accepted"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.text)
		}
	}
	if t.redises > 1 && t.away > 0 {
		text += fmt.Sprintf(", %d of the Redises did not answer", t.away)
	}
	return text + " (" + view.Span(took.Round(time.Millisecond)) + ")"
}

// finding prints what a check says, unless it is ok; in JSON that too.
func (o *operator) finding(f checks.Finding) error {
	if o.json {
		return o.print(o.findingObject(f), "")
	}
	mark := ""
	switch f.State {
	case checks.OK:
		return nil
	case checks.Found:
		mark = "warn"
		if f.Check.Severity == checks.Error {
			mark = "error"
		}
	case checks.Accepted:
		mark = "known"
	default:
		mark = "?"
	}
	const indent = "         "
	width := o.width
	if width == 0 {
		width = 1 << 20
	}
	sentence := fmt.Sprintf("%d %s", f.Check.Number, f.Sentence)
	if f.Check.Number == 0 { // of a file, which the sentence begins with
		sentence = f.Sentence
	}
	if f.Shard != "" {
		sentence = fmt.Sprintf("%d %s: %s", f.Check.Number, o.places[f.Shard], f.Sentence)
	}
	var b strings.Builder
	lines := view.Wrap(view.Text(sentence), width-7, "")
	b.WriteString(fmt.Sprintf("%-7s", mark) + strings.ReplaceAll(lines, "\n", "\n       ") + "\n")
	if words := f.Remedy.Words; words != "" && f.State != checks.Accepted {
		var more []string
		if f.Fixable() {
			more = append(more, fmt.Sprintf("or doctor --fix %d", f.Check.Number))
		}
		if trouble := f.Check.Trouble().Number; trouble > 0 {
			more = append(more, fmt.Sprintf("runbook %d", trouble))
		}
		if len(more) > 0 {
			words += " (" + strings.Join(more, "; ") + ")"
		}
		b.WriteString(indent + strings.ReplaceAll(view.Wrap(view.Text(words), width-len(indent), ""), "\n", "\n"+indent) + "\n")
	}
	if line := o.aimed(f.Remedy.Command); line != "" && shell.Printable(line) && f.State != checks.Accepted {
		b.WriteString(indent + line + "\n") // a command is not broken: it is copied
	} else if f.Fixable() && f.State != checks.Accepted {
		if own, ok := o.paste(fmt.Sprintf("doctor --fix %d", f.Check.Number)); ok {
			b.WriteString(indent + own + "\n")
		}
	}
	if f.More > 0 {
		b.WriteString(indent + fmt.Sprintf("… and %s more\n", view.Count(int64(f.More))))
	}
	_, err := io.WriteString(o.out, b.String())
	return err
}

// findingObject is a finding in JSON.
func (o *operator) findingObject(f checks.Finding) view.Object {
	var subject view.Object
	for _, key := range sortedKeys(f.Subject) {
		subject = append(subject, view.Field{Key: key, Value: f.Subject[key]})
	}
	object := view.Object{
		{Key: "check", Value: f.Check.Number}, {Key: "name", Value: f.Check.Name}, {Key: "severity", Value: f.Check.Severity.String()}, {Key: "state", Value: f.State.String()},
		{Key: "seen", Value: f.Seen}, {Key: "sentence", Value: f.Sentence}, {Key: "remedy", Value: f.Remedy.Words}, {Key: "command", Value: o.aimed(f.Remedy.Command)},
		{Key: "rule", Value: f.Rule}, {Key: "subject", Value: subject}, {Key: "more", Value: f.More}, {Key: "fixable", Value: f.Fixable()},
		{Key: "runbook", Value: f.Check.RunbookURL()},
	}
	if f.Shard != "" {
		object = object.With("shard", f.Shard)
	}
	return object
}

// fix mends findings, each after asking.
func (o *operator) fix(ctx context.Context, findings []checks.Finding, t *tally) error {
	if len(findings) == 0 {
		o.note("there is nothing that --fix mends")
		return nil
	}
	o.by("doctor")
	for _, f := range findings {
		goOn, err := o.confirm(ctx, plan{
			Sentence: fmt.Sprintf("mend what check %d found: %s", f.Check.Number, view.Text(f.Sentence)), Count: 1,
			Object: view.Object{{Key: "check", Value: f.Check.Number}},
		})
		switch {
		case errors.Is(err, errSilent):
			return nil // what is left stays in the tally
		case err != nil && !errors.Is(err, errDeclined):
			return err
		case !goOn:
			continue
		}
		limited, cancel := o.within(ctx)
		changed, err := checks.Fix(limited, o.in, f)
		err = o.late(limited, err)
		cancel()
		if err != nil {
			return err
		}
		text := "mended"
		if !changed {
			text = "it is not there any more; nothing was changed"
		}
		if changed && f.Check.Severity == checks.Error {
			t.errors--
		} else if changed {
			t.warnings--
		}
		if err := o.print(view.Object{{Key: "check", Value: f.Check.Number}, {Key: "fixed", Value: changed}}, fmt.Sprintf("%d %s", f.Check.Number, text)); err != nil {
			return err
		}
	}
	return nil
}
