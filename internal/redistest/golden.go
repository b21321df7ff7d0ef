package redistest

import (
	"embed"
	"encoding/json"
	"fmt"
	"sort"
	"testing"
)

// The recordings are embedded, so that a test of any package can read them.
//
//go:embed testdata/golden/*.json
var golden embed.FS

// Recording is one situation as Ruby Resque handled it.
type Recording struct {
	Scenario  string           `json:"scenario"`
	About     string           `json:"about"`
	Software  string           `json:"software"`
	Commands  [][]string       `json:"commands"`   // what Ruby's processes sent, in order
	Snapshots map[string][]Key `json:"snapshots"`  // keys at named moments
	KeysAfter []Key            `json:"keys_after"` // keys at the end
}

// Key is one Redis key. Value is by type: string: string; list: []string;
// set: sorted []string; hash: map[string]string; zset: map[string]float64.
type Key struct {
	Key   string
	Type  string
	Value any
	TTL   int // seconds, -1 if the key does not expire
}

// UnmarshalJSON reads the recorded form, which has the type beside the value.
func (k *Key) UnmarshalJSON(text []byte) error {
	var raw struct {
		Key   string          `json:"key"`
		Type  string          `json:"type"`
		Value json.RawMessage `json:"value"`
		TTL   int             `json:"ttl"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	k.Key, k.Type, k.TTL = raw.Key, raw.Type, raw.TTL
	var err error
	switch raw.Type {
	case "string":
		k.Value, err = decode[string](raw.Value)
	case "list":
		k.Value, err = decode[[]string](raw.Value)
	case "set":
		var members []string
		members, err = decode[[]string](raw.Value)
		sort.Strings(members)
		k.Value = members
	case "hash":
		k.Value, err = decode[map[string]string](raw.Value)
	case "zset":
		var pairs [][2]any
		pairs, err = decode[[][2]any](raw.Value)
		scores := map[string]float64{}
		for _, p := range pairs {
			member, _ := p[0].(string)
			scores[member], _ = p[1].(float64)
		}
		k.Value = scores
	default:
		err = fmt.Errorf("key %s has the type %q, which is not known", raw.Key, raw.Type)
	}
	return err
}

func decode[T any](text []byte) (v T, err error) {
	err = json.Unmarshal(text, &v)
	return v, err
}

// Values turns a list of keys into a map from key to value, as Dump returns it.
func Values(keys []Key) map[string]any {
	m := make(map[string]any, len(keys))
	for _, k := range keys {
		m[k.Key] = k.Value
	}
	return m
}

// Golden returns a recording by its scenario's name, for instance "work_failure".
func Golden(t testing.TB, scenario string) Recording {
	t.Helper()
	text, err := golden.ReadFile("testdata/golden/" + scenario + ".json")
	if err != nil {
		t.Fatalf("redistest: no recording %q: %v", scenario, err)
	}
	r, err := decode[Recording](text)
	if err != nil {
		t.Fatalf("redistest: recording %q: %v", scenario, err)
	}
	return r
}
