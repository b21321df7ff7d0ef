package view

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"

	"github.com/goworker/goworker/inspect"
)

// Order is by what the queues of a Status are sorted.
type Order int

// The orders of queues.
const (
	ByName Order = iota
	ByWaiting
	ByOldest
)

// Alarm is a line of what needs an operator's eye.
type Alarm struct {
	Text    string // escaped
	Command string // what mends it, for a shell; it is never broken or cut. "": none
	Error   bool   // else it is a warning
}

// Status is what status shows.
type Status struct {
	Sample inspect.Sample
	Rates  *inspect.Rates // nil: there was one sample only
	Alarms []Alarm

	Order  Order
	Filter string // only queues with this in their names
	Chosen string // the queue that the cursor is on
	Cursor bool   // there is one

	Places map[string]string // how each of several Redises is named, by its whole name; nil: there is one

	Prompt string // what is asked, or said, below all else; escaped
	Failed string // why the sample is an old one; escaped
	Colour bool
}

// styles are those of a terminal with sixteen colours, which all have.
type styles struct{ head, faint, warn, bad, chosen func(string) string }

func (s Status) styles() styles {
	plain := func(t string) string { return t }
	if !s.Colour {
		return styles{plain, plain, plain, plain, plain}
	}
	r := lipgloss.NewRenderer(io.Discard, termenv.WithProfile(termenv.ANSI))
	draw := func(style lipgloss.Style) func(string) string {
		return func(t string) string { return style.Render(t) }
	}
	return styles{
		head: draw(r.NewStyle().Bold(true)), faint: draw(r.NewStyle().Faint(true)),
		warn: draw(r.NewStyle().Foreground(lipgloss.Color("3"))), bad: draw(r.NewStyle().Foreground(lipgloss.Color("1"))),
		chosen: draw(r.NewStyle().Reverse(true)),
	}
}

// Queues returns the queues that are shown, in their order.
func (s Status) Queues() []inspect.SampleQueue {
	var shown []inspect.SampleQueue
	for _, q := range s.Sample.Queues {
		if strings.Contains(q.Name, s.Filter) {
			shown = append(shown, q)
		}
	}
	slices.SortStableFunc(shown, func(a, b inspect.SampleQueue) int {
		switch s.Order {
		case ByWaiting:
			return cmp.Compare(b.Waiting.N, a.Waiting.N)
		case ByOldest:
			return cmp.Compare(b.Oldest.For, a.Oldest.For)
		}
		return 0
	})
	return shown
}

// Frame draws a status: at most so many cells wide and, unless height is 0, so many lines high. Of more queues than have room it
// shows those around the chosen one. A width of 0 cuts nothing.
func Frame(s Status, width, height int) string {
	st := s.styles()
	head := s.head(st, width)
	if scaled := s.scaled(width); height == 0 || len(head)+len(scaled) <= height/2 { // the queues come first
		head = slices.Insert(head, len(head)-1, scaled...)
	}
	foot := s.foot(st, width, height > 0)
	rows := s.rows(width)
	room := len(rows) - 1
	more := ""
	if height > 0 {
		if most := max(1, (height-len(head))/3); len(foot) > most { // the queues have room too
			foot = append(foot[:most-1], fmt.Sprintf("! … and %d more", len(foot)-most+1))
		}
		room = max(1, height-len(head)-len(foot)-2)
		if s.Prompt != "" {
			room = max(1, room-1)
		}
	}
	lines := head
	if len(rows) > 0 {
		lines = append(lines, st.head(rows[0]))
	}
	shown := s.Queues()
	first := 0
	if queues := len(rows) - 1; queues > room {
		room = max(1, room-1)
		chosen := max(0, slices.IndexFunc(shown, func(q inspect.SampleQueue) bool { return q.Name == s.Chosen }))
		first = min(max(0, chosen-room/2), queues-room)
		more = fmt.Sprintf("… %s shown of %s", Count(int64(room)), Plural(int64(queues), "queue"))
	}
	for n := first; n < min(first+room, len(rows)-1); n++ {
		row := rows[n+1]
		switch {
		case s.Cursor && shown[n].Name == s.Chosen:
			row = st.chosen(pad(row, width, false))
		case shown[n].Paused:
			row = st.faint(row)
		}
		lines = append(lines, row)
	}
	if more != "" {
		lines = append(lines, st.faint(more))
	}
	lines = append(lines, foot...)
	if s.Prompt != "" {
		lines = append(lines, fit(s.Prompt, width))
	}
	if height > 0 && len(lines) > height { // a screen of a few lines
		lines = append(lines[:height-1], lines[len(lines)-1])
	}
	return strings.Join(lines, "\n") + "\n"
}

func fit(line string, width int) string {
	if width > 0 {
		return Cut(line, width)
	}
	return line
}

// words joins parts by two blanks into lines that fit.
func words(width int, parts ...string) []string {
	var lines []string
	line := ""
	for _, p := range parts {
		if p == "" {
			continue
		}
		if line != "" && width > 0 && Width(line)+2+Width(p) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += "  "
		}
		line += p
	}
	lines = append(lines, line)
	for n, l := range lines {
		lines[n] = fit(l, width)
	}
	return lines
}

