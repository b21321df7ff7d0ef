package workflow

import (
	"encoding"
	"encoding/json"
	"reflect"
)

type paramType = reflect.Type

// kind is what is known of a JSON value: the type of which it is made, or that it is a list or an object. The zero kind is
// any value.
type kind struct {
	typ    reflect.Type
	list   bool
	items  []*kind // of a list
	object bool
	name   string // for sentences
}

// String names the value in sentences.
func (k *kind) String() string {
	switch {
	case k.name != "":
		return k.name
	case k.list:
		return "a list"
	case k.typ == nil:
		return "a value"
	}
	switch name := k.typ.String(); name[0] {
	case 'a', 'e', 'i', 'o', 'u':
		return "an " + name
	default:
		return "a " + name
	}
}

// kind is the kind of the JSON of a value.
func (v *value) kind() *kind {
	if s := v.step; s != nil {
		switch {
		case !s.Known || s.External != 0 || len(s.Results) == 0:
			return &kind{}
		case len(s.Results) == 1:
			return &kind{typ: s.Results[0]}
		}
		several := &kind{list: true}
		for _, r := range s.Results {
			several.items = append(several.items, &kind{typ: r})
		}
		return several
	}
	k := &kind{list: true}
	for _, i := range v.items {
		if v.collect {
			k.items = append(k.items, &kind{object: true, name: "a result or an error"})
		} else {
			k.items = append(k.items, i.kind())
		}
	}
	if v.rest != nil {
		k.items = append(k.items, &kind{object: v.collect, name: "a result"})
	}
	return k
}

var (
	opaqueTypes = []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	}
	bytesType = reflect.TypeFor[byte]()
)

// resultsOf is implemented by types that read the list of a group's results by themselves. They count as lists of this type.
type resultsOf interface{ ResultsOf() reflect.Type }

// plain returns the type without pointers. It is nil if its JSON may be anything.
func plain(t reflect.Type) reflect.Type {
	for range mostNested {
		if t == nil {
			return nil
		}
		if of, ok := reflect.New(t).Interface().(resultsOf); ok {
			return reflect.SliceOf(of.ResultsOf())
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
			continue
		}
		for _, own := range opaqueTypes {
			if t.Implements(own) || reflect.PointerTo(t).Implements(own) {
				return nil
			}
		}
		if t.Kind() == reflect.Interface || t == reflect.TypeFor[json.Number]() {
			return nil
		}
		return t
	}
	return nil
}

// shape is what the JSON of a type begins with.
func shape(t reflect.Type) byte {
	switch t.Kind() {
	case reflect.Bool:
		return 'b'
	case reflect.String:
		return 's'
	case reflect.Struct, reflect.Map:
		return 'o'
	case reflect.Slice:
		if t.Elem() == bytesType {
			return 's'
		}
		return 'l'
	case reflect.Array:
		return 'l'
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64, reflect.Uintptr, reflect.Float32, reflect.Float64:
		return 'n'
	}
	return 0
}

// fits reports whether JSON may bring a value into a type. It is true where that is not known.
func fits(from *kind, to reflect.Type) bool { return fitsWithin(from, to, 32) }

func fitsWithin(from *kind, to reflect.Type, room int) bool {
	to = plain(to)
	if to == nil || room == 0 {
		return true
	}
	s := shape(to)
	if from.list {
		if s == 'o' {
			return len(from.items) == 0 // as PHP writes an empty map
		}
		if s != 'l' {
			return false
		}
		for _, i := range from.items {
			if !fitsWithin(i, to.Elem(), room-1) {
				return false
			}
		}
		return true
	}
	if from.object {
		return s == 'o' || s == 0
	}
	t := plain(from.typ)
	if t == nil {
		return true
	}
	f := shape(t)
	switch {
	case f == 0 || s == 0:
		return true
	case f != s:
		return false
	case f == 'l' || t.Kind() == reflect.Map && to.Kind() == reflect.Map:
		return fitsWithin(&kind{typ: t.Elem()}, to.Elem(), room-1)
	}
	return true
}
