package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
)

// plan is what a command is about to change. --dry-run prints it, and an operator confirms it.
type plan struct {
	Sentence string   // what happens: "remove 12,408 jobs of queue mail"
	Count    int64    // of jobs, failures, keys
	AtLeast  bool     // there may be more: the count was cut short
	Samples  []string // up to three of them, in words
	Notes    []string // what is not undone, and how the rest is
	Type     string   // what the operator types to confirm, such as the queue's name; "": y
	Object   view.Object
}

// errDeclined says that the operator did not confirm.
var errDeclined = errors.New("not confirmed; nothing was changed")

// errSilent is errDeclined where the input ended: no question after it is answered.
var errSilent = fmt.Errorf("%w", errDeclined)

// confirm shows a plan and asks. It reports whether to go on: with --dry-run not, and that is no error.
func (o *operator) confirm(ctx context.Context, p plan) (bool, error) {
	p.Sentence = view.Text(p.Sentence)
	if o.dryRun {
		return false, o.plan(o.out, p)
	}
	count := strconv.FormatInt(p.Count, 10)
	switch {
	case o.yes != "" && (!o.place.Protect || o.yes == count):
		return o.recordable(ctx)
	case o.yes != "":
		return false, usagef("the context %s is protected, and this concerns %s: confirm it with --yes=%s", o.place.Name, count, count)
	case !o.interactive():
		return false, usagef("this would %s, and there is no terminal to confirm it at: look with --dry-run, then give --yes", p.Sentence)
	}
	want := p.Type
	if o.place.Protect {
		want = count
	}
	if err := o.plan(o.errs, p); err != nil {
		return false, err
	}
	if want == "" {
		fmt.Fprint(o.errs, "Go on? [y/N] ")
	} else {
		fmt.Fprintf(o.errs, "Type %s to go on: ", view.Text(want))
	}
	answer, err := o.answer(ctx)
	if err != nil {
		return false, err
	}
	if want == "" && (strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")) || want != "" && answer == want {
		return o.recordable(ctx)
	}
	return false, usageError{errDeclined}
}

// plan prints what would change.
func (o *operator) plan(w io.Writer, p plan) error {
	if o.json {
		object := append(view.Object{{Key: "plan", Value: p.Sentence}, {Key: "count", Value: p.Count}, {Key: "at_least", Value: p.AtLeast}}, p.Object...)
		_, err := fmt.Fprintln(w, object.Line())
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "This would %s.\n", p.Sentence)
	if p.AtLeast {
		fmt.Fprintf(&b, "There may be more: the count stopped at %s.\n", view.Count(p.Count))
	}
	for _, s := range p.Samples[:min(3, len(p.Samples))] {
		s = view.Text(s)
		if o.width > 0 {
			s = view.Cut(s, o.width-2)
		}
		b.WriteString("  " + s + "\n")
	}
	for _, n := range p.Notes {
		b.WriteString(view.Text(n) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// answer reads a line that the operator types.
func (o *operator) answer(ctx context.Context) (string, error) {
	if o.lines == nil {
		o.lines = bufio.NewReader(o.stdin)
	}
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		text, err := o.lines.ReadString('\n')
		got <- line{text, err}
	}()
	select {
	case l := <-got:
		if l.err != nil && l.text == "" {
			return "", usageError{errSilent}
		}
		return strings.TrimSpace(l.text), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// who is the operator, for the audit: user@host.
func (p *program) who() string {
	name := "?"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	} else if text, ok := p.lookup("USER"); ok && text != "" {
		name = text
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return name + "@" + host
}

// recordable reports whether the change that was agreed to can stand in the audit. One that cannot is not made.
func (o *operator) recordable(ctx context.Context) (bool, error) {
	ctx, cancel := o.within(ctx)
	defer cancel()
	err := o.late(ctx, o.in.Recordable(ctx))
	return err == nil, err
}

// by makes the changes that follow carry the operator's name and reason in the audit.
func (o *operator) by(why string) { o.in = o.in.By(o.p.who(), why).Face(face) }

// face is the program that makes the changes, for the audit.
const face = "goworker"
