package httpapi

import (
	"encoding/json"
	"net/url"
	"testing"

	"pgregory.net/rapid"
)

// A job is written as encoding/json writes it, whatever its texts are.
func TestV1JSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9_.:<>&"\\ -]*`))
		j := v1Job{
			Attributes: rapid.OneOf(rapid.Just(map[string]string(nil)), rapid.MapOf(text, text)).Draw(t, "attributes"),
			Data:       rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOf(rapid.Byte())).Draw(t, "data"),
			ElapsedMS:  rapid.Int64().Draw(t, "elapsed"), ID: text.Draw(t, "id"), Message: text.Draw(t, "message"),
			Namespace: text.Draw(t, "namespace"), Queue: text.Draw(t, "queue"),
			RemainTries: rapid.Int().Draw(t, "tries"), TTL: rapid.Int64().Draw(t, "ttl"),
		}
		want, _ := json.Marshal(j)
		if got := j.append(nil); string(got) != string(want) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

// A parameter is read as url.ParseQuery reads it, whatever the query is.
func TestV1Query(t *testing.T) {
	t.Parallel()
	query := rapid.StringMatching(`([a-c%;+= ]|%61|&)*`)
	rapid.Check(t, func(t *rapid.T) {
		raw := query.Draw(t, "query")
		all, _ := url.ParseQuery(raw)
		for _, name := range []string{"a", "b", "", "a b"} {
			want, there := all[name]
			got, ok := queryValue(raw, name)
			if ok != there || ok && got != want[0] {
				t.Fatalf("%q: %s is %q, %v; want %q", raw, name, got, ok, want)
			}
		}
	})
}
