package goworker

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/args"
)

// railsPayload is what Rails enqueues for a job with these arguments.
func railsPayload(arguments string) string {
	return `{"class":"` + args.ActiveJobWrapper + `","args":[{"job_class":"ReportJob","job_id":"b1946ac9-2492-4cd5-a3ee-bd6f1a1f0c1e",` +
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

func TestActiveJobIntoParameters(t *testing.T) {
	t.Parallel()
	type options struct {
		Since time.Time
		Pages struct {
			Begin, End int
			Exclude    bool `json:"exclude_end"`
		}
	}
	r := newRegistry()
	var got []any
	r.register("ReportJob", func(_ context.Context, u GlobalID, s string, d time.Time, wait float64, o options) error {
		got = []any{u, s, d.Format(time.DateOnly), wait, o.Since.Format(time.RFC3339Nano), o.Pages.Begin, o.Pages.End, o.Pages.Exclude}
		return nil
	}, nil)
	d, err := prepared(t, r, strings.Replace(railsPayload(`[`+user1+`,`+symbolAB+`,`+dayOne+`,`+serialized("DurationSerializer", `"value":1.5,"parts":[]`)+
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
	wrap := func(list string) string { return `{"class":"` + args.ActiveJobWrapper + `","args":` + list + `}` }
	tests := []struct {
		name, payload, want string
	}{
		{"no arguments", wrap(`[]`), "wrong number of arguments for " + args.ActiveJobWrapper + " (given 0, expected 1)"},
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
			r := newRegistry()
			r.register("ReportJob", func(...any) {}, nil)
			d, err := prepared(t, r, tt.payload)
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
	_, err := prepared(t, newRegistry(), railsPayload(`[]`))
	var unknown *UnknownClassError
	if !errors.As(err, &unknown) || unknown.Class != "ReportJob" {
		t.Errorf("the unknown class is the inner one: %v", err)
	}

	r := newRegistry()
	r.register(args.ActiveJobWrapper, func(map[string]any) {}, nil)
	d, err := prepared(t, r, railsPayload(`[]`))
	if err != nil || d.Class != args.ActiveJobWrapper || len(d.Args) != 1 {
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
