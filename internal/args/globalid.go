package args

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

var errGlobalID = errors.New("a GlobalID looks like gid://app/Model/1")

// FormatGlobalID returns the URI of a Rails model instance.
func FormatGlobalID(app, model, id string) string {
	parts := strings.Split(id, "/")
	if slices.Contains(parts, "") { // no composite key, but slashes of the key itself
		parts = []string{id}
	}
	for i, p := range parts {
		parts[i] = url.QueryEscape(p)
	}
	return "gid://" + app + "/" + model + "/" + strings.Join(parts, "/")
}

// ParseGlobalID takes the URI of a Rails model instance apart. It drops the parameters behind a question
// mark, by which Rails' locator loads the model. The parts of a composite key are joined with "/".
func ParseGlobalID(text string) (app, model, id string, err error) {
	rest, ok := strings.CutPrefix(text, "gid://")
	rest, _, _ = strings.Cut(rest, "?")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) < 3 || slices.Contains(parts, "") {
		return "", "", "", errGlobalID
	}
	keys := parts[2:]
	for i, key := range keys {
		if keys[i], err = url.QueryUnescape(key); err != nil {
			return "", "", "", errGlobalID
		}
	}
	return parts[0], parts[1], strings.Join(keys, "/"), nil
}
