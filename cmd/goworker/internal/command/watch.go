package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

// watch shows a status that changes, until the operator ends it.
func (o *operator) watch(ctx context.Context, every time.Duration) error {
	if !o.terminal {
		return o.watchPlain(ctx, every)
	}
	w := &watcher{o: o, ctx: ctx, every: every, width: o.width, height: o.height}
	_, err := tea.NewProgram(w, tea.WithAltScreen(), tea.WithContext(ctx), tea.WithInput(o.stdin), tea.WithOutput(o.out), tea.WithoutSignalHandler()).Run()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case w.interrupted:
		return exitError{exitInterrupted, nil}
	case errors.Is(err, tea.ErrProgramKilled), errors.Is(err, tea.ErrInterrupted):
		return exitError{exitInterrupted, nil}
	}
	return err
}

// watchPlain prints one frame below the other, where the output is no terminal.
func (o *operator) watchPlain(ctx context.Context, every time.Duration) error {
	var before *inspect.Sample
	for {
		s, err := o.look(ctx, before)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			o.note("%s", err)
		}
		if len(s.Sample.Servers) > 0 {
			if _, err := io.WriteString(o.out, view.Frame(s, o.width, 0)+"\n"); err != nil {
				return err
			}
			before = &s.Sample
		}
		if err := sleep(ctx, every); err != nil {
			return err
		}
	}
}

// What the watcher hears of.
type (
	looked struct {
		status view.Status
		err    error
	}
	due    struct{}
	waits  struct{ question int } // a second is over
	paused struct {
		queue string
		to    bool
		err   error
	}
	peeked struct {
		queue string
		page  inspect.Page
		err   error
	}
)

// watcher is the state of status --watch. Only the loop of its program touches it; what asks Redis runs beside it and hands in
// what it heard.
type watcher struct {
	o             *operator
	ctx           context.Context
	every         time.Duration
	width, height int

	status      view.Status
	seen        bool      // there is a sample
	question    int       // the number of the one that Redis was asked last
	asked       time.Time // when; zero: it was answered
	typing      bool      // a filter
	asking      string
	resume      bool   // what asking asks is to resume
	said        string // the answer to the last key
	help        bool
	jobs        *peeked
	interrupted bool
}

func (w *watcher) Init() tea.Cmd { return w.ask() }

// ask takes a sample, and compares it with the last one.
func (w *watcher) ask() tea.Cmd {
	var before *inspect.Sample
	if w.seen {
		last := w.status.Sample
		before = &last
	}
	w.question++
	w.asked = time.Now()
	return tea.Batch(w.second(), func() tea.Msg {
		s, err := w.o.look(w.ctx, before)
		return looked{s, err}
	})
}

// second says when a second of the question is over, so that the screen says that Redis is silent before the question has ended.
func (w *watcher) second() tea.Cmd {
	question := w.question
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return waits{question} })
}

// failed is what the screen says of a question that failed, or has no answer yet.
func (w *watcher) failed(text string) string {
	if !w.seen {
		return text
	}
	return text + "; the numbers are those of " + view.Time(w.status.Sample.At)
}

// Update takes what happened and says what to do.
func (w *watcher) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		w.width, w.height = m.Width, m.Height
	case looked:
		w.asked = time.Time{}
		text := ""
		if m.err != nil {
			text = view.Text(strings.TrimPrefix(m.err.Error(), "goworker: "))
		}
		if w.status.Failed = text; m.err != nil && len(m.status.Sample.Servers) == 0 {
			w.status.Failed = w.failed(text)
		}
		if len(m.status.Sample.Servers) > 0 {
			w.status.Sample, w.status.Rates, w.status.Alarms = m.status.Sample, m.status.Rates, m.status.Alarms
			w.status.Colour, w.status.Places = m.status.Colour, m.status.Places
			w.seen = true
		}
		return w, tea.Tick(w.every, func(time.Time) tea.Msg { return due{} })
	case waits:
		if m.question != w.question || w.asked.IsZero() {
			return w, nil
		}
		const patience = 2 * time.Second
		if silent := time.Since(w.asked); silent >= patience {
			w.status.Failed = w.failed("Redis has not answered for " + view.Span(silent.Round(time.Second)))
		}
		return w, w.second()
	case due:
		return w, w.ask()
	case paused:
		w.said = "paused " + view.Text(m.queue)
		if !m.to {
			w.said = "resumed " + view.Text(m.queue)
		}
		if m.err != nil {
			w.said = view.Text(m.err.Error())
		}
	case peeked:
		w.jobs = &m
	case tea.KeyMsg:
		return w, w.keys(m)
	}
	return w, nil
}

// keys obeys keys. Those that came at once, over a slow line, are one message.
func (w *watcher) keys(k tea.KeyMsg) tea.Cmd {
	if k.Type != tea.KeyRunes || len(k.Runes) < 2 {
		return w.key(k)
	}
	var all []tea.Cmd
	for _, r := range k.Runes {
		one := k
		one.Runes, one.Paste = []rune{r}, false
		all = append(all, w.key(one))
	}
	return tea.Batch(all...)
}

