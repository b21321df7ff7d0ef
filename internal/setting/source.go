package setting

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/goworker/goworker/internal/argv"
)

// Text is a value as text, and where it is from: worker.yaml:4:14.
type Text struct{ Value, From string }

// Sources are where settings come from, beside the program's own. The zero value has none.
type Sources struct {
	Given  func(flag string) bool // whether a flag was given, and so has set its field
	Getenv func(string) string
	File   map[string]Text // of a configuration file, by flag
}

// Level is which source a value is from; of two the higher one counts.
type Level int

// The levels.
const (
	FromDefault    Level = iota
	FromCredential       // a file that systemd gives the process
	FromFile
	FromEnvironment
	FromProgram // SetSettings, New
	FromFlag
)

// Origin is where the value of a setting is from.
type Origin struct {
	Level Level
	Name  string // of the flag, the variable, or the place in the file; "" for the others
}

func (o Origin) String() string {
	switch o.Level {
	case FromDefault:
		return "default"
	case FromProgram:
		return "program"
	case FromFlag:
		return "-" + o.Name
	}
	return o.Name
}

// credentials is the variable with the directory of the credentials that systemd gives the process.
const credentials = "CREDENTIALS_DIRECTORY"

// Variable returns the name of the setting's variable that all settings have.
func (r Row[S]) Variable() string {
	if r.Flag == "" {
		return ""
	}
	return "GOWORKER_" + strings.ToUpper(strings.ReplaceAll(r.Flag, "-", "_"))
}

// Parse sets the setting to a text, as its flag does.
func (r Row[S]) Parse(s *S, text string) error {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	put := r.Define(set)
	f := set.Lookup(r.Flag)
	if err := f.Value.Set(text); err != nil {
		return argv.Cause(err)
	}
	f.Changed = true
	put(s)
	return nil
}

// Take fills in the fields that are zero: from the environment, the file, or a credential. It returns where each setting is from,
// by its field, and all mistakes.
func Take[S any](rows []Row[S], s *S, from Sources) (origins map[string]Origin, errs []error) {
	origins = make(map[string]Origin)
	for _, r := range rows {
		o, err := r.take(s, from)
		if origins[r.Field] = o; err != nil {
			errs = append(errs, err)
		}
	}
	for _, r := range rows {
		if r.Rival == "" {
			continue
		}
		other := rows[slices.IndexFunc(rows, func(o Row[S]) bool { return o.Field == r.Rival })]
		here, there := origins[r.Field], origins[r.Rival]
		switch {
		case here.Level == FromDefault || there.Level == FromDefault:
		case here.Level == there.Level:
			errs = append(errs, fmt.Errorf("%s%s and %s say the same thing in two ways: give one of them", here.place(), r.named(here), other.named(there)))
		case here.Level > there.Level:
			reflect.ValueOf(s).Elem().FieldByName(r.Rival).SetZero()
			origins[r.Rival] = Origin{}
		default:
			reflect.ValueOf(s).Elem().FieldByName(r.Field).SetZero()
			origins[r.Field] = Origin{}
		}
	}
	return origins, errs
}

// named is the setting as the source calls it.
func (r Row[S]) named(o Origin) string {
	switch o.Level {
	case FromEnvironment:
		return o.Name
	case FromProgram:
		return r.Field
	case FromFlag:
		return "-" + r.Flag
	}
	return r.Flag
}

// place is what a mistake in a value of the file begins with.
func (o Origin) place() string {
	if o.Level != FromFile {
		return ""
	}
	return o.Name + ": "
}

func (r Row[S]) take(s *S, from Sources) (Origin, error) {
	if r.Flag != "" && from.Given != nil && from.Given(r.Flag) {
		return Origin{FromFlag, r.Flag}, nil
	}
	v := reflect.ValueOf(s).Elem()
	if slices.ContainsFunc(r.Fields(), func(name string) bool { return !v.FieldByName(name).IsZero() }) {
		return Origin{Level: FromProgram}, nil
	}
	if from.Getenv != nil {
		if name := r.Variable(); name != "" && from.Getenv(name) != "" {
			if err := r.Parse(s, from.Getenv(name)); err != nil {
				return Origin{}, fmt.Errorf("the variable %s is %s: %w", name, r.shown(from.Getenv(name)), err)
			}
			return Origin{FromEnvironment, name}, nil
		}
		if value, name := r.lookUp(from.Getenv); value != "" {
			switch field := r.field(s).(type) {
			case *string:
				*field = value
			case *bool:
				*field = value == "true"
			}
			return Origin{FromEnvironment, name}, nil
		}
	}
	if text, ok := from.File[r.Flag]; ok && r.Flag != "" {
		if err := r.Parse(s, text.Value); err != nil {
			return Origin{}, fmt.Errorf("%s: %s is %s: %w", text.From, r.Flag, r.shown(text.Value), err)
		}
		return Origin{FromFile, text.From}, nil
	}
	if r.Credential != "" && from.Getenv != nil && from.Getenv(credentials) != "" {
		path := filepath.Join(from.Getenv(credentials), r.Credential)
		if Exists(path) {
			*r.field(s).(*string) = path
			return Origin{FromCredential, path}, nil
		}
	}
	return Origin{}, nil
}

