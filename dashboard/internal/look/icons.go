package look

import (
	"html"
	"html/template"
	"maps"
	"slices"
	"strings"
)

// shapes are the icons: 16 by 16, drawn with strokes of 1.5. "unknown" is shown for a name that is not among them.
var shapes = map[string]string{
	"overview": `<path d="M2.5 9.5h4v4h-4zM9.5 2.5h4v4h-4zM2.5 2.5h4v4h-4zM9.5 9.5h4v4h-4z"/>`,
	"queues":   `<path d="M2.5 4h11M2.5 8h11M2.5 12h7"/>`,
	"running":  `<circle cx="8" cy="8" r="5.5"/><path d="M6.75 5.75v4.5L10.5 8z"/>`,
	"failures": `<path d="M5.5 2.5h5l3 3v5l-3 3h-5l-3-3v-5z"/><path d="M8 5.25v3.25M8 10.75v.01"/>`,
	"delayed":  `<circle cx="8" cy="8" r="5.5"/><path d="M8 5v3.25L10 9.5"/>`,
	"schedule": `<path d="M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2.25V5M10.5 2.25V5"/>`,
	"flows":    `<circle cx="3.75" cy="8" r="1.5"/><circle cx="12.25" cy="4" r="1.5"/><circle cx="12.25" cy="12" r="1.5"/><path d="M5.25 8h2.5c1.5 0 1-4 3-4M7.75 8c1.5 0 1 4 3 4"/>`,
	"classes":  `<path d="M3 13.5V9M6.5 13.5v-11M10 13.5v-7M13.25 13.5V5"/>`,
	"limits":   `<path d="M2.75 11.5a5.5 5.5 0 1 1 10.5 0M8 10.5l2.75-3.25"/>`,
	"machines": `<path d="M2.5 2.75h11v4.5h-11zM2.5 8.75h11v4.5h-11zM5 5v.01M5 11v.01"/>`,
	"redis":    `<ellipse cx="8" cy="4" rx="5.25" ry="1.9"/><path d="M2.75 4v8c0 1 2.4 1.9 5.25 1.9s5.25-.9 5.25-1.9V4M2.75 8c0 1 2.4 1.9 5.25 1.9s5.25-.9 5.25-1.9"/>`,
	"audit":    `<path d="M6 4h7.5M6 8h7.5M6 12h7.5M2.5 4l.75.75L4.5 3.25M2.5 8l.75.75L4.5 7.25M2.5 12l.75.75 1.25-1.5"/>`,
	"search":   `<circle cx="7" cy="7" r="4.5"/><path d="M10.5 10.5l3 3"/>`,
	"pause":    `<path d="M5.5 3.5v9M10.5 3.5v9"/>`,
	"play":     `<path d="M5 3.25v9.5L12.5 8z"/>`,
	"retry":    `<path d="M13 8a5 5 0 1 1-1.6-3.65M13 2.5v3h-3"/>`,
	"undo":     `<path d="M3 8a5 5 0 1 0 1.6-3.65M3 2.5v3h3"/>`,
	"trash":    `<path d="M3 4.5h10M6.25 4.5v-2h3.5v2M4.25 4.5l.5 9h6.5l.5-9"/>`,
	"dots":     `<path d="M3.5 8v.01M8 8v.01M12.5 8v.01" stroke-width="2"/>`,
	"right":    `<path d="M6 3.5L10.5 8 6 12.5"/>`,
	"down":     `<path d="M3.5 6L8 10.5 12.5 6"/>`,
	"up":       `<path d="M3.5 10L8 5.5l4.5 4.5"/>`,
	"x":        `<path d="M4 4l8 8M12 4l-8 8"/>`,
	"check":    `<path d="M3 8.5l3.25 3.25L13 5"/>`,
	"done":     `<circle cx="8" cy="8" r="5.5"/><path d="M5.5 8.25l1.75 1.75 3.25-3.75"/>`,
	"failed":   `<circle cx="8" cy="8" r="5.5"/><path d="M6 6l4 4M10 6l-4 4"/>`,
	"waiting":  `<circle cx="8" cy="8" r="5.5" stroke-dasharray="2.2 2.2"/>`,
	"cancel":   `<circle cx="8" cy="8" r="5.5"/><path d="M4.25 11.75l7.5-7.5"/>`,
	"spinner":  `<path d="M13.5 8A5.5 5.5 0 1 1 8 2.5"/>`,
	"warn":     `<path d="M8 2.5l6 11H2zM8 6.5v3M8 11.5v.01"/>`,
	"info":     `<circle cx="8" cy="8" r="5.5"/><path d="M8 7.5v3.25M8 5.25v.01"/>`,
	"lock":     `<path d="M3.5 7h9v6.5h-9zM5.5 7V5a2.5 2.5 0 0 1 5 0v2"/>`,
	"eye":      `<path d="M1.75 8S4 3.75 8 3.75 14.25 8 14.25 8 12 12.25 8 12.25 1.75 8 1.75 8z"/><circle cx="8" cy="8" r="1.75"/>`,
	"edit":     `<path d="M10.5 3l2.5 2.5L5.5 13H3v-2.5z"/>`,
	"copy":     `<path d="M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3"/>`,
	"move":     `<path d="M2.5 8h10M9 4.5L12.5 8 9 11.5"/>`,
	"theme":    `<circle cx="8" cy="8" r="5.5"/><path d="M8 2.5v11M8 2.5a5.5 5.5 0 0 1 0 11" fill="currentColor"/>`,
	"stop":     `<path d="M4 4h8v8H4z"/>`,
	"plus":     `<path d="M8 3v10M3 8h10"/>`,
	"down2":    `<path d="M8 2.5v8M4.5 7.5L8 11l3.5-3.5M3 13.5h10"/>`,
	"person":   `<circle cx="8" cy="5.5" r="2.75"/><path d="M2.75 13.5c.5-3 2.5-4 5.25-4s4.75 1 5.25 4"/>`,
	"deploy":   `<path d="M8 13.5v-8M4.5 8L8 4.5 11.5 8M3 2.5h10"/>`,
	"sparkle":  `<path d="M8 2.5v3M8 10.5v3M2.5 8h3M10.5 8h3"/>`,
	"missed":   `<circle cx="8" cy="8" r="5.5"/><path d="M5.5 8h5"/>`,
	"http":     `<circle cx="8" cy="8" r="5.5"/><path d="M2.5 8h11M8 2.5c4 3.5 4 7.5 0 11M8 2.5c-4 3.5-4 7.5 0 11"/>`,
	"jobs":     `<path d="M3 5.5h10v8H3zM5.5 5.5v-2h5v2M3 9h10"/>`,
	"events":   `<path d="M2.5 8h2.75l1.75-4.5 2.5 9L11 8h2.5"/>`,
	"ops":      `<path d="M2.5 4.5h7M12 4.5h1.5M2.5 11.5h1.5M6.5 11.5h7"/><circle cx="10.75" cy="4.5" r="1.25"/><circle cx="5.25" cy="11.5" r="1.25"/>`,
	"key":      `<circle cx="5.5" cy="10.5" r="2.5"/><path d="M7.25 8.75L13 3M10.5 5.5l2 2"/>`,
	"link":     `<path d="M9 3h4v4M13 3L7.5 8.5M11.5 9.5v3.5h-8.5v-8.5H6.5"/>`,
	"unknown":  `<path d="M2.5 2.5h11v11h-11z" stroke-dasharray="2 2"/>`,
}

