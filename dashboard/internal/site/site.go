package site

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/link"
	"github.com/goworker/goworker/dashboard/internal/live"
	"github.com/goworker/goworker/dashboard/internal/look"
)

// Site serves the pages of one fleet. It is safe for concurrent use.
type Site struct {
	config  *Config
	fleet   *Fleet
	assets  *look.Assets
	log     *slog.Logger
	mux     *http.ServeMux
	pages   []*shown
	paths   map[string]bool
	acts    []*Action
	actions map[string]*Action // by name; of several with one name the first
	answers map[*Action]*template.Template
	once    onces

	described func() []byte // openapi.json
}

// shown is a page with its template.
type shown struct {
	*Page
	template *template.Template
}

// api is where the JSON of a page or action is.
const api = "/api/v1"

// New returns the pages and actions of a fleet as a handler of paths below the prefix.
func New(config *Config, fleet *Fleet, assets *look.Assets, log *slog.Logger, pages []*Page, actions []*Action) (*Site, error) {
	s := &Site{config: config, fleet: fleet, assets: assets, log: log, mux: http.NewServeMux(), paths: make(map[string]bool), acts: actions, actions: make(map[string]*Action), answers: make(map[*Action]*template.Template)}
	for _, p := range pages {
		if p.Write != nil {
			s.mux.HandleFunc("GET "+p.Path, s.written(p))
			s.mux.HandleFunc("GET "+api+p.Path, s.written(p))
			continue
		}
		t, err := parse(p.Files, p.Template)
		if err != nil {
			return nil, fmt.Errorf("the template of %s: %w", p.Path, err)
		}
		if p.Data == nil {
			return nil, fmt.Errorf("the page %s does not say what its data is, so openapi.json cannot", p.Path)
		}
		one := &shown{p, t}
		s.pages = append(s.pages, one)
		s.paths[p.Path] = true
		exact := p.Path
		if exact == "/" {
			exact = "/{$}"
		}
		s.mux.HandleFunc("GET "+exact, s.page(one, false))
		s.mux.HandleFunc("GET "+api+strings.TrimSuffix(p.Path, "/"), s.page(one, true))
	}
	for _, act := range actions {
		if s.actions[act.Name] == nil {
			s.actions[act.Name] = act
		}
		if config.ReadOnly {
			continue
		}
		if act.Template != "" {
			t, err := parse(act.Files, act.Template)
			if err != nil {
				return nil, fmt.Errorf("the template of %s: %w", act.Path, err)
			}
			s.answers[act] = t
		}
		s.mux.HandleFunc("POST "+act.Path, s.action(act, false))
		s.mux.HandleFunc("POST "+api+act.Path, s.action(act, true))
	}
	s.described = sync.OnceValue(s.OpenAPI)
	s.mux.HandleFunc("GET "+api+"/openapi.json", s.openAPI)
	s.mux.HandleFunc("GET /live", s.live)
	s.mux.HandleFunc("GET /palette", s.palette)
	s.mux.HandleFunc("/", s.nothing)
	return s, nil
}

// has reports whether there is a page at a path.
func (s *Site) has(path string) bool { return s.paths[path] }

// where is the part of a request that comes before the path below the prefix.
type where struct{ root, prefix string }

type whereKey struct{}

// Serve serves a request whose URL is below the prefix. root is the prefix of the dashboard, and prefix that of the fleet.
func (s *Site) Serve(w http.ResponseWriter, r *http.Request, root, prefix string) {
	s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), whereKey{}, where{root, prefix})))
}

// ask reads what a request asks for.
func (s *Site) ask(r *http.Request, p *Page, isJSON bool) *Ask {
	at, _ := r.Context().Value(whereKey{}).(where)
	user, _ := guard.UserOf(r.Context())
	a := &Ask{
		Config: s.config, Fleet: s.fleet, User: user, Loc: s.config.Location, site: s, page: p, root: at.root, prefix: at.prefix,
		path: strings.TrimPrefix(r.URL.EscapedPath(), api), query: r.URL.Query(), values: r.PathValue, json: isJSON,
	}
	if a.Loc == nil {
		a.Loc = time.Local
	}
	switch a.cookie(r, "zone") {
	case "utc":
		a.Loc = time.UTC
	case "local": // the script says which zone that is
		if zone, err := time.LoadLocation(a.cookie(r, "tz")); err == nil && zone != time.Local {
			a.Loc = zone
		}
	}
	if theme := a.cookie(r, "theme"); theme == "light" || theme == "dark" {
		a.theme = theme
	}
	return a
}

// rendered is what a page came to.
type rendered struct {
	status  int
	whole   []byte
	regions []live.Region
	err     error // why it shows a problem
}

type catchKey struct{}

