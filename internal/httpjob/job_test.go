package httpjob_test

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
)

func TestJob(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		of   httpjob.Job
		want string
	}{
		{"nothing", httpjob.Job{}, `{"class":"HTTPJob","args":[]}`},
		{"one try", httpjob.Job{Class: "Mail", Args: []byte(`["ada"]`), Tries: 1, ID: "x"}, `{"class":"Mail","args":["ada"],"id":"x"}`},
		{"all", httpjob.Job{
			Args: []byte(`["the body"]`), Meta: map[string]string{"k": "v", "a": "<\"é>"}, Tries: 3, Expires: 1795405611754, ID: "01M80NTA9RZYBB7STPTR000000",
			Priority: 5, Fields: []payload.Field{payload.TextField("unique", "h:1")},
		}, `{"priority":5,"class":"HTTPJob","args":["the body"],"meta":{"a":"<\"é>","k":"v"},"unique":"h:1","tries":3,"attempt":1,"expires_at":1795405611754,"id":"01M80NTA9RZYBB7STPTR000000"}`},
	} {
		if got := tt.of.Append(nil); string(got) != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// What is written is what is read: by a worker, by position, and after a retry has changed the payload.
func TestJobThereAndBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		j := httpjob.Job{
			Class: rapid.StringN(1, 5, -1).Draw(rt, "class"),
			Args:  httpjob.AppendBytes([]byte{'['}, rapid.SliceOf(rapid.Byte()).Draw(rt, "body")),
			Meta:  rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(rt, "meta"),
			Tries: rapid.IntRange(0, 5).Draw(rt, "tries"), Priority: rapid.IntRange(0, 9).Draw(rt, "priority"),
			Expires: rapid.SampledFrom([]int64{0, 1_000_000_000_000, 9_999_999_999_999}).Draw(rt, "expires"),
			ID:      rapid.SampledFrom([]string{"", "x", `01M80NTA9RZYBB7STPTR000000`}).Draw(rt, "id"),
		}
		j.Args = append(j.Args, ']')
		raw := j.Append(nil)
		p, err := payload.Parse(raw)
		tries, attempt := httpjob.Tries(&p)
		if err != nil || p.Class != j.Class || p.ID != j.ID || p.ExpiresAt != j.Expires || tries != max(1, j.Tries) || attempt != 1 ||
			!maps.Equal(httpjob.Meta(&p), j.Meta) || string(httpjob.List(p.Args)) != string(j.Args) {
			rt.Fatalf("%s: %+v, %v", raw, p, err)
		}
		again, err := payload.SetFields(raw, payload.NumberField("attempt", 2), payload.TextField("unique", "y"))
		if err != nil {
			rt.Fatal(err)
		}
		for _, raw := range [][]byte{raw, again} {
			id, expires := httpjob.Tail(raw)
			if id != j.ID || id != "" && expires != j.Expires {
				rt.Fatalf("the end of %s says %q, %d", raw, id, expires)
			}
		}
	})
}

func TestTail(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		id      string
		expires int64
	}{
		`{"class":"A","args":[],"expires_at":1795405611754,"id":"x"}`: {"x", 1795405611754},
		`{"class":"A","args":[],"expires_at":795405611754,"id":"x"}`:  {"x", 0},
		`{"class":"A","args":[],"id":"x"}`:                            {"x", 0},
		`{"class":"A","args":[],"id":"x","expires_at":1795405611754}`: {},
		`{"class":"A","args":[],"id":"x","retried":true}`:             {},
		`{"class":"A","args":[],"id": "x"}`:                           {},
		`{"class":"A","args":[],"id":"x" }`:                           {},
		`{"class":"A","args":[],"id":"a\"b"}`:                         {},
		`{"class":"A","args":[],"id":7}`:                              {},
		`{"class":"A","args":[{"n":1,"id":"x"}]}`:                     {},
		`{"id":"x","class":"A"}`:                                      {},
		`{"class":"A","args":[],"id":""}`:                             {},
		`{"class":"A","args":["\",\"id\":\"x\"}"],"id":"y"}`:          {"y", 0},
		`,"id":"x"}`: {"x", 0},
		`"}`:         {},
		``:           {},
	} {
		if id, expires := httpjob.Tail([]byte(raw)); id != want.id || expires != want.expires {
			t.Errorf("the end of %s says %q, %d; want %q, %d", raw, id, expires, want.id, want.expires)
		}
	}
}

// What stands at the end of a job is what a parser finds in it.
func FuzzTail(f *testing.F) {
	for _, seed := range []string{
		`{"class":"A","args":[],"expires_at":1795405611754,"id":"x"}`, `{"class":"A","args":["\",\"id\":\"x\"}"]}`, `{"class":"A","id":"a","id":"x"}`,
		`{"class":"A","args":[{"a":1,"id":"x"}` + `]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := payload.Parse(raw)
		if err != nil || p.Text != nil {
			return
		}
		id, expires := httpjob.Tail(raw)
		if id != "" && id != p.ID || expires != 0 && expires != p.ExpiresAt {
			t.Fatalf("the end of %s says %q, %d, and a parser reads %q, %d", raw, id, expires, p.ID, p.ExpiresAt)
		}
	})
}

func TestMetaOfOtherPrograms(t *testing.T) {
	t.Parallel()
	p, err := payload.Parse([]byte(`{"class":"A","meta":{"a":1,"b":"x","\u0063":null,"d":"\n"},"tries":"many","attempt":7}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := httpjob.Meta(&p), (map[string]string{"b": "x", "d": "\n"}); !maps.Equal(got, want) {
		t.Errorf("metadata %v, want %v", got, want)
	}
	if tries, attempt := httpjob.Tries(&p); tries != 1 || attempt != 7 {
		t.Errorf("attempt %d of %d", attempt, tries)
	}
}
