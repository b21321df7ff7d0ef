package site

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/inspect"
)

// Ask is a request for a page or an action, as loaders and actions see it.
type Ask struct {
	*Config
	Fleet  *Fleet
	User   guard.User
	Base   *Base // what was seen of the fleet within the last two seconds
	Loc    *time.Location
	root   string // the prefix of the dashboard, without a slash at its end
	prefix string // that of the fleet: links begin with it
	page   *Page
	path   string // of the page below the prefix, escaped
	query  url.Values
	form   values // of an action
	values func(name string) string
	json   bool
	live   bool
	site   *Site
	theme  string
}

// In asks the fleet's Redis. Its searches compare what the user may see.
func (a *Ask) In() *inspect.Inspector { return a.Fleet.in }

// By changes the fleet: the audit names the user, the dashboard and why.
func (a *Ask) By() *inspect.Inspector { return a.Fleet.in.By(a.User.Name, a.Value("why")).Face(face) }

// Control asks and commands the processes. A call takes the options of AsUser.
func (a *Ask) Control() *control.Control { return a.Fleet.Control }

// AsUser are the options with which Control's calls name the user, the dashboard and why in the audit.
func (a *Ask) AsUser() []control.CallOption {
	return []control.CallOption{control.As(a.User.Name, face), control.Why(a.Value("why"))}
}

// Live reports whether the page is rendered again for its stream. Loaders then leave out what is asked only when a user asks for it.
func (a *Ask) Live() bool { return a.live }

// Mask hides secrets.
func (a *Ask) Mask() *mask.Masker { return a.Masks }

// Now is Redis's time.
func (a *Ask) Now() time.Time { return a.Base.Now() }

// Path returns a part of the path: of /queues/{queue} the queue.
func (a *Ask) Path(name string) string { return unsegment(a.values(name)) }

// Param returns a parameter of the page's address.
func (a *Ask) Param(name string) string { return a.query.Get(name) }

// Params returns all parameters of a name.
func (a *Ask) Params(name string) []string { return a.query[name] }

// Choice returns a parameter that is one of several values; the first one if it is none of them.
func (a *Ask) Choice(name string, values ...string) string {
	if v := a.query.Get(name); slices.Contains(values, v) {
		return v
	}
	return values[0]
}

// Sees reports whether the user sees a queue.
func (a *Ask) Sees(queue string) bool { return a.User.Sees(queue) }

// JSON reports whether the answer is JSON.
func (a *Ask) JSON() bool { return a.json }

// May reports whether the user may do an action now, on what the words say: pairs of "queue", "class", "id" or "process" and a value.
// It is false where Redis takes no changes.
func (a *Ask) May(action string, on ...string) bool {
	var t guard.Target
	for i := 0; i+1 < len(on); i += 2 {
		switch on[i] {
		case "queue":
			t.Queue = on[i+1]
		case "class":
			t.Class = on[i+1]
		case "id":
			t.ID = on[i+1]
		case "process":
			t.Process = on[i+1]
		}
	}
	act := a.site.actions[action]
	return act != nil && a.permits(act, t)
}

func (a *Ask) permits(act *Action, t guard.Target) bool {
	if a.ReadOnly || a.Fleet.Refuses() != "" && !act.Quiet {
		return false
	}
	t.Fleet = a.Fleet.Name
	return (a.User.Whole() || !act.Whole) && a.User.May(act.Name, act.Role, t)
}

// target is what an action's request concerns.
func (a *Ask) target(act *Action) guard.Target {
	if act.On != nil {
		return act.On(a)
	}
	return guard.Target{Queue: a.Path("queue"), Class: a.Path("class"), ID: a.Path("id"), Process: a.Path("process")}
}

// Value returns a field of an action's form, or of its JSON.
func (a *Ask) Value(name string) string { return a.form.Get(name) }

// Values returns all values of a field.
func (a *Ask) Values(name string) []string { return a.form.All(name) }

// Flag reports whether a field is set to something that means yes.
func (a *Ask) Flag(name string) bool {
	switch strings.ToLower(a.Value(name)) {
	case "", "0", "false", "no", "off":
		return false
	}
	return true
}

// Duration returns a field that is a duration, such as 10m or 2h or 1d; 0 if it is empty.
func (a *Ask) Duration(name string) (time.Duration, error) {
	text := strings.TrimSpace(a.Value(name))
	if text == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 10_000 {
			return time.Duration(n * float64(24*time.Hour)), nil
		}
	}
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 {
		return time.Duration(n) * time.Second, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, Bad("%s is no duration; write it as 10m, 2h or 3d", quoted(name, text))
	}
	return d, nil
}

// Number returns a field that is a whole number.
func (a *Ask) Number(name string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(a.Value(name)), 10, 64)
	if err != nil {
		return 0, Bad("%s is no whole number", quoted(name, a.Value(name)))
	}
	return n, nil
}

func quoted(name, value string) string { return name + " " + strconv.Quote(value) }

// segment is a name as one segment of a path. A browser takes . and .. as steps, so these, and names that begin with a tilde,
// get a tilde in front.
func segment(name string) string {
	if name == "" || name == "." || name == ".." || name[0] == '~' {
		name = "~" + name
	}
	return url.PathEscape(name)
}

func unsegment(text string) string { return strings.TrimPrefix(text, "~") }

// URL returns the address of a page or an action: its parts are words of the path, each one segment. The last ones may be a query:
// "?since", value.
func (a *Ask) URL(parts ...any) string {
	var b strings.Builder
	b.WriteString(a.prefix)
	query := url.Values{}
	for n := 0; n < len(parts); n++ {
		text := textOf(parts[n])
		if name, ok := strings.CutPrefix(text, "?"); ok && n+1 < len(parts) {
			if v := textOf(parts[n+1]); v != "" {
				query.Set(name, v)
			}
			n++
			continue
		}
		b.WriteByte('/')
		b.WriteString(segment(text))
	}
	if len(parts) == 0 || b.Len() == len(a.prefix) {
		b.WriteByte('/')
	}
	if len(query) > 0 {
		b.WriteByte('?')
		b.WriteString(query.Encode())
	}
	return b.String()
}

// With returns the address of this page with other parameters: pairs of a name and a value; an empty value takes the parameter away.
func (a *Ask) With(pairs ...any) string {
	query := url.Values{}
	for name, v := range a.query {
		query[name] = v
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, v := textOf(pairs[i]), textOf(pairs[i+1])
		if v == "" {
			query.Del(name)
		} else {
			query.Set(name, v)
		}
	}
	if len(query) == 0 {
		return a.prefix + a.path
	}
	return a.prefix + a.path + "?" + query.Encode()
}

// Here is the address of this page below the prefix: forms send it along, and come back to it.
func (a *Ask) Here() string {
	if len(a.query) == 0 {
		return a.path
	}
	return a.path + "?" + a.query.Encode()
}

func (a *Ask) cookie(r *http.Request, name string) string {
	if c, err := r.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}

// Refuses says why Redis takes no changes from the dashboard; "": it does, or nobody knows yet.
func (f *Fleet) Refuses() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refuses
}

// probe finds out once whether Redis takes changes.
func (f *Fleet) probe(ctx context.Context) {
	f.mu.Lock()
	asked := f.asked
	f.asked = true
	f.mu.Unlock()
	if asked {
		return
	}
	err := f.in.Writable(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuses = ""; err != nil {
		f.refuses = plain(err)
	}
}