// key obeys a key.
func (w *watcher) key(k tea.KeyMsg) tea.Cmd {
	name := k.String()
	w.said = ""
	switch {
	case name == "ctrl+c":
		w.interrupted = true
		return tea.Quit
	case w.typing:
		w.filter(k)
		return nil
	case w.asking != "":
		queue, resume := w.asking, w.resume
		w.asking = ""
		if name == "y" {
			return func() tea.Msg { return w.pause(queue, !resume) }
		}
		return nil
	case w.help || w.jobs != nil:
		w.help, w.jobs = false, nil
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "?", "h":
		w.help = true
	case "n":
		w.status.Order = view.ByName
	case "w":
		w.status.Order = view.ByWaiting
	case "o":
		w.status.Order = view.ByOldest
	case "/":
		w.typing, w.status.Filter = true, ""
	case "up", "k":
		w.move(-1)
	case "down", "j":
		w.move(1)
	case "pgup":
		w.move(-10)
	case "pgdown":
		w.move(10)
	case "esc":
		w.status.Cursor, w.status.Filter = false, ""
	case "p":
		w.askPause()
	case "enter":
		if w.status.Cursor {
			queue := w.status.Chosen
			return func() tea.Msg { return w.peek(queue) }
		}
	}
	return nil
}

// filter takes a key of the filter's text.
func (w *watcher) filter(k tea.KeyMsg) {
	switch k.Type {
	case tea.KeyEnter:
		w.typing = false
	case tea.KeyEsc:
		w.typing, w.status.Filter = false, ""
	case tea.KeyBackspace:
		if runes := []rune(w.status.Filter); len(runes) > 0 {
			w.status.Filter = string(runes[:len(runes)-1])
		}
	case tea.KeyRunes, tea.KeySpace:
		w.status.Filter += string(k.Runes)
	}
}

// move moves the cursor among the queues.
func (w *watcher) move(by int) {
	queues := w.status.Queues()
	if len(queues) == 0 {
		return
	}
	at := slices.IndexFunc(queues, func(q inspect.SampleQueue) bool { return q.Name == w.status.Chosen })
	if !w.status.Cursor || at < 0 {
		at, by = 0, 0
	}
	w.status.Cursor, w.status.Chosen = true, queues[min(max(0, at+by), len(queues)-1)].Name
}

// askPause asks whether to pause the chosen queue, or to resume it.
func (w *watcher) askPause() {
	queues := w.status.Queues()
	at := slices.IndexFunc(queues, func(q inspect.SampleQueue) bool { return w.status.Cursor && q.Name == w.status.Chosen })
	switch {
	case at < 0:
		w.said = "choose a queue first, by the arrow keys"
	case w.o.p.changeless():
		w.said = "--read-only or GOWORKER_READ_ONLY forbids changes"
	case w.o.place.Protect:
		w.said = "this context is protected: use goworker queues pause"
	default:
		w.asking, w.resume = queues[at].Name, queues[at].Paused
	}
}

func (w *watcher) pause(queue string, to bool) tea.Msg {
	ctx, cancel := w.o.within(w.ctx)
	defer cancel()
	by := w.o.in.By(w.o.p.who(), "").Face(face)
	if err := by.Recordable(ctx); err != nil {
		return paused{queue, to, err}
	}
	if to {
		return paused{queue, to, by.PauseQueue(ctx, queue)}
	}
	return paused{queue, to, by.ResumeQueue(ctx, queue)}
}

func (w *watcher) peek(queue string) tea.Msg {
	const most = 100
	ctx, cancel := w.o.within(w.ctx)
	defer cancel()
	page, err := w.o.in.List(ctx, queue, "", most)
	return peeked{queue, page, err}
}

// View draws the screen.
func (w *watcher) View() string {
	switch {
	case w.help:
		return view.Lines(keys)
	case w.jobs != nil:
		return w.drawJobs()
	case !w.seen && w.status.Failed == "":
		return "looking…\n"
	case !w.seen:
		return view.Wrap(w.status.Failed, max(20, w.width), "") + "\nIt goes on trying. q ends it.\n"
	}
	s := w.status
	switch {
	case w.typing:
		s.Prompt = "/" + view.Text(s.Filter) + "▏"
	case w.asking != "" && w.resume:
		s.Prompt = fmt.Sprintf("Resume the queue %s? [y/N]", view.Text(w.asking))
	case w.asking != "":
		s.Prompt = fmt.Sprintf("Pause the queue %s in the whole fleet? [y/N]", view.Text(w.asking))
	case w.said != "":
		s.Prompt = w.said
	default:
		s.Prompt = "? keys  q quit"
	}
	return strings.TrimSuffix(view.Frame(s, w.width, w.height), "\n")
}

const keys = `up, down   choose a queue
enter      the first jobs of the chosen queue
p          pause the chosen queue, or resume it (asks)
/          show only queues with a text in their names; esc ends it
n w o      sort by name, waiting, oldest
q          quit

any key goes back`

// drawJobs draws the first jobs of a queue.
func (w *watcher) drawJobs() string {
	lines := []string{"the head of the queue " + view.Text(w.jobs.queue), ""}
	if w.jobs.err != nil {
		lines = append(lines, view.Text(w.jobs.err.Error()))
	}
	if len(w.jobs.page.Jobs) == 0 && w.jobs.err == nil {
		lines = append(lines, "no job waits in it")
	}
	for _, e := range w.jobs.page.Jobs {
		lines = append(lines, summary(e))
	}
	if room := max(3, w.height-1); len(lines) > room {
		lines = lines[:room]
	}
	for n, l := range lines {
		lines[n] = view.Cut(l, max(1, w.width))
	}
	return strings.Join(append(lines, "any key goes back"), "\n")
}
