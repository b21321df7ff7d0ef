package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/tokens"
)

// Token is a token, which itself is nowhere.
type Token struct {
	ID        string    `json:"id"`    // the beginning of its digest, for the actions
	Short     string    `json:"short"` // as logs name it
	Text      string    `json:"description"`
	Namespace string    `json:"namespace"`
	Pool      string    `json:"pool"`
	Scopes    []string  `json:"scopes"` // none: all
	Queues    []string  `json:"queues"` // none: all
	Limits    *Limits   `json:"limits"` // null: none
	Made      site.Time `json:"made"`
	Ends      site.Time `json:"ends"` // null: never
	Ended     bool      `json:"ended"`
}

// Limits are how many requests a token has in a window. 0 is no limit.
type Limits struct {
	Read     int64     `json:"read"`  // that take jobs
	Write    int64     `json:"write"` // that publish them
	Interval site.Span `json:"window_ms"`
}

// Window is Interval as a form writes it.
func (l Limits) Window() string { return strconv.FormatInt(int64(l.Interval.D()/time.Second), 10) }

// String is the limits as a row shows them.
func (l Limits) String() string {
	var parts []string
	if l.Read > 0 {
		parts = append(parts, look.Whole(l.Read)+" reads")
	}
	if l.Write > 0 {
		parts = append(parts, look.Whole(l.Write)+" writes")
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ") + " in " + look.Dur(l.Interval.D())
}

// Version tells whether the token was changed since the page was made: rotation changes when it ends.
func (t Token) Version() string { return version(t.Ends.Time) }

func version(ends time.Time) string {
	if ends.IsZero() {
		return "0"
	}
	return strconv.FormatInt(ends.UnixMilli(), 10)
}

// book is the list of tokens, in the Redis of the default pool. Changes are recorded under the name of the Inspector.
func book(in *inspect.Inspector) *tokens.Book {
	door := in.Doors()[0]
	return &tokens.Book{Do: door.Do, Clock: clock.System, Record: door.Record}
}

func (p *HTTP) tokens(ctx context.Context, a *site.Ask) error {
	if !p.Whole {
		return site.Missing("there is no such page for you: tokens are for all queues")
	}
	all, err := book(a.In()).List(ctx, "", "")
	if err != nil {
		return err
	}
	from := 0
	if after := a.Param("after"); after != "" {
		if from = slices.IndexFunc(all, func(e tokens.Entry) bool { return e.ID() == after }) + 1; from == 0 {
			return site.Missing("this place of the list is gone; begin with its first page")
		}
	}
	for n := from; n < len(all); n++ {
		if n == from+rows {
			p.Next = all[n-1].ID()
			break
		}
		p.Tokens = append(p.Tokens, tokenOf(a, &all[n]))
	}
	return nil
}

func tokenOf(a *site.Ask, e *tokens.Entry) Token {
	t := Token{
		ID: e.ID(), Short: tokens.Short(e.Digest), Text: a.Masks.Text(e.Description), Namespace: e.Namespace, Pool: e.Pool, Scopes: e.Scopes, Queues: e.Queues, Ended: e.Ended(a.Now()),
	}
	if e.Created > 0 {
		t.Made.Time = time.UnixMilli(e.Created)
	}
	if e.Expires > 0 {
		t.Ends.Time = time.UnixMilli(e.Expires)
	}
	if l := e.Limits; l != nil {
		t.Limits = &Limits{Read: l.Read, Write: l.Write, Interval: site.Span(time.Duration(l.Interval) * time.Second)}
	}
	return t
}

// problem gives an error of the book its status.
func problem(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, tokens.ErrUnknown):
		return site.Missing("this token is gone")
	case errors.Is(err, tokens.ErrChanged):
		return site.Changed(nil, "the token was changed meanwhile; look again")
	case errors.Is(err, tokens.ErrAmbiguous), errors.Is(err, tokens.ErrNoNamespace), errors.Is(err, tokens.ErrNoDescription):
		return site.Bad("%w", err)
	}
	return err
}

func revoke(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	b := book(a.By())
	e, err := b.Get(ctx, a.Path("id"))
	if err == nil {
		err = b.Revoke(ctx, e)
	}
	if err != nil {
		return site.Outcome{}, problem(err)
	}
	return site.Outcome{Said: fmt.Sprintf("Token %s is revoked. Servers refuse it within a second.", tokens.Short(e.Digest)), Done: 1}, nil
}

