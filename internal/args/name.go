package args

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"runtime"
	"strings"

	"github.com/goworker/goworker/internal/pattern"
)

// Name is the name of a function: its import path, a dot, and what the program calls it.
type Name struct {
	Path string // of the package, with it: github.com/acme/app/mail.Send

	// Runtime is the path as the runtime has it. It differs where the last element of the package's path has a dot:
	// gopkg.in/mail%2ev2.Send.
	Runtime string

	// Short is for sentences: mail.Send.
	Short string
}

// lasting are the names, behind the package, of functions that are declared in a package, and of methods that are used as functions.
// What the compiler names by itself is not among them.
var (
	lasting = pattern.New(`^(\(\*[\pL_][\pL_\p{Nd}]*\)\.|[\pL_][\pL_\p{Nd}]*\.)?[\pL_][\pL_\p{Nd}]*$`)
	counted = pattern.New(`\.(func|gowrap|deferwrap)\d+$`)
)

// NameOf returns the name of a function. The error says why it has none that lasts: the end of a sentence that begins with the
// function.
func NameOf(fn any) (n Name, err error) {
	v := reflect.ValueOf(fn)
	switch {
	case fn == nil:
		return n, errors.New("there is no function")
	case v.Kind() != reflect.Func:
		return n, fmt.Errorf("%s is no function", articled(v.Type()))
	case v.IsNil():
		return n, fmt.Errorf("the %s is nil", v.Type())
	}
	return named(runtime.FuncForPC(v.Pointer()).Name())
}

// named is NameOf by the name that the runtime has.
func named(name string) (n Name, err error) {
	n.Runtime = name
	slash := strings.LastIndexByte(n.Runtime, '/') + 1
	pkg, own, _ := strings.Cut(n.Runtime[slash:], ".")
	path := n.Runtime[:slash] + pkg
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	n.Path = path + "." + own
	n.Short = path[strings.LastIndexByte(path, '/')+1:] + "." + own
	switch {
	case strings.HasSuffix(own, "-fm") || n.Runtime == "reflect.methodValueCall":
		return n, fmt.Errorf("%s is a method of one value, and no name says which value", strings.TrimSuffix(n.Short, "-fm"))
	case strings.HasSuffix(own, "[...]"):
		return n, fmt.Errorf("%s is one of many instances of a generic function, and its name does not say which", n.Short)
	case n.Runtime == "reflect.makeFuncStub":
		return n, errors.New("a function that package reflect has made has no name")
	case strings.HasPrefix(path, "plugin/unnamed-"):
		return n, fmt.Errorf("%s is of a plugin's package main, and its path changes with each build", n.Short)
	case !lasting.MatchString(own) || counted.MatchString(own):
		return n, fmt.Errorf("%s is a closure, or a function that the compiler has named; such a name changes when the code around it does", n.Short)
	}
	return n, nil
}