// Shown is a setting as people see it, without passwords.
type Shown struct {
	Field, Flag, Variable, Value string
	Origin                       Origin
	Constant                     bool // the value is the constant that is the default
	Live                         bool
}

// Show returns all settings that have a flag.
func Show[S any](rows []Row[S], s *S, origins map[string]Origin) (all []Shown) {
	for _, r := range rows {
		if r.opaque() {
			continue
		}
		one := Shown{Field: r.Field, Flag: r.Flag, Variable: r.Variable(), Origin: origins[r.Field], Live: r.Live, Value: r.Format(s)}
		field := reflect.ValueOf(r.field(s)).Elem()
		one.Constant = field.Interface() == r.Default || r.Default == nil && field.IsZero()
		if r.Upto != "" && !reflect.ValueOf(s).Elem().FieldByName(r.Upto).IsZero() {
			one.Constant = false
		}
		all = append(all, one)
	}
	return all
}

// opaque reports whether the setting is of a type that is no text.
func (r Row[S]) opaque() bool {
	switch r.field(new(S)).(type) {
	case *string, *bool, *int, *time.Duration:
		return false
	}
	return true
}

// Format writes the value of checked settings as the flag takes it, without a password.
func (r Row[S]) Format(s *S) string {
	switch v := r.field(s).(type) {
	case *string:
		return r.redact(*v)
	case *bool:
		return strconv.FormatBool(*v)
	case *int:
		if r.Bytes {
			return argv.FormatSize(*v)
		}
		if r.Upto != "" {
			if most := reflect.ValueOf(s).Elem().FieldByName(r.Upto).Int(); most > 0 {
				return fmt.Sprintf("%d..%d", *v, most)
			}
		}
		return strconv.Itoa(*v)
	case *time.Duration:
		return v.String()
	}
	return ""
}

func (r Row[S]) redact(text string) string {
	if r.Redact != nil {
		return r.Redact(text)
	}
	return text
}

func (r Row[S]) shown(text string) string { return strconv.Quote(r.redact(text)) }

// Change is a setting that differs between two reads of its sources.
type Change struct {
	Flag, From, To string
	Live           bool // it changes while the program runs; otherwise at the next start
}

func (c Change) String() string {
	return fmt.Sprintf("%s %s → %s", c.Flag, cmp.Or(c.From, `""`), cmp.Or(c.To, `""`))
}

// Changes compares checked settings, and copies those that change at once into was.
func Changes[S any](rows []Row[S], was, now *S) (changes []Change) {
	from, to := reflect.ValueOf(was).Elem(), reflect.ValueOf(now).Elem()
	for _, r := range rows {
		same := r.Flag == "" || !slices.ContainsFunc(r.Fields(), func(name string) bool {
			return !reflect.DeepEqual(from.FieldByName(name).Interface(), to.FieldByName(name).Interface())
		})
		if same {
			continue
		}
		changes = append(changes, Change{r.Flag, r.Format(was), r.Format(now), r.Live})
		if r.Live {
			for _, name := range r.Fields() {
				from.FieldByName(name).Set(to.FieldByName(name))
			}
		}
	}
	return changes
}

// Join joins the mistakes of a file and those of the settings, without repeating one.
func Join(file, settings error) error {
	switch {
	case file == nil:
		return settings
	case settings == nil:
		return file
	}
	lines := strings.Split(file.Error(), "\n")
	for line := range strings.SplitSeq(settings.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return joined{strings.Join(lines, "\n"), []error{file, settings}}
}

// joined are mistakes in lines.
type joined struct {
	text string
	all  []error
}

func (j joined) Error() string   { return j.text }
func (j joined) Unwrap() []error { return j.all }
