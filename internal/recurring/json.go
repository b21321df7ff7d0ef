package recurring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/cron"
	"github.com/goworker/goworker/internal/payload"
)

// MarshalJSON writes the schedule as resque-scheduler keeps it in Redis. A field that only
// goworker knows is written if it is set.
func (r Recurring) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	var failed error
	put := func(name string, value any) {
		text, err := payload.EncodeValue(value, payload.Plain)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
		}
		b.WriteByte("{,"[min(b.Len(), 1)])
		fmt.Fprintf(&b, "%q:", name)
		b.Write(text)
	}
	text := func(name, value string) {
		if value != "" {
			put(name, value)
		}
	}
	when := func(name, value string) {
		switch {
		case value == "":
		case r.FirstIn > 0:
			options, _ := payload.EncodeValue(map[string]any{"first_in": period(r.FirstIn)}, payload.Plain)
			put(name, []any{value, json.RawMessage(options)})
		default:
			put(name, value)
		}
	}
	text("class", r.Class)
	zoned := r.Cron
	if zoned != "" && r.Location != nil && r.Location != time.Local && !namesZone(zoned) {
		zoned += " " + r.Location.String()
	}
	when("cron", zoned)
	when("every", period(r.Every))
	text("queue", r.Queue)
	if r.Args != nil {
		put("args", r.Args)
	}
	text("description", r.Description)
	if r.Environments != nil {
		put("rails_env", strings.Join(r.Environments, ", "))
	}
	if r.TickArg {
		put("tick_arg", true)
	}
	text("missed", r.Missed)
	text("grace", period(r.Grace))
	text("fugit", r.Fugit)
	if b.Len() == 0 {
		return []byte("{}"), failed
	}
	b.WriteByte('}')
	return b.Bytes(), failed
}

// period writes a duration as ParsePeriod reads it; "" for none.
func period(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	default:
		return fmt.Sprintf("%d.%03ds", d/time.Second, d%time.Second/time.Millisecond)
	}
}

// namesZone reports whether a cron ends with a time zone.
func namesZone(text string) bool {
	unnamed := time.FixedZone("", 0)
	c, err := cron.Parse(text, unnamed, cron.Gem{})
	return err == nil && c.Zone() != unnamed
}

// Fields are the names of an entry's fields: those that UnmarshalJSON reads, and one of Ruby's.
var Fields = []string{
	"class", "cron", "every", "queue", "args", "description", "rails_env", "env", "custom_job_class",
	"tick_arg", "missed", "grace", "fugit", "persist",
}