// page serves a page as HTML or as JSON.
func (s *Site) page(p *shown, isJSON bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asJSON := isJSON || wantsJSON(r)
		a := s.ask(r, p.Page, asJSON)
		if caught, live := r.Context().Value(catchKey{}).(*rendered); live {
			a.live = true
			*caught = s.render(r.Context(), p, a, nil)
			return
		}
		if asJSON {
			s.encode(w, r, p, a)
			return
		}
		flash := takeFlash(w, r, a)
		s.fleet.probe(r.Context())
		out := s.render(r.Context(), p, a, flash)
		if out.err != nil && out.status == http.StatusInternalServerError {
			s.log.Error("dashboard: a page has a fault", "page", a.path, "error", out.err)
		}
		head := w.Header()
		head.Set("Content-Type", "text/html; charset=utf-8")
		if out.status == http.StatusOK && flash == nil && s.unchanged(w, r, out.regions) {
			return
		}
		w.WriteHeader(out.status)
		_, _ = w.Write(out.whole)
	}
}

// unchanged answers a reader that has this page already.
func (s *Site) unchanged(w http.ResponseWriter, r *http.Request, regions []live.Region) bool {
	if len(regions) == 0 {
		return false
	}
	h := fnv.New64a()
	for _, region := range regions {
		_, _ = h.Write(region.HTML)
	}
	tag := fmt.Sprintf(`"%x"`, h.Sum64())
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	return false
}

// written serves a page that writes its answer itself.
func (s *Site) written(p *Page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := s.ask(r, p, wantsJSON(r) || strings.HasPrefix(r.URL.Path, api))
		out := &begun{ResponseWriter: w}
		err := s.enter(r.Context(), p, a)
		if err == nil {
			err = p.Write(r.Context(), a, out)
		}
		switch {
		case err == nil:
		case out.begun:
			s.log.Warn("dashboard: an answer was cut off", "page", a.path, "error", err)
			panic(http.ErrAbortHandler)
		default:
			s.problemPage(w, r, a, problemOf(err))
		}
	}
}

// begun knows whether anything was written.
type begun struct {
	http.ResponseWriter
	begun bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.begun = true
	return b.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// load reads what a page shows.
func (s *Site) load(ctx context.Context, p *Page, a *Ask) (data any, err error) {
	if err := s.enter(ctx, p, a); err != nil {
		return nil, err
	}
	defer func() {
		if fault := recover(); fault != nil {
			s.log.Error("dashboard: a page panicked", "page", a.path, "panic", fault)
			err = fmt.Errorf("the page has a fault: %w: %v", errPanic, fault)
		}
	}()
	return p.Load(ctx, a)
}

// enter lets the user see a page, and looks at the fleet.
func (s *Site) enter(ctx context.Context, p *Page, a *Ask) (err error) {
	if p.Whole && !a.User.Whole() {
		return Missing("there is no such page for you: it says things of all queues")
	}
	if !a.User.May("look", p.Role, guard.Target{Fleet: s.fleet.Name}) && a.User.Can == nil {
		return Denied("this page is for the role %s", p.Role)
	}
	if queue := a.Path("queue"); queue != "" && !a.Sees(queue) {
		return Missing("there is no queue %q for you", queue)
	}
	if a.Base, err = s.fleet.Base(ctx); err != nil {
		return &Problem{Status: http.StatusServiceUnavailable, Title: "Redis does not answer", Err: err}
	}
	return nil
}

// render makes the HTML of a page.
func (s *Site) render(ctx context.Context, p *shown, a *Ask, flash *Outcome) (out rendered) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx, cost := link.Count(ctx)
	began := time.Now()
	v := &View{Ask: a, Flash: flash, Cost: cost, Still: p.Still, Title: p.Title}
	data, err := s.load(ctx, p.Page, a)
	out.status = http.StatusOK
	if err != nil {
		v.Problem = problemOf(err)
		out.status, out.err = v.Problem.Status, err
		v.Title = v.Problem.Title
		v.Still = v.Problem.Status != http.StatusServiceUnavailable
	}
	v.Data, v.T, v.Took = data, look.Times{Now: a.Now(), Loc: a.Loc}, time.Since(began)
	if titled, ok := data.(Titled); ok {
		v.Title = titled.PageTitle()
	}
	v.tabs = s.tabsOf(a)
	if err == nil {
		v.Ops = a.going(ctx)
	}
	var b bytes.Buffer
	if err := p.template.ExecuteTemplate(&b, "page", v); err != nil {
		v.Problem = problemOf(fmt.Errorf("the template of %s: %w", p.Path, err))
		out.status, out.err, v.Data = http.StatusInternalServerError, v.Problem, nil
		b.Reset()
		if err := p.template.ExecuteTemplate(&b, "page", v); err != nil {
			out.whole = []byte("This page has a fault.")
			return out
		}
	}
	out.whole, out.regions = split(b.Bytes())
	return out
}