// rotate makes a new token. Of two people who rotate one, the second finds it changed.
func rotate(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	after := tokens.RotateAfter
	if a.Value("after") != "" {
		var err error
		if after, err = a.Duration("after"); err != nil {
			return site.Outcome{}, err
		}
	}
	b := book(a.By())
	e, err := b.Get(ctx, a.Path("id"))
	if err != nil {
		return site.Outcome{}, problem(err)
	}
	ends := time.Time{}
	if e.Expires > 0 {
		ends = time.UnixMilli(e.Expires)
	}
	if seen := a.Value("version"); seen != "" && seen != version(ends) {
		return site.Outcome{}, site.Changed(nil, "the token was rotated or changed meanwhile; look again")
	}
	if e.Ended(a.Now()) {
		return site.Outcome{}, site.Bad("token %s has ended; make a new one", tokens.Short(e.Digest))
	}
	made, fresh, err := b.Rotate(ctx, e, after)
	if err != nil && made == "" {
		return site.Outcome{}, problem(err)
	}
	said := fmt.Sprintf("It may what token %s may, which is valid for %s more. Its id is %s.", tokens.Short(e.Digest), look.Dur(after), tokens.Short(fresh.Digest))
	return secret(a, "The new token", said, made), nil
}

func create(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	within, err := a.Duration("within")
	if err != nil {
		return site.Outcome{}, err
	}
	limits, err := limitsOf(a)
	if err != nil {
		return site.Outcome{}, err
	}
	r := tokens.Record{
		Namespace: strings.TrimSpace(a.Value("namespace")), Pool: strings.TrimSpace(a.Value("pool")), Description: strings.TrimSpace(a.Value("description")),
		Scopes: words(a.Values("scopes")), Queues: words(a.Values("queues")), Limits: limits,
	}
	if r.Namespace == "" {
		return site.Outcome{}, site.Bad("a token belongs to a namespace; give namespace")
	}
	if _, err := tokens.ParseScopes(r.Scopes); err != nil {
		return site.Outcome{}, site.Bad("%w", err)
	}
	if within > 0 {
		r.Expires = a.Now().Add(within).UnixMilli()
	}
	made, e, err := book(a.By()).Create(ctx, r, "")
	if err != nil {
		return site.Outcome{}, problem(err)
	}
	return secret(a, "The new token", fmt.Sprintf("It is for %s. Its id is %s.", r.Namespace, tokens.Short(e.Digest)), made), nil
}

// secret is the answer that shows a token, once.
func secret(a *site.Ask, title, said, token string) site.Outcome {
	return site.Outcome{Said: said, Done: 1, Data: &site.Secret{Title: title, Said: said, Text: token, Back: a.URL("http", "?v", "tokens")}}
}

// words are the words of fields, which commas and blanks divide.
func words(fields []string) (all []string) {
	for _, field := range fields {
		all = append(all, strings.FieldsFunc(field, func(c rune) bool { return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t' })...)
	}
	return all
}

func limit(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	limits, err := limitsOf(a)
	if err != nil {
		return site.Outcome{}, err
	}
	b := book(a.By())
	e, err := b.Get(ctx, a.Path("id"))
	if err == nil {
		err = b.Limit(ctx, e, limits)
	}
	if err != nil {
		return site.Outcome{}, problem(err)
	}
	said := "no limits"
	if limits != nil {
		said = Limits{Read: limits.Read, Write: limits.Write, Interval: site.Span(time.Duration(limits.Interval) * time.Second)}.String()
	}
	return site.Outcome{Said: fmt.Sprintf("Token %s has %s now.", tokens.Short(e.Digest), said), Done: 1}, nil
}

// limitsOf reads read, write and window. nil: no limits.
func limitsOf(a *site.Ask) (*tokens.Limits, error) {
	l := new(tokens.Limits)
	for name, into := range map[string]*int64{"read": &l.Read, "write": &l.Write} {
		if strings.TrimSpace(a.Value(name)) == "" {
			continue
		}
		n, err := a.Number(name)
		if err != nil {
			return nil, err
		}
		if n < 0 {
			return nil, site.Bad("%s is below 0; 0 is no limit", name)
		}
		*into = n
	}
	if l.Read == 0 && l.Write == 0 {
		return nil, nil
	}
	window, err := a.Duration("window")
	if err != nil {
		return nil, err
	}
	if window == 0 {
		window = time.Second
	}
	l.Interval = int64(window / time.Second)
	if err := l.Check(); err != nil {
		return nil, site.Bad("%w", err)
	}
	return l, nil
}
