package payload

import (
	"strings"
	"testing"
)

// Items of any program: the queue each one names, and the payload that goes there.
func TestReadItem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ item, queue, payload, err string }{
		{`{"class":"J","args":[1,"x"],"queue":"q"}`, "q", `{"class":"J","args":[1,"x"]}`, ""},
		{`{"class":"J","queue":"q","args":[1]}`, "q", `{"class":"J","args":[1]}`, ""}, // node-resque
		{`{"args":[1],"class":"J","queue":"q"}`, "q", `{"class":"J","args":[1]}`, ""},
		{` { "class" : "J" , "args" : [ 1.50 ] , "queue" : "q" } `, "q", `{"class":"J","args":[ 1.50 ]}`, ""},
		{`{"class":"J","args":[1e2,"\u003c"],"queue":"q","id":7,"trace":{"a":[]}}`, "q", `{"class":"J","args":[1e2,"\u003c"],"id":7,"trace":{"a":[]}}`, ""},
		{`{"custom_job_class":"X","class":"J","queue":"q"}`, "q", `{"class":"J","args":[],"custom_job_class":"X"}`, ""},
		{`{"class":"J","args":{"a":1},"queue":"q"}`, "q", `{"class":"J","args":[{"a":1}]}`, ""},
		{`{"class":"J","args":3,"queue":"q"}`, "q", `{"class":"J","args":[3]}`, ""},
		{`{"class":"J","args":null,"queue":"q"}`, "q", `{"class":"J","args":[]}`, ""},
		{`{"class":"J","args":[],"queue":"a","queue":"b"}`, "b", `{"class":"J","args":[]}`, ""},
		{`{"class":"J","args":[],"queue":"\u0071"}`, "q", `{"class":"J","args":[]}`, ""},
		{`{"class":"J","args":[]}`, "", "", "no queue"},
		{`{"class":"J","args":[],"queue":""}`, "", "", "no queue"},
		{`{"class":"J","args":[],"queue":7}`, "", "", "no queue"},
		{`{"args":[],"queue":"q"}`, "q", "", "no class"},
		{`{"class":null,"queue":"q"}`, "q", "", "no class"},
		{`{"class":"","queue":"q"}`, "q", "", "no class"},
		{`{}`, "", "", "no class"},
		{`[]`, "", "", "not an object"},
		{``, "", "", "empty"},
		{`{"class":"J"`, "", "", "not JSON"},
		{`{"class":"J","queue":"q"} x`, "", "", "not JSON"},
		{"{\"class\":\"\xff\",\"queue\":\"q\"}", "", "", "not UTF-8"},
	} {
		queue, payload, err := ReadItem([]byte(tt.item))
		if queue != tt.queue || string(payload) != tt.payload || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q, %s, %v", tt.item, queue, payload, err)
		}
	}
}
