package goworker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/payload"
)

// railsPayload is what Rails enqueues for a job with these arguments.
func railsPayload(arguments string) string {
	return `{"class":"` + activeJobWrapper + `","args":[{"job_class":"ReportJob","job_id":"b1946ac9-2492-4cd5-a3ee-bd6f1a1f0c1e",` +
		`"provider_job_id":null,"queue_name":"mail","priority":null,"arguments":` + arguments + `,"executions":0,` +
		`"exception_executions":{},"locale":"en","timezone":"UTC","enqueued_at":"2026-11-21T02:41:24.123456789Z","scheduled_at":null}]}`
}

const (
	symbolAB = `{"_aj_serialized":"ActiveJob::Serializers::SymbolSerializer","value":"ab"}`
	user1    = `{"_aj_globalid":"gid://shop/User/1"}`
	dayOne   = `{"_aj_serialized":"ActiveJob::Serializers::DateSerializer","value":"2026-11-21"}`
)

func serialized(name, rest string) string {
	return `{"_aj_serialized":"ActiveJob::Serializers::` + name + `",` + rest + `}`
}

func TestActiveJobArguments(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in, want string
	}{
		{"none", `[]`, ``},
		{"null", `null`, ``},
		{"plain keep their bytes", `[ 12345678901234567890, 1.0,{"b": 1,"a":"<"} ]`, `12345678901234567890|1.0|{"b": 1,"a":"<"}`},
		{"GlobalID", `[` + user1 + `]`, `"gid://shop/User/1"`},
		{"symbol keys", `[{"b":1,"a":12345678901234567890,"_aj_symbol_keys":["b","a"]}]`, `{"b":1,"a":12345678901234567890}`},
		{"keyword arguments", `[{"user":` + user1 + `,"_aj_ruby2_keywords":["user"]}]`, `{"user":"gid://shop/User/1"}`},
		{"indifferent", `[{"_aj_hash_with_indifferent_access":true,"a":{"b":[` + symbolAB + `],"_aj_symbol_keys":[]}}]`, `{"a":{"b":["ab"]}}`},
		{"symbol", `[` + symbolAB + `]`, `"ab"`},
		{"time", `[` + serialized("TimeSerializer", `"value":"2026-11-21T02:41:24.123456789Z"`) + `]`, `"2026-11-21T02:41:24.123456789Z"`},
		{"time with zone", `[` + serialized("TimeWithZoneSerializer", `"value":"2026-11-21T02:41:24.1Z","time_zone":"Asia/Tokyo"`) + `]`, `"2026-11-21T02:41:24.1Z"`},
		{"date time", `[` + serialized("DateTimeSerializer", `"value":"2026-11-21T02:41:24+09:00"`) + `]`, `"2026-11-21T02:41:24+09:00"`},
		{"date", `[` + dayOne + `]`, `"2026-11-21"`},
		{"duration", `[` + serialized("DurationSerializer", `"value":86400,"parts":[[`+symbolAB+`,1]]`) + `]`, `86400`},
		{"BigDecimal", `[` + serialized("BigDecimalSerializer", `"value":"0.1e-1"`) + `]`, `"0.1e-1"`},
		{"module", `[` + serialized("ModuleSerializer", `"value":"Admin::User"`) + `]`, `"Admin::User"`},
		{"range", `[` + serialized("RangeSerializer", `"begin":`+dayOne+`,"end":null,"exclude_end":true`) + `]`, `{"begin":"2026-11-21","end":null,"exclude_end":true}`},
		{"range of an older Rails", `[` + serialized("RangeSerializer", `"begin":1`) + `]`, `{"begin":1,"end":null,"exclude_end":false}`},
		{"serializer of a later Rails", `[` + serialized("SetSerializer", `"value":[`+symbolAB+`]`) + `]`, `["ab"]`},
		{"later, without value", `[` + serialized("PairSerializer", `"left":`+symbolAB) + `]`, `{"left":"ab"}`},
		{"own serializer", `[{"_aj_serialized":"MoneySerializer","amount":` + symbolAB + `,"value":2}]`, `{"amount":"ab","value":2}`},
		{"nested", `[[[{"x":[` + user1 + `,{"y":` + symbolAB + `}]}],"_aj_globalid"]]`, `[[{"x":["gid://shop/User/1",{"y":"ab"}]}],"_aj_globalid"]`},
		{"marks inside texts", `["\"_aj_x",["\"_aj_globalid\":1"]]`, `"\"_aj_x"|["\"_aj_globalid\":1"]`},
		{"blanks", "[ { \"_aj_globalid\" :\n\t" + `"gid://a/B/1"` + " } , { \"a\" : 1 , \"_aj_symbol_keys\" : [ ] } ]", `"gid://a/B/1"|{"a":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r registry
			r.register("ReportJob", func(...json.RawMessage) {}, nil)
			d, err := prepared(t, &r, railsPayload(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range d.Args {
				got = append(got, string(a))
			}
			if strings.Join(got, "|") != tt.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), tt.want)
			}
			if d.Class != "ReportJob" || d.ID != "b1946ac9-2492-4cd5-a3ee-bd6f1a1f0c1e" || d.Attempt != 1 {
				t.Errorf("got %+v", d)
			}
		})
	}
}

func TestActiveJobIntoParameters(t *testing.T) {
	t.Parallel()
	type options struct {
		Since time.Time
		Pages struct {
			Begin, End int
			Exclude    bool `json:"exclude_end"`
		}
	}
	var r registry
	var got []any
	r.register("ReportJob", func(_ context.Context, u GlobalID, s string, d time.Time, wait float64, o options) error {
		got = []any{u, s, d.Format(time.DateOnly), wait, o.Since.Format(time.RFC3339Nano), o.Pages.Begin, o.Pages.End, o.Pages.Exclude}
		return nil
	}, nil)
	d, err := prepared(t, &r, strings.Replace(railsPayload(`[`+user1+`,`+symbolAB+`,`+dayOne+`,`+serialized("DurationSerializer", `"value":1.5,"parts":[]`)+
		`,{"since":`+serialized("TimeWithZoneSerializer", `"value":"2026-11-21T02:41:24.5Z","time_zone":"UTC"`)+
		`,"pages":`+serialized("RangeSerializer", `"begin":1,"end":9,"exclude_end":true`)+`,"_aj_ruby2_keywords":["since","pages"]}]`), `"executions":0`, `"executions":2`, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.perform(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := []any{GlobalID{"shop", "User", "1"}, "ab", "2026-11-21", 1.5, "2026-11-21T02:41:24.5Z", 1, 9, true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if d.Attempt != 3 {
		t.Errorf("attempt %d, want 3", d.Attempt)
	}
}

func TestActiveJobMalformed(t *testing.T) {
	t.Parallel()
	wrap := func(args string) string { return `{"class":"` + activeJobWrapper + `","args":` + args + `}` }
	tests := []struct {
		name, payload, want string
	}{
		{"no arguments", wrap(`[]`), "wrong number of arguments for " + activeJobWrapper + " (given 0, expected 1)"},
		{"two", wrap(`[{},{}]`), "wrong number of arguments"},
		{"not an object", wrap(`["secret"]`), "is a string where an ActiveJob object is expected"},
		{"no class", wrap(`[{"job_id":"secret"}]`), "an ActiveJob object with a job_class"},
		{"class of another type", wrap(`[{"job_class":5}]`), "an ActiveJob object with a job_class"},
		{"arguments of another type", railsPayload(`{"secret":1}`), "argument 1 of ReportJob is an object with an object where an ActiveJob object with an array of arguments"},
		{"GlobalID number", railsPayload(`[1,{"_aj_globalid":4711}]`), "argument 2 of ReportJob is an object with something else where a GlobalID"},
		{"GlobalID and more", railsPayload(`[{"_aj_globalid":"secret","a":1}]`), "where a GlobalID"},
		{"serializer number", railsPayload(`[[{"_aj_serialized":4711}]]`), "is an object with a number where the name of a serializer"},
		{"symbol without value", railsPayload(`[` + serialized("SymbolSerializer", `"x":1`) + `]`), "is an object with nothing where a string as value of a SymbolSerializer is expected"},
		{"time number", railsPayload(`[` + serialized("TimeSerializer", `"value":4711`) + `]`), "a string as value of a TimeSerializer"},
		{"duration string", railsPayload(`[` + serialized("DurationSerializer", `"value":"secret"`) + `]`), "a number as value of a DurationSerializer"},
		{"range", railsPayload(`[` + serialized("RangeSerializer", `"exclude_end":4711`) + `]`), "a bool as exclude_end of a RangeSerializer"},
		{"inside a range", railsPayload(`[` + serialized("RangeSerializer", `"begin":{"_aj_globalid":1}`) + `]`), "where a GlobalID"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r registry
			r.register("ReportJob", func(...any) {}, nil)
			d, err := prepared(t, &r, tt.payload)
			var ae *ArgumentError
			if d == nil || !errors.As(err, &ae) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v\nwant %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "4711") {
				t.Errorf("the text holds a value: %v", err)
			}
		})
	}
}

func TestActiveJobClasses(t *testing.T) {
	t.Parallel()
	_, err := prepared(t, new(registry), railsPayload(`[]`))
	var unknown *UnknownClassError
	if !errors.As(err, &unknown) || unknown.Class != "ReportJob" {
		t.Errorf("the unknown class is the inner one: %v", err)
	}

	var r registry
	r.register(activeJobWrapper, func(map[string]any) {}, nil)
	d, err := prepared(t, &r, railsPayload(`[]`))
	if err != nil || d.Class != activeJobWrapper || len(d.Args) != 1 {
		t.Errorf("a handler of the wrapper gets the wrapper: %+v, %v", d, err)
	}
}

func TestGlobalID(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want GlobalID // zero: refused
	}{
		{"gid://shop/User/1", GlobalID{"shop", "User", "1"}},
		{"gid://shop-app/Admin::User/a+b%2Fc", GlobalID{"shop-app", "Admin::User", "a b/c"}},
		{"gid://shop/Order/7/8", GlobalID{"shop", "Order", "7/8"}},
		{"gid://shop/User/1?tenant=5", GlobalID{"shop", "User", "1"}},
		{"gid://shop/User", GlobalID{}},
		{"gid://shop/User/", GlobalID{}},
		{"gid:///User/1", GlobalID{}},
		{"gid://shop/User/%zz", GlobalID{}},
		{"http://shop/User/1", GlobalID{}},
		{"", GlobalID{}},
	}
	for _, tt := range tests {
		var got GlobalID
		text, _ := json.Marshal(tt.text)
		err := json.Unmarshal(text, &got)
		if got != tt.want || (err == nil) != (tt.want != GlobalID{}) {
			t.Errorf("%s: got %+v, %v", tt.text, got, err)
		}
	}
	if b, err := json.Marshal(GlobalID{"shop", "Admin::User", "a b"}); err != nil || string(b) != `"gid://shop/Admin::User/a+b"` {
		t.Errorf("got %s, %v", b, err)
	}
}

// Whatever is in a payload, opening it ends without a panic; what comes out is
// valid JSON without ActiveJob's marks; a plain job's arguments are not touched.
func FuzzActiveJob(f *testing.F) {
	for _, s := range []string{
		`[]`, `[1,{"a":[true,null]}]`, `[` + user1 + `,` + symbolAB + `]`, `[{"a":` + dayOne + `,"_aj_symbol_keys":["a"]}]`,
		`[` + serialized("RangeSerializer", `"begin":1,"end":2,"exclude_end":true`) + `]`, `[{"_aj_globalid":1}]`, `[{"_aj_serialized":`, `[1}{,:"_aj_]`,
	} {
		f.Add(s)
	}
	var r registry
	r.register("ReportJob", func(...any) {}, nil)
	f.Fuzz(func(t *testing.T, arguments string) {
		_, _ = plainArgument([]byte(arguments)) // must end, valid or not

		raw := []byte(railsPayload(arguments))
		p, err := payload.Parse(raw)
		if err != nil {
			return
		}
		d, err := r.prepare("q", raw, p)
		if err != nil {
			return
		}
		var decoded any
		for _, a := range d.Args {
			if err := json.Unmarshal(a, &decoded); err != nil && !strings.Contains(err.Error(), "number") {
				t.Fatalf("%s became %s: %v", arguments, a, err)
			}
			if bytes.HasPrefix(a, []byte(`{"_aj_globalid"`)) {
				t.Fatalf("%s kept its mark: %s", arguments, a)
			}
		}
		if !strings.Contains(arguments, `"_aj_`) && d.Class == "ReportJob" && strings.Count(arguments, "arguments") == 0 {
			var want []json.RawMessage
			if json.Unmarshal([]byte(arguments), &want) == nil && len(want) != len(d.Args) {
				t.Fatalf("%s: %d arguments became %d", arguments, len(want), len(d.Args))
			}
		}
	})
}

// Any arguments against any of these handlers: a run ends with nil or an
// *ArgumentError, never with a panic.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`[]`, `[1]`, `["a",1]`, `[{"name":"x"}]`, `[[1,2],null]`, `[1.5e3,true]`, `[null]`, `["2026-11-21"]`, `{"a":1}`} {
		f.Add(s)
	}
	var r registry
	classes := map[string]any{
		"A": func(string, ...interface{}) error { return nil },
		"B": func(context.Context, string, int) error { return nil },
		"C": func(customer) {},
		"D": func(...time.Time) {},
		"E": func(any, *float32, map[string]uint8) {},
		"F": func(context.Context, *Job) error { return nil },
		"G": func([]GlobalID) {},
	}
	for class, fn := range classes {
		r.register(class, fn, nil)
	}
	f.Fuzz(func(t *testing.T, args string) {
		for class := range classes {
			raw := []byte(`{"class":"` + class + `","args":` + args + `}`)
			p, err := payload.Parse(raw)
			if err != nil {
				return
			}
			d, err := r.prepare("q", raw, p)
			if err != nil {
				continue
			}
			var ae *ArgumentError
			if err := d.perform(context.Background()); err != nil && !errors.As(err, &ae) {
				t.Fatalf("%s with %s: %v", class, args, err)
			}
		}
	})
}