// problemPage shows an error in the layout.
func (s *Site) problemPage(w http.ResponseWriter, r *http.Request, a *Ask, p *Problem) {
	if a.json {
		writeProblem(w, p)
		return
	}
	if a.Base == nil {
		a.Base, _ = s.fleet.Last()
	}
	v := &View{Ask: a, Problem: p, Title: p.Title, Still: true, T: look.Times{Now: a.Now(), Loc: a.Loc}}
	v.tabs = s.tabsOf(a)
	var b bytes.Buffer
	if err := problems.ExecuteTemplate(&b, "page", v); err != nil {
		http.Error(w, p.Text(), p.Status)
		return
	}
	whole, _ := split(b.Bytes())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(p.Status)
	_, _ = w.Write(whole)
}

// encode answers with a page's data as JSON.
func (s *Site) encode(w http.ResponseWriter, r *http.Request, p *shown, a *Ask) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	data, err := s.load(ctx, p.Page, a)
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	body, err := json.Marshal(data)
	if err != nil {
		writeProblem(w, problemOf(fmt.Errorf("encoding the page: %w", err)))
		return
	}
	h := fnv.New64a()
	_, _ = h.Write(body)
	tag := fmt.Sprintf(`"%x"`, h.Sum64())
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	body := map[string]any{"title": p.Title, "status": p.Status, "detail": p.Text()}
	for name, v := range p.More {
		body[name] = v
	}
	if len(p.Links) > 0 {
		body["links"] = p.Links
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "2")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(body)
}

func wantsJSON(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Accept"), "application/json")
}

// nothing is the page of addresses at which there is none.
func (s *Site) nothing(w http.ResponseWriter, r *http.Request) {
	isJSON := wantsJSON(r) || strings.HasPrefix(r.URL.Path, "/api/")
	a := s.ask(r, nil, isJSON)
	p := Missing("there is no page %s", r.URL.Path).(*Problem)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		p = problem(http.StatusMethodNotAllowed, "%s %s is no action of this dashboard", r.Method, r.URL.Path)
		if s.config.ReadOnly {
			p = Denied("this dashboard only shows: it was started read-only").(*Problem)
		}
	} else if s.isAction(r) {
		p = problem(http.StatusMethodNotAllowed, "%s is an action: it takes a POST", r.URL.Path)
		w.Header().Set("Allow", http.MethodPost)
	}
	s.problemPage(w, r, a, p)
}

func (s *Site) isAction(r *http.Request) bool {
	post := r.Clone(r.Context())
	post.Method = http.MethodPost
	_, pattern := s.mux.Handler(post)
	return strings.HasPrefix(pattern, "POST ")
}

// live streams a page.
func (s *Site) live(w http.ResponseWriter, r *http.Request) {
	a := s.ask(r, nil, wantsJSON(r))
	path := local(r.URL.Query().Get("page"))
	u, err := url.Parse(path)
	if path == "" || err != nil || strings.HasPrefix(u.Path, "/live") || strings.HasPrefix(u.Path, api) {
		s.problemPage(w, r, a, Bad("page is to be the path of a page").(*Problem))
		return
	}
	scope := a.User.Role.String()
	if a.User.Queues != nil || a.User.Can != nil {
		scope = "user " + a.User.Name
	}
	key := strings.Join([]string{scope, a.prefix, a.Loc.String(), path}, "\x00")
	err = s.fleet.Hub.Stream(w, r, a.User.Name, key, s.renders(r, u))
	if err != nil {
		p := &Problem{Status: http.StatusServiceUnavailable, Title: "Too many streams", Err: err}
		w.Header().Set("Retry-After", "10")
		a.json = true
		s.problemPage(w, r, a, p)
	}
}

// renders returns what renders a page for all its readers. It keeps of the first reader's request what the page depends on.
func (s *Site) renders(r *http.Request, u *url.URL) live.Render {
	kept := context.WithoutCancel(r.Context())
	cookies := r.Header["Cookie"]
	return func(ctx context.Context) ([]live.Region, error) {
		var out rendered
		ctx, cancel := merge(ctx, kept)
		defer cancel()
		req, err := http.NewRequestWithContext(context.WithValue(ctx, catchKey{}, &out), http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, err
		}
		req.Header["Cookie"] = cookies
		s.mux.ServeHTTP(discard{}, req)
		if out.status == 0 {
			return nil, errors.New("there is no such page")
		}
		if out.status == http.StatusServiceUnavailable {
			return nil, out.err
		}
		return out.regions, nil
	}
}

// merge returns the values of one context with the end of another, and the values of that too.
func merge(ctx, values context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(both{ctx, values})
}

type both struct {
	context.Context
	values context.Context
}

func (b both) Value(key any) any {
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.values.Value(key)
}

// discard is where a page writes that is rendered for a stream.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// palette answers what the user jumps to.
func (s *Site) palette(w http.ResponseWriter, r *http.Request) {
	a := s.ask(r, nil, true)
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	found := []Found{}
	var err error
	if a.Base, err = s.fleet.Base(ctx); err == nil && s.config.Palette != nil {
		found, err = s.config.Palette(ctx, a, strings.TrimSpace(r.URL.Query().Get("q")))
	}
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(found)
}
