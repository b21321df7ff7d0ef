package site

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/link"
	"github.com/goworker/goworker/dashboard/internal/look"
)

// acting is how long an action may take.
const acting = 30 * time.Second

// action serves an action that comes by a form or as JSON.
func (s *Site) action(act *Action, isJSON bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := s.ask(r, nil, isJSON || wantsJSON(r))
		out, err := s.act(w, r, act, a)
		if err != nil {
			p := problemOfAction(err)
			if p.Status == http.StatusInternalServerError {
				s.log.Error("dashboard: an action failed", "action", act.Name, "user", a.User.Name, "error", err)
			}
			s.problemPage(w, r, a, p)
			return
		}
		if a.json {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(max(out.Status, http.StatusOK))
			_ = json.NewEncoder(w).Encode(out)
			return
		}
		if out.File != nil {
			w.Header().Set("Content-Type", out.File.Type)
			w.Header().Set("Content-Disposition", `attachment; filename="`+out.File.Name+`"`)
			_, _ = w.Write(out.File.Body)
			return
		}
		switch data := out.Data.(type) {
		case *Planned:
			s.answerPage(w, a, planning, data)
			return
		case *Secret:
			s.answerPage(w, a, secrets, data)
			return
		case Titled:
			if t := s.answers[act]; t != nil {
				s.answerPage(w, a, t, data)
				return
			}
		}
		to := out.To
		if to == "" {
			to = local(a.Value("back"))
		}
		if to == "" {
			to = "/"
		}
		leaveFlash(w, r, a, out)
		http.Redirect(w, r, a.prefix+to, http.StatusSeeOther)
	}
}

// Secret is the answer of an action that has made a secret. It is shown on the page of the answer and nowhere else: it is in no cookie
// and no log.
type Secret struct {
	Title string `json:"-"`
	Said  string `json:"-"`
	Text  string `json:"secret"`
	Back  string `json:"-"` // where the page leads, as a link
}

// PageTitle is what the page of the secret is called.
func (s *Secret) PageTitle() string { return s.Title }

// answerPage shows the answer of an action, where it is not the page before with a line above it.
func (s *Site) answerPage(w http.ResponseWriter, a *Ask, t *template.Template, data Titled) {
	v := &View{Ask: a, Data: data, Title: data.PageTitle(), Still: true, T: look.Times{Now: a.Now(), Loc: a.Loc}}
	v.tabs = s.tabsOf(a)
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "page", v); err != nil {
		s.log.Error("dashboard: the page of an answer has a fault", "error", err)
		http.Error(w, "This page has a fault.", http.StatusInternalServerError)
		return
	}
	whole, _ := split(b.Bytes())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(whole)
}

// act permits an action and does it.
func (s *Site) act(w http.ResponseWriter, r *http.Request, act *Action, a *Ask) (out Outcome, err error) {
	form, isJSON, err := readValues(w, r)
	if err != nil {
		return out, err
	}
	a.form, a.json = form, a.json || isJSON
	ctx, cancel := context.WithTimeout(r.Context(), acting)
	defer cancel()
	ctx, _ = link.Count(ctx)
	if a.Base, err = s.fleet.Base(ctx); err != nil {
		return out, &Problem{Status: http.StatusServiceUnavailable, Title: "Redis does not answer", Err: err}
	}
	on := a.target(act)
	on.Fleet = s.fleet.Name
	switch {
	case on.Queue != "" && !a.Sees(on.Queue), act.Whole && !a.User.Whole():
		return out, Missing("there is no such thing for you")
	case !a.User.May(act.Name, act.Role, on):
		return out, Denied("you may not do this: %s needs the role %s", act.Name, act.Role)
	}
	if s.fleet.probe(ctx); s.fleet.Refuses() != "" && !act.Quiet {
		return out, &Problem{Status: http.StatusServiceUnavailable, Title: "Redis takes no changes", Err: fmt.Errorf("%s", s.fleet.Refuses())}
	}
	if !act.Quiet {
		if err := a.By().Recordable(ctx); err != nil {
			return out, &Problem{Status: http.StatusServiceUnavailable, Title: "The audit cannot be written, so nothing is changed", Err: err}
		}
	}
	defer func() {
		if fault := recover(); fault != nil {
			s.log.Error("dashboard: an action panicked", "action", act.Name, "panic", fault)
			err = fmt.Errorf("the action has a fault: %w: %v", errPanic, fault)
		}
	}()
	return s.once.do(a.User.Name, act.Name, r.URL.Path, a.Value("idempotency_key"), func() (Outcome, error) { return act.Do(ctx, a) })
}

