package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/goworker/goworker/internal/tokens"
)

// shown is how lists name a token: no list has the token itself.
func shown(digest string) string { return "sha256:" + digest }

// listOf answers the tokens of a namespace with their descriptions.
func (d *admin) listOf(w http.ResponseWriter, r *http.Request) {
	p := d.pool(w, r)
	if p == nil {
		return
	}
	entries, err := d.book(r).List(r.Context(), p.name, r.PathValue("namespace"))
	if err != nil {
		d.fail(w, r, err)
		return
	}
	all := make(map[string]string, len(entries))
	for _, e := range entries {
		all[shown(e.Digest)] = e.Description
	}
	d.answer(w, http.StatusOK, map[string]any{"tokens": all})
}

// makeOf makes a token.
func (d *admin) makeOf(w http.ResponseWriter, r *http.Request) {
	description := r.FormValue("description")
	if description == "" {
		d.refuse(w, http.StatusBadRequest, tokens.ErrNoDescription.Error())
		return
	}
	p := d.pool(w, r)
	if p == nil {
		return
	}
	namespace := r.PathValue("namespace")
	if !namespaceName.MatchString(namespace) {
		d.refuse(w, http.StatusBadRequest, "namespace name contains forbidden characters")
		return
	}
	made, _, err := d.book(r).Create(r.Context(), tokens.Record{Namespace: namespace, Pool: p.name, Description: description}, r.FormValue("token"))
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.reload(r)
	d.answer(w, http.StatusCreated, map[string]string{"token": made})
}

// revokeOf revokes a token, which is given itself or by its name in lists. One that is not there is no error.
func (d *admin) revokeOf(w http.ResponseWriter, r *http.Request) {
	e, err := d.entry(w, r)
	switch {
	case e == nil && err == nil:
		return
	case err == nil:
		err = d.book(r).Revoke(r.Context(), e)
	case errors.Is(err, tokens.ErrUnknown):
		err = nil
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.reload(r)
	w.WriteHeader(http.StatusNoContent)
}

// entry returns the token of a path. It has answered if the pool is not there: then both are nil.
func (d *admin) entry(w http.ResponseWriter, r *http.Request) (*tokens.Entry, error) {
	pool, token := r.FormValue("pool"), r.PathValue("token")
	if !strings.HasPrefix(token, shown("")) {
		if of, rest, found := strings.Cut(token, ":"); found {
			pool, token = of, rest
		}
	}
	if pool == "" {
		pool = defaultPool
	}
	if d.guard.pools[pool] == nil {
		d.refuse(w, http.StatusBadRequest, "the pool was not exists")
		return nil, nil
	}
	return d.book(r).Of(r.Context(), pool, r.PathValue("namespace"), token)
}

// limitOf answers the limit of a token, null if there is none.
func (d *admin) limitOf(w http.ResponseWriter, r *http.Request) {
	e, err := d.entry(w, r)
	switch {
	case e == nil && err == nil:
	case errors.Is(err, tokens.ErrUnknown), err == nil && e.Limits == nil:
		d.answer(w, http.StatusNotFound, nil)
	case err != nil:
		d.fail(w, r, err)
	default:
		d.answer(w, http.StatusOK, limiter(e.Limits))
	}
}

func (d *admin) addLimit(w http.ResponseWriter, r *http.Request) {
	d.changeLimit(w, r, http.StatusCreated, func(e *tokens.Entry) error {
		if e.Limits != nil {
			return fmt.Errorf("throttler token(%s…) has already exists", r.PathValue("token")[:min(4, len(r.PathValue("token")))])
		}
		return nil
	})
}

func (d *admin) setLimit(w http.ResponseWriter, r *http.Request) {
	d.changeLimit(w, r, http.StatusOK, func(*tokens.Entry) error { return nil })
}

func (d *admin) changeLimit(w http.ResponseWriter, r *http.Request, status int, may func(*tokens.Entry) error) {
	l, refused := d.limitsOf(w, r)
	if refused != nil {
		d.refuse(w, refused.status, refused.lmstfy())
		return
	}
	e, err := d.entry(w, r)
	if e == nil && err == nil {
		return
	}
	if err == nil {
		if exists := may(e); exists != nil {
			d.refuse(w, http.StatusConflict, exists.Error())
			return
		}
		err = d.book(r).Limit(r.Context(), e, l)
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.reload(r)
	d.answer(w, status, map[string]any{"limiter": limiter(l)})
}

func (d *admin) dropLimit(w http.ResponseWriter, r *http.Request) {
	e, err := d.entry(w, r)
	if e == nil && err == nil {
		return
	}
	if err == nil {
		err = d.book(r).Limit(r.Context(), e, nil)
	}
	if err != nil && !errors.Is(err, tokens.ErrUnknown) {
		d.fail(w, r, err)
		return
	}
	d.reload(r)
	d.answer(w, http.StatusOK, map[string]string{"msg": "success"})
}

// limits answers the limits of all tokens.
func (d *admin) limits(w http.ResponseWriter, r *http.Request) {
	entries, err := d.book(r).List(r.Context(), "", "")
	if err != nil {
		d.fail(w, r, err)
		return
	}
	all := make(map[string]any)
	for _, e := range entries {
		if e.Limits != nil {
			all[e.Pool+"/"+e.Namespace+"/"+shown(e.Digest)] = limiter(e.Limits)
		}
	}
	d.answer(w, http.StatusOK, all)
}

// limiter is a limit as lmstfy writes it, its names in alphabetical order.
func limiter(l *tokens.Limits) map[string]int64 {
	return map[string]int64{"read": l.Read, "write": l.Write, "interval": l.Interval}
}

// limitsOf reads the limits of a body.
func (d *admin) limitsOf(w http.ResponseWriter, r *http.Request) (*tokens.Limits, *refusal) {
	body, refused := readBody(w, r, mostAdminBody)
	if refused != nil {
		return nil, refused
	}
	l := new(tokens.Limits)
	if err := json.Unmarshal(body, l); err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid-json", "", "the body is not the JSON of a limit: %v", err)
	}
	if err := l.Check(); err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid-parameter", "", "%v", err)
	}
	return l, nil
}

const mostAdminBody = 64 << 10

// reload has a change hold on this server at once. Other servers are notified of it by Redis.
func (d *admin) reload(r *http.Request) {
	if err := d.ring.Reload(r.Context()); err != nil {
		d.logFailure(r, "the tokens were changed and cannot be read again yet", err)
	}
}

// fail answers an error of the tokens.
func (d *admin) fail(w http.ResponseWriter, r *http.Request, err error) {
	for _, known := range []struct {
		err    error
		status int
	}{
		{tokens.ErrExists, http.StatusBadRequest}, {tokens.ErrShort, http.StatusBadRequest}, {tokens.ErrToken, http.StatusBadRequest},
		{tokens.ErrNoNamespace, http.StatusBadRequest}, {tokens.ErrUnknown, http.StatusNotFound}, {tokens.ErrAmbiguous, http.StatusConflict},
		{tokens.ErrChanged, http.StatusConflict},
	} {
		if errors.Is(err, known.err) {
			d.refuse(w, known.status, known.err.Error())
			return
		}
	}
	d.logFailure(r, "a call of the admin handler failed", err)
	d.refuse(w, http.StatusInternalServerError, "internal error")
}
