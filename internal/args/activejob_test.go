package args

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// railsArgs are the arguments of Rails' wrapper around a job with these arguments.
func railsArgs(arguments string) []json.RawMessage {
	return []json.RawMessage{[]byte(`{"job_class":"ReportJob","job_id":"b1946ac9-2492-4cd5-a3ee-bd6f1a1f0c1e",` +
		`"provider_job_id":null,"queue_name":"mail","priority":null,"arguments":` + arguments + `,"executions":0,` +
		`"exception_executions":{},"locale":"en","timezone":"UTC","enqueued_at":"2026-11-21T02:41:24.123456789Z","scheduled_at":null}`)}
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
			d, misfit := OpenActiveJob(railsArgs(tt.in))
			if misfit != nil {
				t.Fatal(misfit)
			}
			var got []string
			for _, a := range d.Args {
				got = append(got, string(a))
			}
			if strings.Join(got, "|") != tt.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), tt.want)
			}
			if d.Class != "ReportJob" || d.ID != "b1946ac9-2492-4cd5-a3ee-bd6f1a1f0c1e" || d.Executions != 0 {
				t.Errorf("got %+v", d)
			}
		})
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
	f.Fuzz(func(t *testing.T, arguments string) {
		_, _ = plainArgument([]byte(arguments)) // must end, valid or not

		wrapper := railsArgs(arguments)
		if !json.Valid(wrapper[0]) {
			return
		}
		d, misfit := OpenActiveJob(wrapper)
		if misfit != nil {
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
