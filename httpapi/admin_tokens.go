package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/tokens"
)

// tokenJSON is a token as the admin handler shows it.
type tokenJSON struct {
	ID          string         `json:"id"`
	Token       string         `json:"token,omitempty"` // only in the answer of the call that made it
	Namespace   string         `json:"namespace"`
	Pool        string         `json:"pool"`
	Scopes      []string       `json:"scopes"`
	Queues      []string       `json:"queues,omitempty"`
	Description string         `json:"description"`
	Created     time.Time      `json:"created"`
	Expires     *time.Time     `json:"expires,omitempty"`
	Limits      *tokens.Limits `json:"limits,omitempty"`
}

func jsonOf(e *tokens.Entry, made string) tokenJSON {
	t := tokenOf(e, made)
	j := tokenJSON{
		ID: t.ID, Token: t.Token, Namespace: t.Namespace, Pool: t.Pool, Scopes: t.Scopes, Queues: t.Queues, Description: t.Description,
		Created: t.Created.UTC(), Limits: e.Limits,
	}
	if !t.Expires.IsZero() {
		at := t.Expires.UTC()
		j.Expires = &at
	}
	return j
}

func (d *admin) list(w http.ResponseWriter, r *http.Request) {
	entries, err := d.book(r).List(r.Context(), r.FormValue("pool"), r.FormValue("namespace"))
	if err != nil {
		d.fail(w, r, err)
		return
	}
	all := make([]tokenJSON, len(entries))
	for i := range entries {
		all[i] = jsonOf(&entries[i], "")
	}
	d.answer(w, http.StatusOK, map[string]any{"tokens": all})
}

func (d *admin) create(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Namespace   string         `json:"namespace"`
		Pool        string         `json:"pool"`
		Token       string         `json:"token"`
		Scopes      []string       `json:"scopes"`
		Queues      []string       `json:"queues"`
		Description string         `json:"description"`
		Expires     *time.Time     `json:"expires"`
		Limits      *tokens.Limits `json:"limits"`
	}
	if !d.decode(w, r, &ask) {
		return
	}
	record := tokens.Record{
		Namespace: ask.Namespace, Pool: ask.Pool, Scopes: ask.Scopes, Queues: ask.Queues, Description: ask.Description, Limits: ask.Limits,
	}
	if ask.Expires != nil {
		record.Expires = ask.Expires.UnixMilli()
	}
	if refused := d.checkRecord(&record); refused != nil {
		d.refuse(w, refused.status, refused.detail)
		return
	}
	made, e, err := d.book(r).Create(r.Context(), record, ask.Token)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.reload(r)
	w.Header().Set("Location", "/tokens/"+e.ID())
	d.answer(w, http.StatusCreated, jsonOf(e, made))
}

// checkRecord returns what is wrong with the record of a new token.
func (g *guard) checkRecord(r *tokens.Record) *refusal {
	bad := func(parameter, format string, args ...any) *refusal {
		return refuse(http.StatusBadRequest, "invalid-parameter", "", format, args...).with("parameter", parameter)
	}
	if !namespaceName.MatchString(r.Namespace) {
		return bad("namespace", "the namespace has letters, digits, - and _, 1 to 255 of them")
	}
	if r.Pool != "" && g.pools[r.Pool] == nil {
		return bad("pool", "the pool %s is not configured", r.Pool)
	}
	if _, err := tokens.ParseScopes(r.Scopes); err != nil {
		return bad("scopes", "%v", err)
	}
	if r.Limits != nil {
		if err := r.Limits.Check(); err != nil {
			return bad("limits", "%v", err)
		}
	}
	for _, q := range r.Queues {
		if q == "" {
			return bad("queues", "a queue has a name; a pattern such as img-* stands for several")
		}
	}
	if r.Expires != 0 && r.Expires <= time.Now().UnixMilli() {
		return bad("expires", "the token would be over already")
	}
	return nil
}

func (d *admin) get(w http.ResponseWriter, r *http.Request) {
	if e, err := d.book(r).Get(r.Context(), r.PathValue("id")); err != nil {
		d.fail(w, r, err)
	} else {
		d.answer(w, http.StatusOK, jsonOf(e, ""))
	}
}

func (d *admin) revoke(w http.ResponseWriter, r *http.Request) {
	b := d.book(r)
	e, err := b.Get(r.Context(), r.PathValue("id"))
	if err == nil {
		err = b.Revoke(r.Context(), e)
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.reload(r)
	w.WriteHeader(http.StatusNoContent)
}

func (d *admin) rotate(w http.ResponseWriter, r *http.Request) {
	ask := struct {
		After *int64 `json:"after_ms"`
	}{}
	if !d.decode(w, r, &ask) {
		return
	}
	after := tokens.RotateAfter
	if ask.After != nil {
		if *ask.After < 0 || *ask.After > maxRotate.Milliseconds() {
			d.refuse(w, http.StatusBadRequest, "after_ms is how long the old token stays valid: from 0 to 30 days")
			return
		}
		after = time.Duration(*ask.After) * time.Millisecond
	}
	b := d.book(r)
	e, err := b.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		d.fail(w, r, err)
		return
	}
	made, fresh, err := b.Rotate(r.Context(), e, after)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.reload(r)
	d.answer(w, http.StatusCreated, jsonOf(fresh, made))
}

const maxRotate = 30 * 24 * time.Hour

func (d *admin) putLimits(w http.ResponseWriter, r *http.Request) {
	l, refused := d.limitsOf(w, r)
	if refused != nil {
		d.refuse(w, refused.status, refused.detail)
		return
	}
	d.limit(w, r, l)
}

func (d *admin) removeLimits(w http.ResponseWriter, r *http.Request) { d.limit(w, r, nil) }

func (d *admin) limit(w http.ResponseWriter, r *http.Request, l *tokens.Limits) {
	b := d.book(r)
	e, err := b.Get(r.Context(), r.PathValue("id"))
	if err == nil {
		err = b.Limit(r.Context(), e, l)
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.reload(r)
	e.Limits = l
	d.answer(w, http.StatusOK, jsonOf(e, ""))
}

// decode reads the JSON of a body, which may be empty; it has answered if that is not possible.
func (d *admin) decode(w http.ResponseWriter, r *http.Request, to any) bool {
	body, refused := readBody(w, r, mostAdminBody)
	if refused != nil {
		d.refuse(w, refused.status, refused.detail)
		return false
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(to)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind it")
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		d.refuse(w, http.StatusBadRequest, "the body is not the JSON that the call takes: "+err.Error())
		return false
	}
	return true
}
