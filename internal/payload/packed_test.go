package payload_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/payload"
)

// An item is the job that its JSON is, for every function that takes a payload.
func TestItems(t *testing.T) {
	t.Parallel()
	text := []byte(`{"class":"Sum","args":[1,{"a":[true]}],"attempt":2,"id":"x"}`)
	item, ok := payload.Pack([]byte("before"), text)
	if !ok || !bytes.HasPrefix(item, []byte("before")) {
		t.Fatalf("packed %q, %v", item, ok)
	}
	item = item[len("before"):]
	p, err := payload.Parse(item)
	if err != nil || p.Class != "Sum" || len(p.Args) != 2 || string(p.Args[1]) != `{"a":[true]}` || p.ID != "x" || p.Attempt != 2 || !bytes.Equal(p.Text, text) {
		t.Errorf("parsed %+v, %v", p, err)
	}
	if p, _ := payload.Parse(text); p.Text != nil {
		t.Error("a job in JSON has a Text")
	}
	if got := payload.JSON(item); !bytes.Equal(got, text) {
		t.Errorf("JSON: %s", got)
	}
	if got := payload.Safe(item); !bytes.Equal(got, text) {
		t.Errorf("Safe: %s", got)
	}
	if got, err := payload.SetFields(item, payload.NumberField("attempt", 3)); err != nil || string(got) != strings.Replace(string(text), ":2", ":3", 1) {
		t.Errorf("SetFields: %s, %v", got, err)
	}
	if got, err := payload.ForRetry(item, false); err != nil || string(got) != `{"class":"Sum","args":[1,{"a":[true]}]}` {
		t.Errorf("ForRetry: %s, %v", got, err)
	}
	if got, err := payload.Without(item, "attempt"); err != nil || string(got) != `{"class":"Sum","args":[1,{"a":[true]}],"id":"x"}` {
		t.Errorf("Without: %s, %v", got, err)
	}
	if p := payload.Tail(item); p.ID != "x" {
		t.Errorf("Tail: %+v", p)
	}
	if f, err := payload.ParseFailure(payload.Failure{Payload: item}.Encode()); err != nil || !bytes.Equal(f.Payload, text) {
		t.Errorf("the record has %s, %v", f.Payload, err)
	}
}

// A broken item is an error with MessagePack's form, and in a record it is wrapped as any text that is no job.
func TestBrokenItems(t *testing.T) {
	t.Parallel()
	broken := []byte("\x92\xa3Sum\x92\x01")
	_, err := payload.Parse(broken)
	if wrong := new(payload.Error); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "the item ends in the middle of a value; a job in MessagePack is [class, [args…]]") {
		t.Errorf("error %v", err)
	}
	if got := payload.JSON(broken); !bytes.Equal(got, broken) {
		t.Errorf("JSON: %q", got)
	}
	if f, err := payload.ParseFailure(payload.Failure{Payload: broken}.Encode()); err != nil || string(f.Payload) != `{"class":"InvalidPayload","args":["base64:kqNTdW2SAQ=="]}` {
		t.Errorf("the record has %s, %v", f.Payload, err)
	}
	if item, ok := payload.Pack(nil, []byte(`{"priority":1,"class":"A","args":[]}`)); ok || item != nil {
		t.Errorf("a job with a priority became %q", item)
	}
	err = &payload.PackedError{Queue: "mail"}
	if !strings.Contains(err.Error(), "msgpack:mail") {
		t.Errorf("error %v", err)
	}
}

func BenchmarkParseItem(b *testing.B) {
	text, err := payload.Encode("MyClass", []any{1, "hi"}, payload.Plain)
	if err != nil {
		b.Fatal(err)
	}
	item, _ := payload.Pack(nil, text)
	for name, raw := range map[string][]byte{"json": text, "msgpack": item} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := payload.Parse(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