// Icons returns the sprite. It must be once on each page, before the first icon.
func Icons() template.HTML {
	var b strings.Builder
	b.WriteString(`<svg hidden>`)
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		b.WriteString(`<symbol id="i-` + name + `" viewBox="0 0 16 16">` + shapes[name] + `</symbol>`)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// HasIcon reports whether there is an icon of that name.
func HasIcon(name string) bool { return shapes[name] != "" }

// Icon returns an icon of the sprite with classes, such as the colour of a state. It says nothing to a screen reader:
// put a word beside it. For a name that is not known it is a dashed square.
func Icon(name string, class ...string) template.HTML {
	if !HasIcon(name) {
		name = "unknown"
	}
	return template.HTML(`<svg class="` + attr(strings.Join(append([]string{"i"}, class...), " ")) + `" aria-hidden="true"><use href="#i-` + name + `"/></svg>`)
}

// look of a state: the icon, its classes, and the word unless the caller has a better one.
type stateLook struct{ icon, class, word string }

// states has the states of jobs, queues, processes, schedules, steps and operations. The class "q" is of health, which
// is quiet.
var states = map[string]stateLook{
	"waiting":   {"waiting", "q", "waiting"},
	"pending":   {"waiting", "q", "pending"},
	"held":      {"lock", "q", "held by a limit"},
	"running":   {"spinner", "run spin", "running"},
	"leased":    {"spinner", "run", "leased"},
	"done":      {"done", "ok", "done"},
	"failed":    {"failed", "bad", "failed"},
	"retrying":  {"retry", "warn", "retrying"},
	"delayed":   {"delayed", "later", "delayed"},
	"snoozed":   {"delayed", "later", "snoozed"},
	"cancelled": {"cancel", "q", "cancelled"},
	"discarded": {"trash", "q", "discarded"},
	"expired":   {"delayed", "q", "expired"},
	"skipped":   {"move", "q", "skipped"},
	"missed":    {"missed", "warn", "missed"},
	"paused":    {"pause", "warn", "paused"},
	"partly":    {"pause", "warn", "partly paused"},
	"working":   {"done", "q", "working"},
	"idle":      {"waiting", "q", "idle"},
	"on":        {"done", "q", "on"},
	"off":       {"stop", "q", "off"},
	"nobody":    {"warn", "warn", "no worker"},
	"leaving":   {"delayed", "warn", "leaving"},
	"stopped":   {"stop", "warn", "stopped"},
	"stalled":   {"warn", "warn", "stalled"},
	"stuck":     {"warn", "bad", "past its limit"},
	"lost":      {"failed", "bad", "lost"},
	"ready":     {"waiting", "q", "ready"},
}

// State says a state by shape, colour and word, never by colour alone. The word is the state's own unless one is
// given. A state that is not known is its plain text: the name may come from Redis.
func State(name string, word ...string) template.HTML {
	s, ok := states[name]
	if !ok {
		return template.HTML(`<span class="st8">` + visible(strings.Join(append([]string{name}, word...), " ")) + `</span>`)
	}
	if len(word) > 0 && word[0] != "" {
		s.word = word[0]
	}
	class := "st8"
	if s.class == "q" {
		class = "st8 q"
	}
	return template.HTML(`<span class="` + class + `">` + string(Icon(s.icon, s.class)) + visible(s.word) + `</span>`)
}

// Chip returns a word in a rounded box, in the colour of a class: "", run, ok, warn, bad or later. An icon may stand
// before the word.
func Chip(class, word string, icon ...string) template.HTML {
	before := template.HTML("")
	if len(icon) > 0 && icon[0] != "" {
		before = Icon(icon[0])
	}
	return template.HTML(`<span class="` + attr(strings.TrimSpace("chip "+class)) + `">` + string(before) + visible(word) + `</span>`)
}

// attr escapes a text for an attribute in double quotes. The text is valid UTF-8 afterwards.
func attr(s string) string { return html.EscapeString(clean(s)) }
