package failure

import (
	"cmp"
	"reflect"
	"strings"
)

// Names gives the exceptions of the error types that the package above this one
// declares. It returns "" for any other error, and does not look at what err wraps.
type Names func(err error) string

// named is an error of an internal package that knows its exception. The record looks
// through it if that is "", as if it only carried a text.
type named interface{ Exception() string }

// exceptionOf returns the exception of a named error. Exception is not called on a program's
// own type: its method may have that name by chance.
func exceptionOf(err error) (exception string, known bool) {
	n, ok := err.(named)
	if !ok || !strings.HasPrefix(typeOf(err).PkgPath(), module+"/internal/") {
		return "", false
	}
	return n.Exception(), true
}

// Exception returns the exception of a failure record: the name of an error's type,
// "mypkg.NotFound", or the name that Ruby has for the same failure. Resque's web page
// prints it without escaping, so it consists of letters, digits and _ . : only, and
// never holds a user's text. Types that only carry a text or wrap another error are looked through.
func Exception(err error, names Names) (name string) {
	defer func() {
		if recover() != nil {
			name = "Error"
		}
	}()
	name = "Error"
	Walk(err, func(e error) bool {
		found, known := exceptionOf(e)
		if !known {
			found = cmp.Or(names(e), typeName(e))
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
	t := typeOf(err)
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

// typeOf returns the type of an error, or that to which it points.
func typeOf(err error) reflect.Type {
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
