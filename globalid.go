package goworker

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// GlobalID names a Rails model instance, gid://app/Model/1. ActiveJob passes
// models as these; a parameter of this type takes one apart, a string parameter
// gets it whole. In JSON it is the string.
type GlobalID struct {
	// App is the Rails application's name.
	App string
	// Model is the class, "User" or "Admin::User".
	Model string
	// ID is the primary key, unescaped. The parts of a composite key are joined
	// with "/".
	ID string
}

var errGlobalID = errors.New("a GlobalID looks like gid://app/Model/1")

// String returns the gid:// form.
func (g GlobalID) String() string {
	parts := strings.Split(g.ID, "/")
	if slices.Contains(parts, "") { // no composite key, but slashes of the key itself
		parts = []string{g.ID}
	}
	for i, p := range parts {
		parts[i] = url.QueryEscape(p)
	}
	return "gid://" + g.App + "/" + g.Model + "/" + strings.Join(parts, "/")
}

// MarshalText returns the gid:// form.
func (g GlobalID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads the gid:// form. Parameters behind a question mark are
// dropped: they tell Rails' locator how to load the model.
func (g *GlobalID) UnmarshalText(text []byte) error {
	rest, ok := strings.CutPrefix(string(text), "gid://")
	rest, _, _ = strings.Cut(rest, "?")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) < 3 {
		return errGlobalID
	}
	for i, p := range parts {
		if p == "" {
			return errGlobalID
		}
		if i < 2 {
			continue
		}
		id, err := url.QueryUnescape(p)
		if err != nil {
			return errGlobalID
		}
		parts[i] = id
	}
	*g = GlobalID{App: parts[0], Model: parts[1], ID: strings.Join(parts[2:], "/")}
	return nil
}
