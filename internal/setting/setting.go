// Package setting reads settings by a table. A row of it is one setting: its names, its
// default, what is allowed, and its flag and environment variables.
package setting

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/goworker/goworker/internal/argv"
)

// Row is one setting of a struct S. Its field is a string, a bool, an int or a
// time.Duration; fields of other types have neither flag nor check.
type Row[S any] struct {
	Field   string   // of S
	Also    string   // further fields of this setting, separated by blanks
	Flag    string   // without its dash; empty: it has none
	Env     []string // variables of the environment; the first that is set counts
	Default any      // of the field's type; nil: its zero value
	Derived string   // what is the default in words, if it is no constant
	None    string   // the name of the constant -1 for no limit; 0 on the command line
	Allowed []string // the words that are allowed, in any case; nil: any text
	Max     int      // the largest number that is allowed; 0: any
	Bytes   bool     // the number is a size; without a Max, zero is none
	Upto    string   // a further field of this setting, that is a number too: the flag takes 5, or both as in 5..50
	Help    string   // of the flag
	Path    bool     // it is the path of a file
	Live    bool     // it changes while the program runs, when the configuration file is read again
	Rival   string   // the field of a setting that says the same thing in another way; of both the higher source counts

	// Credential is the name of a file among those that systemd gives the process, whose path is the value where nothing else is.
	Credential string

	// Redact takes a password out of a value that is shown; nil: there is none.
	Redact func(string) string

	// Environment, if it is set, is read in place of the first variable of Env.
	Environment func(getenv func(string) string) string

	// Put, if it is set, is called after the flag's value was put into the field.
	Put func(*S)

	// Wrong, if it is set, says what is wrong with the text given to the flag.
	Wrong func(text string) error

	// Check, if it is set, is called before the field is checked. It may fill in the
	// field, and refuse values that the row allows.
	Check func(*S) error
}

// Fields returns all fields of the setting, the first first.
func (r Row[S]) Fields() []string {
	return append([]string{r.Field}, strings.Fields(r.Also+" "+r.Upto)...)
}

// field returns a pointer to the setting's field.
func (r Row[S]) field(s *S) any {
	return reflect.ValueOf(s).Elem().FieldByName(r.Field).Addr().Interface()
}

// Define defines the setting's flag on a set. put copies the flag's value into
// settings, if the flag was given.
func (r Row[S]) Define(set *pflag.FlagSet) (put func(*S)) {
	var take func(field any)
	switch r.field(new(S)).(type) {
	case *string:
		take = r.defineText(set)
	case *bool:
		value := set.Bool(r.Flag, defaultOf[bool](r.Default), r.Help)
		take = func(field any) { *field.(*bool) = *value }
	case *int:
		take = r.defineNumber(set)
	case *time.Duration:
		value := argv.Seconds(defaultOf[time.Duration](r.Default))
		set.Var(&value, r.Flag, r.Help)
		take = func(field any) { *field.(*time.Duration) = orNone(time.Duration(value), r.None) }
	default:
		panic(fmt.Sprintf("setting: the flag -%s is of a type that no flag has", r.Flag))
	}
	f := set.Lookup(r.Flag)
	return func(s *S) {
		if !f.Changed {
			return
		}
		take(r.field(s))
		if both, ok := f.Value.(*argv.Span); ok {
			reflect.ValueOf(s).Elem().FieldByName(r.Upto).SetInt(int64(both.Most))
		}
		if r.Put != nil {
			r.Put(s)
		}
	}
}

// defineText defines a flag for a text.
func (r Row[S]) defineText(set *pflag.FlagSet) (take func(field any)) {
	byDefault := defaultOf[string](r.Default)
	switch {
	case r.Allowed != nil:
		value := argv.Word{Value: byDefault, Allowed: r.Allowed}
		set.Var(&value, r.Flag, r.Help)
		return func(field any) { *field.(*string) = value.Value }
	case r.Wrong != nil:
		value := argv.Text{Value: byDefault, Check: r.Wrong}
		set.Var(&value, r.Flag, r.Help)
		return func(field any) { *field.(*string) = value.Value }
	}
	value := set.String(r.Flag, byDefault, r.Help)
	return func(field any) { *field.(*string) = *value }
}

