package payload

import "testing"

// shortPayload has the size of the jobs that bench/ measures with.
const shortPayload = `{"class":"Hello","args":["world",12,true]}  `

func someFailure() Failure {
	return Failure{
		FailedAt: "2026/11/21 12:00:00 UTC", Payload: []byte(shortPayload),
		Exception: "mypkg.NotFound", Error: "no customer 12 in the table of customers",
		Backtrace: []string{"mail.go:12 mail.(*Sender).Send", "main.go:34 main.sendEmail"},
		Worker:    "worker-host.go:4711-3:high,default,low", Queue: "default",
	}
}

// TestAllocations holds how often the hot path allocates. One allocation more
// is let pass, which the race detector makes; a count that rose further costs every job.
func TestAllocations(t *testing.T) {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	parse := func(raw string) func() {
		return func() {
			_, err := Parse([]byte(raw))
			must(err)
		}
	}
	encode := func(args ...any) func() {
		return func() {
			_, err := Encode("Hello", args, Plain)
			must(err)
		}
	}
	failure := someFailure()
	for _, tt := range []struct {
		name string
		want float64
		f    func()
	}{
		{"parse", 3, parse(shortPayload)},
		{"parse without arguments", 2, parse(`{"class":"Hello","args":[]}`)},
		{"encode", 1, encode("world", 12, true)},
		{"encode a map", 1, encode(map[string]any{"id": 12, "of": []any{1.5, int64(7), false, nil}})},
		{"failure record", 1, func() { failure.Encode() }},
	} {
		if got := testing.AllocsPerRun(100, tt.f); got > tt.want+1 {
			t.Errorf("%s: %v allocations, and it took %v", tt.name, got, tt.want)
		}
	}
}

func BenchmarkEncodeFailure(b *testing.B) {
	f := someFailure()
	b.ReportAllocs()
	for b.Loop() {
		f.Encode()
	}
}
