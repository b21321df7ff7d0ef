package args

import (
	"reflect"
	"strings"
)

// field is a field of a struct as encoding/json has it.
type field struct {
	name   string
	index  []int
	tagged bool
	quoted bool // its value is a string that holds JSON
}

type fields []field

// named returns the field that takes a member, nil if none does.
func (fs fields) named(name string) *field {
	for i := range fs {
		if fs[i].name == name {
			return &fs[i]
		}
	}
	for i := range fs {
		if strings.EqualFold(fs[i].name, name) {
			return &fs[i]
		}
	}
	return nil
}

// fieldsOf returns the fields of a struct and of those embedded in it. Of several with one name the least deep counts, then the one
// with a tag, else none.
func fieldsOf(t reflect.Type) (all fields) {
	type embedded struct {
		t     reflect.Type
		index []int
	}
	seen, hidden := make(map[reflect.Type]bool), make(map[string]bool)
	for level := []embedded{{t: t}}; len(level) > 0; {
		var next []embedded
		found := make(map[string]fields)
		for _, e := range level {
			if seen[e.t] {
				continue
			}
			seen[e.t] = true
			for i := range e.t.NumField() {
				f := e.t.Field(i)
				index := append(e.index[:len(e.index):len(e.index)], f.Index...)
				tag := f.Tag.Get("json")
				name, options, _ := strings.Cut(tag, ",")
				inner := f.Type
				if inner.Kind() == reflect.Pointer && inner.Name() == "" {
					inner = inner.Elem()
				}
				structure := f.Anonymous && inner.Kind() == reflect.Struct
				switch {
				case tag == "-", !f.IsExported() && !structure:
				case structure && name == "":
					next = append(next, embedded{inner, index})
				default:
					of := field{name: name, index: index, tagged: name != "", quoted: strings.Contains(options, "string")}
					if name == "" {
						of.name = f.Name
					}
					found[of.name] = append(found[of.name], of)
				}
			}
		}
		for name, of := range found {
			if !hidden[name] {
				hidden[name] = true
				all = append(all, of.dominant()...)
			}
		}
		level = next
	}
	return all
}

// dominant returns the one of several fields of a level that counts, none if there is no such one.
func (fs fields) dominant() fields {
	if len(fs) == 1 {
		return fs
	}
	var tagged fields
	for _, f := range fs {
		if f.tagged {
			tagged = append(tagged, f)
		}
	}
	if len(tagged) != 1 {
		return nil
	}
	return tagged
}