// defineNumber defines a flag for a number. If zero stands for the default and not for
// a number, the flag refuses zero.
func (r Row[S]) defineNumber(set *pflag.FlagSet) (take func(field any)) {
	byDefault := defaultOf[int](r.Default)
	if r.Bytes {
		value := argv.Size{Bytes: byDefault, Most: r.Max}
		set.Var(&value, r.Flag, r.Help)
		return func(field any) { *field.(*int) = value.Bytes }
	}
	if r.Upto != "" {
		value := argv.Span{Least: byDefault}
		set.Var(&value, r.Flag, r.Help)
		return func(field any) { *field.(*int) = value.Least }
	}
	if byDefault > 0 && r.None == "" {
		value := argv.Count(byDefault)
		set.Var(&value, r.Flag, r.Help)
		return func(field any) { *field.(*int) = int(value) }
	}
	value := argv.Amount(byDefault)
	set.Var(&value, r.Flag, r.Help)
	return func(field any) { *field.(*int) = orNone(int(value), r.None) }
}

// Fill fills in the default, if the field is zero, and checks the setting. A field of -1, for no limit, becomes zero. o is where
// the value is from.
func (r Row[S]) Fill(s *S, o Origin) (err error) {
	defer func() {
		if err != nil && o.Level == FromFile {
			err = fmt.Errorf("%s%w", o.place(), err)
		}
	}()
	if r.Check != nil {
		if err := r.Check(s); err != nil {
			return err
		}
	}
	switch field := r.field(s).(type) {
	case *string:
		name := r.Field
		if o.Level == FromEnvironment {
			name = o.Name
		}
		*field = cmp.Or(*field, defaultOf[string](r.Default))
		if r.Allowed != nil {
			*field, err = oneOf(name, *field, r.Allowed)
		}
	case *int:
		*field, err = number(r, *field, "at least 1")
	case *time.Duration:
		*field, err = number(r, *field, "positive")
	}
	return err
}

// lookUp returns the setting's value in the environment, and the name of its variable.
func (r Row[S]) lookUp(getenv func(string) string) (value, name string) {
	if r.Environment != nil {
		return r.Environment(getenv), r.Env[0]
	}
	for _, name := range r.Env {
		if value := getenv(name); value != "" {
			return value, name
		}
	}
	return "", ""
}

func number[S any, T int | time.Duration](r Row[S], v T, allowed string) (T, error) {
	byDefault := defaultOf[T](r.Default)
	switch {
	case r.Max > 0 && v > T(r.Max) && r.Bytes:
		return 0, fmt.Errorf("%s is %v: it must be at most %v (%s)", r.Field, v, r.Max, argv.FormatSize(r.Max))
	case r.Max > 0 && v > T(r.Max):
		return 0, fmt.Errorf("%s is %v: it must be at most %v", r.Field, v, r.Max)
	case v < 0 && r.None == "" && byDefault == 0:
		return 0, fmt.Errorf("%s is %v: it must be %s, or 0 for none", r.Field, v, allowed)
	case v < 0 && r.None == "":
		return 0, fmt.Errorf("%s is %v: it must be %s, or 0 for %v", r.Field, v, allowed, byDefault)
	case v == -1:
		return 0, nil
	case v < 0:
		return 0, fmt.Errorf("%s is %v: it must be positive, 0 for the default, or %s", r.Field, v, r.None)
	}
	return cmp.Or(v, byDefault), nil
}

func oneOf(field, value string, allowed []string) (string, error) {
	for _, a := range allowed {
		if strings.EqualFold(value, a) {
			return a, nil
		}
	}
	return "", fmt.Errorf("%s is %q: it must be %s", field, value, argv.OneOf(allowed))
}

// orNone returns -1 for a zero that stands for no limit.
func orNone[T int | time.Duration](v T, none string) T {
	if v == 0 && none != "" {
		return -1
	}
	return v
}

func defaultOf[T any](v any) T {
	t, _ := v.(T)
	return t
}
