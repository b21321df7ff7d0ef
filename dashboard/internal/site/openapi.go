package site

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// schema is a JSON schema.
type schema = map[string]any

// describes is a type that says its own schema, because it encodes itself.
type describes interface{ Schema() schema }

// Schema is that of a time.
func (Time) Schema() schema { return schema{"type": "string", "format": "date-time", "nullable": true} }

// Schema is that of a duration.
func (Span) Schema() schema { return schema{"type": "integer", "description": "milliseconds"} }

// Schema is that of a wait.
func (Wait) Schema() schema {
	return boundedSchema("integer", "milliseconds; kind says how they are known")
}

// Schema is that of a number.
func (Num) Schema() schema {
	return boundedSchema("integer", "kind says whether it is the number or a bound")
}

// Schema is that of a rate.
func (PerSecond) Schema() schema { return boundedSchema("number", "a second") }

// Schema is that of the values of a plot.
func (Values) Schema() schema {
	return schema{"type": "array", "nullable": true, "items": schema{"type": "number", "nullable": true}}
}

func boundedSchema(kind, about string) schema {
	return schema{"type": "object", "required": []string{"value", "kind"}, "description": about, "properties": schema{
		"value": schema{"type": kind, "nullable": true},
		"kind":  schema{"type": "string", "enum": []string{"exact", "atleast", "atmost", "counted", "seen", "unknown"}},
	}}
}

// schemas collects the schemas of named types.
type schemas struct{ named map[string]any }

var (
	rawJSON     = reflect.TypeFor[json.RawMessage]()
	instants    = reflect.TypeFor[time.Time]()
	selfEncoded = reflect.TypeFor[json.Marshaler]()
)

// of returns the schema with which encoding/json encodes a type.
func (s *schemas) of(t reflect.Type) schema {
	if d, ok := reflect.Zero(t).Interface().(describes); ok && t.Kind() != reflect.Pointer {
		return d.Schema()
	}
	switch {
	case t == rawJSON || t.Kind() == reflect.Interface:
		return schema{"nullable": true}
	case t == instants:
		return schema{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		inner := s.of(t.Elem())
		if ref, ok := inner["$ref"]; ok {
			return schema{"nullable": true, "allOf": []any{schema{"$ref": ref}}}
		}
		inner["nullable"] = true
		return inner
	case t.Implements(selfEncoded):
		return schema{"nullable": true}
	}
	switch t.Kind() {
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return schema{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return schema{"type": "string", "nullable": true}
		}
		return schema{"type": "array", "nullable": t.Kind() == reflect.Slice, "items": s.of(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "nullable": true, "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.object(t)
	}
	return schema{"nullable": true}
}

// object is a reference to the schema of a struct.
func (s *schemas) object(t reflect.Type) schema {
	name := t.Name()
	if pkg := t.PkgPath(); pkg != "" {
		name = pkg[strings.LastIndexByte(pkg, '/')+1:] + "." + name
	}
	if _, known := s.named[name]; !known {
		s.named[name] = nil // a type within itself refers to this
		properties, always := schema{}, []string{}
		s.fields(t, properties, &always)
		object := schema{"type": "object", "properties": properties, "additionalProperties": false}
		if len(always) > 0 {
			object["required"] = always
		}
		s.named[name] = object
	}
	return schema{"$ref": "#/components/schemas/" + name}
}

// fields adds the fields of a struct, and the names of those that are always there.
func (s *schemas) fields(t reflect.Type, into schema, always *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			inner, there := f.Type, always
			if inner.Kind() == reflect.Pointer {
				inner, there = inner.Elem(), new([]string)
			}
			if inner.Kind() == reflect.Struct {
				s.fields(inner, into, there)
			}
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			into[name] = s.of(f.Type)
			if !strings.Contains(rest, "omit") {
				*always = append(*always, name)
			}
		}
	}
}

// OpenAPI describes the JSON of all pages and actions.
func (s *Site) OpenAPI() []byte {
	all := &schemas{named: schema{}}
	paths := schema{}
	at := func(path string) schema {
		path = api + strings.TrimSuffix(path, "/")
		if paths[path] == nil {
			item := schema{}
			if names := wildcards(path); names != nil {
				item["parameters"] = names
			}
			paths[path] = item
		}
		return paths[path].(schema)
	}
	failing := schema{"description": "why not", "content": schema{"application/problem+json": schema{"schema": schema{"$ref": "#/components/schemas/Problem"}}}}
	for _, p := range s.pages {
		answer := schema{"nullable": true}
		if p.Data != nil {
			answer = all.of(reflect.TypeOf(p.Data).Elem())
		}
		get := schema{
			"summary":   or(p.Title, p.Path),
			"responses": schema{"200": schema{"description": "the page", "content": schema{"application/json": schema{"schema": answer}}}, "default": failing},
		}
		var takes []any
		for _, name := range p.Params {
			takes = append(takes, schema{"name": name, "in": "query", "schema": schema{"type": "string"}})
		}
		if takes != nil {
			get["parameters"] = takes
		}
		at(p.Path)["get"] = get
	}
	outcome := all.of(reflect.TypeFor[Outcome]())
	for _, act := range s.acts {
		at(act.Path)["post"] = schema{
			"summary": act.Name, "description": "needs the role " + act.Role.String(),
			"requestBody": schema{"content": schema{"application/json": schema{"schema": schema{"type": "object", "additionalProperties": true}}}},
			"responses":   schema{"200": schema{"description": "what it did", "content": schema{"application/json": schema{"schema": outcome}}}, "202": schema{"description": "it goes on as an operation", "content": schema{"application/json": schema{"schema": outcome}}}, "default": failing},
		}
	}
	all.named["Problem"] = schema{"type": "object", "required": []string{"title", "status", "detail"}, "properties": schema{
		"title": schema{"type": "string"}, "status": schema{"type": "integer"}, "detail": schema{"type": "string"},
	}}
	text, err := json.MarshalIndent(schema{
		"openapi": "3.0.3", "info": schema{"title": "The dashboard of goworker", "version": "1"}, "paths": paths, "components": schema{"schemas": all.named},
	}, "", "  ")
	if err != nil {
		panic(err) // it is made of texts alone
	}
	return text
}

func or(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

// wildcards are the parameters in a path.
func wildcards(path string) (all []any) {
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			all = append(all, schema{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": schema{"type": "string"}})
		}
	}
	return all
}

func (s *Site) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.described())
}
