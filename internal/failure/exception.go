package failure

import (
	"reflect"
	"strings"
)

// Names gives the exceptions of the error types that the package above this one
// declares. It returns "" for any other error, and does not look at what err wraps.
type Names func(err error) string

// Named is an error of an internal package that knows its exception. No type of a
// program is one by chance: Word is internal.
type Named interface{ Exception() Word }

// Word is an exception as a failure record has it. It consists of letters, digits and
// _ . : only, since Resque's web page prints it without escaping. The record looks
// through an error whose Word is "", as if it only carried a text.
type Word string

// Exception returns the exception of a failure record: the name of an error's type,
// "mypkg.NotFound", or the name that Ruby has for the same failure. It never holds a
// user's text. Types that only carry a text or wrap another error are looked through.
func Exception(err error, names Names) (name string) {
	defer func() {
		if recover() != nil {
			name = "Error"
		}
	}()
	name = "Error"
	Walk(err, func(e error) bool {
		found := names(e)
		if n, ok := e.(Named); ok {
			found = string(n.Exception())
		} else if found == "" {
			found = typeName(e)
		}
		if found != "" {
			name = found
		}
		return found != ""
	})
	return name
}

// typeName is empty for the types that carry any error's text.
func typeName(err error) string {
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case "errors", "fmt", "github.com/pkg/errors", "golang.org/x/xerrors":
		return ""
	}
	if t.Name() == "" {
		return ""
	}
	name, _, _ := strings.Cut(t.String(), "[") // a type's parameters may name anything
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '.', r == ':':
			return r
		}
		return -1
	}, name)
	if strings.HasSuffix(name, ".") {
		return "" // a name without one allowed letter
	}
	return name
}