// Scaled are the processes that change their number of workers by themselves.
func (s Status) Scaled() (all []inspect.SampleProcess) {
	for _, p := range s.Sample.Processes {
		if p.Vitals.Autoscale.Max > 0 {
			all = append(all, p)
		}
	}
	return all
}

// mostScaled is how many of them have a line.
const mostScaled = 3

// scaled are the lines that say why they have so many workers.
func (s Status) scaled(width int) (lines []string) {
	for n, p := range s.Scaled() {
		if n == mostScaled {
			return append(lines, fit(fmt.Sprintf("autoscale  … and %s more: goworker processes show", Count(int64(len(s.Scaled())-n))), width))
		}
		a, id := p.Vitals.Autoscale, Text(p.ID)
		why := fmt.Sprintf("  %d of %d..%d  %s", p.Vitals.Workers, a.Min, a.Max, Text(a.Reason))
		if width > 0 {
			id = fit(id, max(8, width-Width("autoscale  ")-Width(why)))
		}
		lines = append(lines, fit("autoscale  "+id+why, width))
	}
	return lines
}

// head are the lines above the queues.
func (s Status) head(st styles, width int) []string {
	a := s.Sample
	var lines []string
	for _, server := range a.Servers {
		redis := "Redis " + Text(server.Version)
		for _, more := range []string{Text(server.Policy), Text(server.Persistence)} {
			if more != "" {
				redis += ", " + more
			}
		}
		if server.Role != "" && server.Role != "master" {
			redis += ", a replica"
		}
		memory := ""
		if server.MaxMemory > 0 {
			memory = Bytes(server.Memory) + " of " + Bytes(server.MaxMemory)
		}
		lines = append(lines, words(width, Text(a.Namespace)+" at "+Text(Place(server.Name)), redis, memory, Time(a.At))...)
	}
	for n := range lines {
		lines[n] = st.head(lines[n])
	}
	rate := func(n inspect.Count, r func(inspect.Rates) inspect.Rate) string {
		text := Number(n)
		if s.Rates != nil {
			if got := r(*s.Rates); got.Known() {
				text += " (" + PerTime(got.PerSecond) + ")"
			}
		}
		return text
	}
	lines = append(lines, words(width,
		"processed "+rate(a.Processed, func(r inspect.Rates) inspect.Rate { return r.Processed }),
		"failed "+rate(a.Failed, func(r inspect.Rates) inspect.Rate { return r.Failed }),
		"waiting "+Number(a.Waiting), "delayed "+Number(a.Delayed), "retrying "+Number(a.Retrying), "failures "+Number(a.Failures),
		some("leased ", a.Leased), late(a.Late))...)
	workers := "workers "
	if a.Workers.Go.N > 0 || !a.Workers.Go.Known() {
		workers += Number(a.Workers.Go) + " go + "
	}
	workers += Number(a.Workers.Other) + " other"
	if a.Workers.Dead.N > 0 {
		workers += " (" + Number(a.Workers.Dead) + " dead)"
	}
	workers += ", " + Number(a.Workers.Busy) + " busy"
	if alive := a.Workers.All.N - a.Workers.Dead.N; a.Workers.All.Bound == inspect.Exact && a.Workers.Busy.Bound == inspect.Exact && alive > 0 {
		workers += " (" + Percent(a.Workers.Busy.N, alive) + ")"
	}
	processes := fmt.Sprintf("processes %d", len(a.Processes))
	servers := ""
	if len(a.Servings) > 0 {
		servers = fmt.Sprintf("http servers %d", len(a.Servings))
	}
	stuck := ""
	if len(a.Stuck) > 0 {
		stuck = fmt.Sprintf("stuck %d", len(a.Stuck))
	}
	lines = append(lines, words(width, processes, workers, servers, stuck)...)
	if s.Failed != "" {
		text := "! " + s.Failed
		if width > 0 {
			text = Wrap(text, width, "  ")
		}
		for line := range strings.SplitSeq(text, "\n") {
			lines = append(lines, st.bad(line))
		}
	}
	return append(lines, "")
}

func some(name string, n inspect.Count) string {
	if n.N == 0 {
		return ""
	}
	return name + Number(n)
}

func late(a inspect.Age) string {
	if !a.Known() || a.For == 0 {
		return ""
	}
	return "late " + Age(a)
}

