package resque

import (
	"testing"

	"github.com/goworker/goworker/internal/payload"
)

// TestResultOf reads the field that gives a job a document.
func TestResultOf(t *testing.T) {
	t.Parallel()
	placed := PlacedResult("4:mail01M8", 60000)
	for _, tt := range []struct {
		payload string
		name    string
		ms      int64
	}{
		{`{"class":"C","args":[],"result":60000,"id":"j"}`, "j", 60000},
		{`{"class":"C","args":[],"result":` + string(placed.Value) + `,"id":"01M8"}`, "4:mail01M8", 60000},
		{`{"class":"C","args":[],"result":"60000 a b\"c","id":"j"}`, `a b"c`, 60000},
		{`{"class":"C","args":[],"result":60000}`, "", 0},
		{`{"class":"C","args":[],"result":"60000","id":"j"}`, "", 0},
		{`{"class":"C","args":[],"result":"60000 ","id":"j"}`, "", 0},
		{`{"class":"C","args":[],"result":"x y","id":"j"}`, "", 0},
		{`{"class":"C","args":[],"result":{"ttl":1},"id":"j"}`, "", 0},
		{`{"class":"C","args":[],"result":-1,"id":"j"}`, "", 0},
		{`{"class":"C","args":[],"id":"j"}`, "", 0},
	} {
		p, err := payload.Parse([]byte(tt.payload))
		if err != nil {
			t.Fatal(err)
		}
		name, ms, ok := ResultOf(&p)
		if !ok {
			name, ms = "", 0
		}
		if name != tt.name || ms != tt.ms || ok != (tt.ms > 0) {
			t.Errorf("%s: %q, %d, %v", tt.payload, name, ms, ok)
		}
		if d, has := DocumentChangeOf([]byte(tt.payload)); has != ok || has && d.Name != tt.name {
			t.Errorf("%s: the change is of %q, %v", tt.payload, d.Name, has)
		}
	}
}