// UnmarshalJSON reads an entry as resque-scheduler does. Args that are an object or a single value
// are one argument; null and false are none. Of a cron and an every, the cron counts. Names of
// fields are case-sensitive: "Cron" is ignored.
func (r *Recurring) UnmarshalJSON(entry []byte) error {
	var w map[string]json.RawMessage
	if err := json.Unmarshal(entry, &w); err != nil {
		return fmt.Errorf("it is no entry of a schedule: %w", err)
	}
	if custom := w["custom_job_class"]; given(custom) && string(custom) != `"Resque::Job"` {
		return fmt.Errorf("its custom_job_class %s is a Ruby class that would enqueue the job; only Ruby can", custom)
	}
	*r = Recurring{}
	var err error
	read := func(name string, to any) {
		if err == nil && given(w[name]) {
			if err = json.Unmarshal(w[name], to); err != nil {
				err = fmt.Errorf("its %s is wrong: %w", name, err)
			}
		}
	}
	text := func(name string, to *string) {
		if err == nil && given(w[name]) {
			if *to, err = readScalar(w[name]); err != nil {
				err = fmt.Errorf("its %s is wrong: %w", name, err)
			}
		}
	}
	text("class", &r.Class)
	text("queue", &r.Queue)
	text("fugit", &r.Fugit)
	read("tick_arg", &r.TickArg)
	read("missed", &r.Missed)
	_ = json.Unmarshal(w["description"], &r.Description) // a wrong one does no harm
	if err != nil {
		return err
	}
	if given(w["cron"]) {
		r.Cron, r.FirstIn, err = readWhen(w["cron"])
	} else if given(w["every"]) {
		var every string
		if every, r.FirstIn, err = readWhen(w["every"]); err == nil {
			r.Every, err = cron.ParsePeriod(every)
		}
	}
	if err == nil && given(w["grace"]) {
		r.Grace, err = readPeriod(w["grace"])
	}
	if err == nil {
		r.Args, err = readArgs(w["args"])
	}
	for _, list := range []json.RawMessage{w["rails_env"], w["env"]} {
		if err == nil && r.Environments == nil && !null(list) {
			r.Environments, err = readEnvironments(list)
		}
	}
	return err
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// given reports whether a field has a value. Empty ones have none, as in Ruby.
func given(raw json.RawMessage) bool {
	switch string(raw) {
	case `""`, "[]", "{}":
		return false
	}
	return !null(raw)
}

// readWhen reads "1h", 3600 or ["1h", {"first_in": "5m"}].
func readWhen(raw json.RawMessage) (value string, firstIn time.Duration, err error) {
	if raw[0] != '[' {
		value, err = readScalar(raw)
		return value, 0, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 || len(list) > 2 {
		return "", 0, fmt.Errorf("%s says no time; write it as in [\"1h\", {\"first_in\": \"5m\"}]", raw)
	}
	if value, err = readScalar(list[0]); err != nil || len(list) == 1 || !given(list[1]) {
		return value, 0, err
	}
	var options map[string]json.RawMessage
	if err := json.Unmarshal(list[1], &options); err != nil {
		return "", 0, fmt.Errorf("%s are no options; write them as in {\"first_in\": \"5m\"}", list[1])
	}
	for name, option := range options {
		switch strings.TrimPrefix(name, ":") {
		case "first_in":
			if firstIn, err = readFirstIn(option); err != nil {
				return "", 0, fmt.Errorf("first_in: %w", err)
			}
		case "overlap", "allow_overlapping", "blocking", "mutex", "timeout", "tag", "tags", "job":
			// no effect on a job that is only enqueued, as in Ruby
		default:
			return "", 0, fmt.Errorf("the option %s is not known; only first_in is", name)
		}
	}
	return value, firstIn, nil
}

func readScalar(raw json.RawMessage) (string, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		return text, nil
	}
	var number json.Number
	if err := json.Unmarshal(raw, &number); err != nil {
		return "", fmt.Errorf("%s is neither a text nor a number", raw)
	}
	return number.String(), nil
}

func readPeriod(raw json.RawMessage) (time.Duration, error) {
	text, err := readScalar(raw)
	if err != nil {
		return 0, err
	}
	return cron.ParsePeriod(text)
}

// readFirstIn reads 0 as one millisecond: it means "at once", which a FirstIn of zero does not.
func readFirstIn(raw json.RawMessage) (time.Duration, error) {
	if null(raw) {
		return 0, nil
	}
	text, err := readScalar(raw)
	if err != nil {
		return 0, err
	}
	d, err := cron.ParseDelay(text)
	return max(d, time.Millisecond), err
}

func readArgs(raw json.RawMessage) ([]any, error) {
	if null(raw) || string(raw) == "false" {
		return nil, nil
	}
	list := []json.RawMessage{raw}
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
	}
	args := make([]any, len(list))
	for i, arg := range list {
		args[i] = arg
	}
	return args, nil
}

// readEnvironments reads a list, or one text with commas or blanks. The result is not nil: a
// schedule with an empty list counts in no environment.
func readEnvironments(raw json.RawMessage) ([]string, error) {
	var list []string
	if err := json.Unmarshal(raw, &list); err == nil {
		return list, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, fmt.Errorf("%s names no environments; write them as in \"staging, production\"", raw)
	}
	list = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
	return append([]string{}, list...), nil
}