// rows are the lines of the queues, the first with the names of the columns.
func (s Status) rows(width int) []string {
	t := Table{Columns: []Column{
		{Head: "QUEUE", Cut: true}, {Head: "WAITING", Right: true}, {Head: "OLDEST", Right: true}, {Head: "IN/S", Right: true},
		{Head: "OUT/S", Right: true}, {Head: "EMPTY IN", Right: true}, {Head: "SERVED BY", Cut: true},
	}}
	if len(s.Places) > 0 {
		t.Columns = append(t.Columns, Column{Head: "REDIS", Cut: true})
	}
	for _, q := range s.Queues() {
		name := Text(q.Name)
		if q.Paused {
			name += "  (paused)"
		}
		in, out, empty := "?", "?", "?"
		if s.Rates != nil {
			if r, ok := s.Rates.Queues[q.Name]; ok {
				in, out, empty = rateText(r.In), rateText(r.Out), emptyIn(q, r)
			}
		}
		if q.Waiting.N == 0 && q.Waiting.Bound == inspect.Exact {
			empty = "-"
		}
		row := []string{name, Number(q.Waiting), Oldest(q), in, out, empty, ServedBy(q)}
		if len(s.Places) > 0 {
			row = append(row, cmp.Or(Text(s.Places[q.Shard]), "several"))
		}
		t.Rows = append(t.Rows, row)
	}
	if len(t.Rows) == 0 {
		if s.Filter != "" {
			return []string{"no queue has " + Text(s.Filter) + " in its name"}
		}
		return []string{"there are no queues"}
	}
	return strings.Split(strings.TrimSuffix(t.Draw(width), "\n"), "\n")
}

func rateText(r inspect.Rate) string {
	switch {
	case !r.Known():
		return "?"
	case r.Bound == inspect.AtLeast && r.PerSecond == 0:
		return "?"
	case r.Bound == inspect.AtLeast:
		return "≥" + Rate(r.PerSecond)
	case r.Bound == inspect.AtMost:
		return "≤" + Rate(r.PerSecond)
	}
	return Rate(r.PerSecond)
}

func emptyIn(q inspect.SampleQueue, r inspect.QueueRates) string {
	switch {
	case r.Never:
		return "never"
	case r.EmptyIn > 0:
		return Span(r.EmptyIn)
	case q.Waiting.N == 0:
		return "-"
	}
	return "?"
}

// Oldest says how long the job at the head of a queue has waited; "-" where none waits.
func Oldest(q inspect.SampleQueue) string {
	if q.Waiting.N == 0 && q.Waiting.Bound == inspect.Exact {
		return "-"
	}
	return Age(q.Oldest)
}

// ServedBy says what takes from a queue: "50", "20 other", "2 http", "nobody".
func ServedBy(q inspect.SampleQueue) string {
	var parts []string
	add := func(n inspect.Count, of string) {
		if n.N > 0 || !n.Known() {
			parts = append(parts, Number(n)+of)
		}
	}
	add(q.Go, "")
	add(q.Other, " other")
	add(q.HTTP, " http")
	if len(parts) == 0 {
		return "nobody"
	}
	return strings.Join(parts, " + ")
}

// foot are the lines below the queues. On a screen each alarm has one line.
func (s Status) foot(st styles, width int, screen bool) []string {
	var lines []string
	alarm := func(style func(string) string, text, command string) {
		if whole := text + ": " + command; command != "" && (width == 0 || Width("! "+whole) <= width) {
			text, command = whole, ""
		}
		switch text = "! " + text; {
		case width > 0 && screen:
			lines = append(lines, style(ansi.Truncate(text, width, "…")))
		case width > 0:
			for line := range strings.SplitSeq(Wrap(text, width, "  "), "\n") {
				lines = append(lines, style(line))
			}
		default:
			lines = append(lines, style(text))
		}
		if command != "" && !screen {
			lines = append(lines, "  "+command)
		}
	}
	for _, a := range s.Alarms {
		style := st.warn
		if a.Error {
			style = st.bad
		}
		alarm(style, a.Text, a.Command)
	}
	for _, err := range s.Sample.Refused {
		alarm(st.warn, Text(err.Error()), "")
	}
	return lines
}

// Number writes a count with its bound: 12,408, ≥1,000, ?.
func Number(c inspect.Count) string {
	switch c.Bound {
	case inspect.Exact:
		return Count(c.N)
	case inspect.AtLeast:
		return "≥" + Count(c.N)
	case inspect.AtMost:
		return "≤" + Count(c.N)
	}
	return "?"
}

// Age writes an age with the mark of its method: 12m3s, ≈4m10s, >2h, ?.
func Age(a inspect.Age) string {
	switch a.Method {
	case inspect.AgeExact:
		return Span(a.For)
	case inspect.AgeCounted:
		return "≈" + Span(a.For)
	case inspect.AgeSeen:
		return ">" + Span(a.For)
	}
	return "?"
}

// PerTime writes a rate in the unit that makes it readable: 312/s, 4/min.
func PerTime(perSecond float64) string {
	if perSecond > 0 && perSecond < 1 {
		return Rate(perSecond*time.Minute.Seconds()) + "/min"
	}
	return Rate(perSecond) + "/s"
}

// Place is a server's URI without what a reader does not need: redis-1:6379/0.
func Place(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		return uri
	}
	place := u.Host + strings.TrimSuffix(u.Path, "/")
	if u.Scheme != "redis" && u.Scheme != "rediss" {
		place = u.Scheme + "://" + place
	}
	return place
}