// Permit returns an error if the user may not do an action on a target that only the action has found.
func (a *Ask) Permit(action string, on guard.Target) error {
	act := a.site.actions[action]
	on.Fleet = a.Fleet.Name
	if on.Queue != "" && !a.Sees(on.Queue) {
		return Missing("there is no such thing for you")
	}
	if !a.User.May(act.Name, act.Role, on) {
		return Denied("you may not do this: %s needs the role %s", act.Name, act.Role)
	}
	return nil
}

// onces remembers what was answered to an idempotency key, for ten minutes.
type onces struct {
	mu  sync.Mutex
	all map[string]*answered
}

type answered struct {
	mu   sync.Mutex
	done bool
	out  Outcome
	err  error
	at   time.Time
}

const (
	onceFor  = 10 * time.Minute
	mostOnce = 10_000
)

func (o *onces) do(user, action, path, key string, do func() (Outcome, error)) (Outcome, error) {
	if key == "" {
		return do()
	}
	key = fmt.Sprintf("%q %q %q %q", user, action, path, key)
	o.mu.Lock()
	if o.all == nil {
		o.all = make(map[string]*answered)
	}
	one := o.all[key]
	if one == nil || time.Since(one.at) > onceFor {
		if len(o.all) >= mostOnce {
			for other, a := range o.all {
				if time.Since(a.at) > onceFor {
					delete(o.all, other)
				}
			}
		}
		if len(o.all) >= mostOnce {
			o.mu.Unlock()
			return Outcome{}, &Problem{Status: http.StatusTooManyRequests, Title: "Too many idempotency keys", Err: fmt.Errorf("this server remembers %d of them for ten minutes", mostOnce)}
		}
		one = &answered{at: time.Now()}
		o.all[key] = one
	}
	o.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if !one.done {
		one.out, one.err = do()
		one.done = one.err == nil
	}
	return one.out, one.err
}

// The cookie that carries the answer of an action to the page that is shown next.
const flashCookie = "goworker_flash"

func leaveFlash(w http.ResponseWriter, r *http.Request, a *Ask, out Outcome) {
	out.Data = nil
	if len(out.Refused) > 3 {
		out.Refused = append(out.Refused[:3:3], fmt.Sprintf("And %d more.", len(out.Refused)-3))
	}
	for n, text := range out.Refused {
		out.Refused[n] = cut(text, 200)
	}
	out.Said = cut(out.Said, 500)
	text, err := json.Marshal(out)
	if err != nil {
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: flashCookie, Value: base64.RawURLEncoding.EncodeToString(text), Path: a.root + "/", MaxAge: 60,
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// takeFlash reads the cookie and removes it.
func takeFlash(w http.ResponseWriter, r *http.Request, a *Ask) *Outcome {
	text := a.cookie(r, flashCookie)
	if text == "" {
		return nil
	}
	http.SetCookie(w, &http.Cookie{Name: flashCookie, Path: a.root + "/", MaxAge: -1, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	var out Outcome
	if json.Unmarshal(raw, &out) != nil || out.Said == "" {
		return nil
	}
	return &out
}

// cut shortens a text to so many bytes, at the border of a rune.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most] + "…"
}
