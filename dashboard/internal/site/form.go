package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// mostBody is how many bytes the body of an action may have.
const mostBody = 1 << 20

// values are the fields of an action, from a form or from JSON. A field of JSON that is no text has its JSON as text.
type values map[string][]string

func (v values) Get(name string) string {
	if all := v[name]; len(all) > 0 {
		return all[0]
	}
	return ""
}

func (v values) All(name string) []string { return v[name] }

// readValues reads the body of an action.
func readValues(w http.ResponseWriter, r *http.Request) (v values, isJSON bool, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	body, err := io.ReadAll(r.Body)
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, false, problem(http.StatusRequestEntityTooLarge, "the request has more than 1 MiB")
		}
		return nil, false, Bad("the request was cut off: %w", err)
	}
	switch {
	case kind == "application/json":
		v, err := jsonValues(body)
		return v, true, err
	case kind == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, false, Bad("the form cannot be read: %w", err)
		}
		return values(form), false, nil
	case len(body) == 0:
		return values{}, false, nil
	}
	return nil, false, problem(http.StatusUnsupportedMediaType, "the request is %q; send application/json, or a form as application/x-www-form-urlencoded", kind)
}

func jsonValues(body []byte) (values, error) {
	v := values{}
	if len(bytes.TrimSpace(body)) == 0 {
		return v, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, Bad("the body is no JSON object: %w", err)
	}
	for name, raw := range fields {
		var list []json.RawMessage
		if raw[0] == '[' && json.Unmarshal(raw, &list) == nil && name != "args" {
			for _, one := range list {
				v[name] = append(v[name], jsonText(one))
			}
			continue
		}
		if string(raw) != "null" {
			v[name] = []string{jsonText(raw)}
		}
	}
	return v, nil
}

func jsonText(raw json.RawMessage) string {
	var text string
	if raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// local is a path of this site, below the prefix, to which a form may come back; "": there is none.
func local(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n") {
		return ""
	}
	if u, err := url.Parse(path); err != nil || u.Host != "" || u.Scheme != "" {
		return ""
	}
	return path
}
