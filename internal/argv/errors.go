package argv

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/goworker/goworker/internal/conn"
)

func unknownFlag(arg string) error {
	return fmt.Errorf("this program has no flag %s; -help lists those it has", arg)
}

// strayArgument is the error of an argument that belongs to no flag.
func strayArgument(arg string) error {
	return fmt.Errorf("what is %q? It is neither a flag nor the value of one; write a list without blanks, as in -queues=a,b, and a switch with an equals sign, as in -use-number=false", conn.RedactURI(arg))
}

func needsValue(name string) error {
	return fmt.Errorf("the flag -%s needs a value, as in -%[1]s=value", name)
}

// valueError turns pflag's error into a sentence. It shows a value only if it
// was given to one of our flags, which never take a secret.
func valueError(err error, ours *pflag.FlagSet) error {
	var missing *pflag.ValueRequiredError
	if errors.As(err, &missing) {
		return needsValue(missing.GetSpecifiedName())
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("%w", err)
	}
	name, shown, why := invalid.GetFlag().Name, "", Cause(err)
	if f := ours.Lookup(name); f != nil {
		shown = fmt.Sprintf(" as %q", conn.RedactURI(invalid.GetValue()))
	}
	return fmt.Errorf("cannot use the flag -%s%s: %w", name, shown, why)
}

// Cause is the error that a flag's value itself returned.
func Cause(err error) error {
	var invalid *pflag.InvalidValueError
	for errors.As(err, &invalid) {
		err = invalid.Unwrap()
	}
	var number *strconv.NumError
	switch {
	case !errors.As(err, &number):
		return err
	case number.Func == "ParseBool":
		return errors.New("it takes true or false")
	case number.Func == "ParseInt" || number.Func == "Atoi":
		return errors.New("it takes a whole number")
	}
	return number.Err
}
