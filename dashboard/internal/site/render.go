package site

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/link"
	"github.com/goworker/goworker/dashboard/internal/live"
	"github.com/goworker/goworker/dashboard/internal/look"
)

//go:embed templates
var own embed.FS

// The marks of a region. Text that a template escapes has no NUL, so nothing that comes from a job can be taken for one.
const (
	regionBegins = "\x00<"
	regionNamed  = "\x00:"
	regionEnds   = "\x00>"
)

// funcs are what templates call besides the methods of View.
var funcs = template.FuncMap{
	"region": func(id string) template.HTML {
		return template.HTML(regionBegins + template.HTMLEscapeString(id) + regionNamed)
	},
	"endregion": func() template.HTML { return regionEnds },
	"dict": func(pairs ...any) map[string]any {
		m := make(map[string]any, len(pairs)/2)
		for i := 0; i+1 < len(pairs); i += 2 {
			m[fmt.Sprint(pairs[i])] = pairs[i+1]
		}
		return m
	},
}

// layout is what all pages stand in.
var layout = template.Must(template.New("").Funcs(look.Funcs()).Funcs(funcs).ParseFS(own, "templates/*.html"))

// problems is the layout for errors. A template that was executed cannot be cloned, so layout itself never is.
var problems = template.Must(layout.Clone())

// planning is the page that asks before many jobs are changed.
var planning = template.Must(template.Must(layout.Clone()).New("planning").Parse(`{{define "body"}}{{template "plan" .}}{{end}}`))

// secrets is the page that shows a secret once.
var secrets = template.Must(template.Must(layout.Clone()).New("secret page").Parse(`{{define "body"}}{{template "secret" .}}{{end}}`))

// parse returns the template of a page, whose files stand with blanks between them.
func parse(files fs.FS, names string) (*template.Template, error) {
	t, err := layout.Clone()
	if err != nil {
		return nil, err
	}
	return t.ParseFS(files, strings.Fields(names)...)
}

// View is what a template gets.
type View struct {
	*Ask
	T       look.Times
	Title   string
	Data    any
	Flash   *Outcome
	Ops     []Operation // that run now
	Problem *Problem
	Took    time.Duration
	Cost    *link.Cost
	Still   bool
	tabs    []Tab
}

// Tab is a link of the rail.
type Tab struct {
	ID, Name, Icon, URL string
	N, Class            string // a number beside it, and what it says
	Key                 string // that leads there after g
	Current             bool
}

// Tabs are the links of the rail, in groups.
func (v *View) Tabs(group string) (all []Tab) {
	for _, t := range v.tabs {
		if name, rest, _ := strings.Cut(t.ID, "/"); name == group {
			t.ID = rest
			all = append(all, t)
		}
	}
	return all
}

func textOf(v any) string {
	switch t := v.(type) {
	case string:
		return t
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

// split takes the marks out of a page, and returns its regions.
func split(page []byte) (whole []byte, regions []live.Region) {
	whole = make([]byte, 0, len(page))
	for {
		before, rest, found := bytes.Cut(page, []byte(regionBegins))
		whole = append(whole, before...)
		if !found {
			return whole, regions
		}
		id, rest, _ := bytes.Cut(rest, []byte(regionNamed))
		html, rest, _ := bytes.Cut(rest, []byte(regionEnds))
		html = bytes.TrimSpace(html)
		whole = append(whole, html...)
		regions = append(regions, live.Region{ID: string(id), HTML: slices.Clone(html)})
		page = rest
	}
}
