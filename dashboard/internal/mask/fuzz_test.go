package mask

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/payload"
)

// No masked value is in any output, and what is not masked keeps its bytes.
func FuzzMask(f *testing.F) {
	f.Add("hunter2", "name", `{"a":[1,null]}`)
	f.Add(`"\`+"\n", "token=", `[{"password":"x","b":"\u00e9"}]`)
	f.Add("• &<>'", "4111 1111 1111 1111", `{"class":"A","args":[{"card":[{"x":1}]}, 9007199254740993 ],"meta":{"session":"y"}}`)
	f.Add("\xff", "-----BEGIN ", "\xfe{\"token\":\"")
	f.Fuzz(func(t *testing.T, secret, beside, text string) {
		secret = "zQ" + strings.ToValidUTF8(secret, "?") + "Qz"
		if strings.Contains(beside, "zQ") || strings.Contains(beside, "Qz") {
			return
		}
		for _, m := range []*Masker{New(Rules{}), New(Rules{Level: Hide}), New(Rules{Args: map[string][]string{"A": {"0.b", "3.*"}}})} {
			noSecret(t, m, secret, beside)
			anything(t, m, []byte(text))
		}
	})
}

// noSecret masks a job that holds a secret under a secret key, and repeats it beside.
func noSecret(t *testing.T, m *Masker, secret, beside string) {
	t.Helper()
	args := []any{map[string]any{"password": []any{secret}, "n": beside}, beside + secret + beside, secret}
	job, err := json.Marshal(map[string]any{"class": "A", "args": args, "id": "x", "meta": map[string]string{"k": secret}, "note": beside + secret})
	if err != nil {
		t.Fatal(err)
	}
	known := m.With(job)
	long := beside + secret + beside
	f := payload.Failure{Payload: job, Exception: "Oops", Error: long, Backtrace: []string{long, "b"}, Queue: "q"}
	raw := f.Encode()
	masked := m.Payload(job)
	p, err := payload.Parse(masked)
	if err != nil || !json.Valid(masked) {
		t.Fatalf("%s: %v", masked, err)
	}
	for name, out := range map[string]string{
		"Payload": string(masked), "Args": string(joined(m.Args("A", list(t, string(joined(p.Args)))))), "Text": known.Text(long), "JSON": string(known.JSON(list(t, quote(t, long, secret))[0])),
		"Brief": m.Brief(job, 60) + m.Brief(job, 61+len(beside)) + m.Brief(job, len(job)), "Record": string(m.Record(raw)),
	} {
		if strings.Contains(out, secret) || strings.Contains(plainly(out), secret) {
			t.Fatalf("%s shows %q: %q", name, secret, out)
		}
	}
	// A search compares these texts.
	if p, err := payload.Parse(m.Payload(job)); err != nil || strings.Contains(plainly(string(joined(p.Args))), secret) {
		t.Fatalf("%v", err)
	}
}

func quote(t *testing.T, values ...string) string {
	t.Helper()
	text, err := json.Marshal([]any{values})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// plainly is a text with all escapes of JSON taken off.
func plainly(text string) string {
	var b strings.Builder
	d := json.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			return b.String()
		}
		if text, ok := token.(string); ok {
			b.WriteString(text + "\n")
		}
	}
}

// anything masks bytes of any kind.
func anything(t *testing.T, m *Masker, raw []byte) {
	t.Helper()
	before := bytes.Clone(raw)
	masked := m.Payload(raw)
	whole := strings.ToValidUTF8(string(masked), "?")
	if text, cut := strings.CutSuffix(m.Brief(raw, 20), "…"); cut && !strings.HasPrefix(whole, strings.TrimRight(text, "?")) || !utf8.ValidString(text) {
		t.Fatalf("brief %q of %q", text, whole)
	}
	_, _, _ = m.Record(raw), m.JSON(raw), m.With(raw).Text(string(raw))
	if !bytes.Equal(before, raw) {
		t.Fatal("the bytes of the job were changed")
	}
	if !payload.WellFormed(raw, payload.MaxDepth) {
		return
	}
	sameBut(t, bytes.TrimSpace(raw), bytes.TrimSpace(masked))
	old := payload.Elements(bytes.TrimSpace(raw))
	shown := m.Args("A", old)
	back, err := m.Restore("A", old, shown)
	if err != nil || !bytes.Equal(joined(back), joined(old)) {
		t.Fatalf("restored %s of %s, shown as %s: %v", back, old, shown, err)
	}
}

// sameBut compares JSON with its masked form.
func sameBut(t *testing.T, raw, masked []byte) {
	t.Helper()
	switch {
	case bytes.Equal(raw, masked), masked[0] == '"' && marked(masked):
	case raw[0] == '[' && masked[0] == '[':
		a, b := payload.Elements(raw), payload.Elements(masked)
		if len(a) != len(b) {
			t.Fatalf("%s became %s", raw, masked)
		}
		for n := range a {
			sameBut(t, a[n], b[n])
		}
	case raw[0] == '{' && masked[0] == '{':
		a, b := payload.Members(raw), payload.Members(masked)
		if len(a) != len(b) {
			t.Fatalf("%s became %s", raw, masked)
		}
		for n := range a {
			if !bytes.Equal(a[n].Key, b[n].Key) {
				t.Fatalf("key %s became %s", a[n].Key, b[n].Key)
			}
			sameBut(t, a[n].Value, b[n].Value)
		}
	default:
		t.Fatalf("%s became %s", raw, masked)
	}
}

// jobOf is a job of about so many bytes. One of ten values is secret.
func jobOf(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"class":"Charge","args":[[`)
	for n := 0; b.Len() < size-60; n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"id":9007199254740993,"name":"Ada Lovelace","address":"12 Some Street, London","items":[1,2,3]}`)
		if n%10 == 0 {
			b.WriteString(`,{"account":7,"password":"hunter22","url":"https://example.com/path?page=2"}`)
		}
	}
	b.WriteString(`]],"id":"x","meta":{"tenant":"acme"}}`)
	return b.Bytes()
}

func BenchmarkMask(b *testing.B) {
	m := New(Rules{Args: map[string][]string{"Charge": {"0.*.address"}}})
	plain := New(Rules{})
	for _, size := range []int{1 << 10, 1 << 20} {
		job := jobOf(size)
		name := map[int]string{1 << 10: "1KiB", 1 << 20: "1MiB"}[size]
		run := func(what string, do func()) {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.SetBytes(int64(len(job)))
				b.ReportAllocs()
				for b.Loop() {
					do()
				}
			})
		}
		run("payload", func() { plain.Payload(job) })
		run("paths", func() { m.Payload(job) })
		run("brief", func() { plain.Brief(job, 2048) })
		run("text", func() { plain.Text(string(job)) })
		run("nothing", func() { plain.Payload(bytes.ReplaceAll(job, []byte("password"), []byte("greeting"))) })
	}
}
