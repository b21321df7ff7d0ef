package store

import (
	"context"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// contentBytes is how much of an element a page shows.
const contentBytes = 2 << 10

// Keys is the page /redis/keys.
type Keys struct {
	Rows    []KeyRow `json:"keys"`
	Match   string   `json:"match,omitempty"`
	Looked  int64    `json:"looked"`         // keys of the database that this page looked at
	Others  int64    `json:"other_programs"` // of these, those outside of the namespace
	Refused []string `json:"refused,omitempty"`
	site.Paged
}

// KeyRow is a key, without what is in it.
type KeyRow struct {
	Name     string    `json:"name"`
	Family   string    `json:"family"`
	Type     string    `json:"type"`
	Elements site.Num  `json:"elements"` // of a string: its bytes
	TTL      site.Span `json:"ttl_ms"`   // 0: it stays, or Redis does not say
	Shard    string    `json:"shard,omitempty"`
	stays    bool
}

// Stays says how long the key stays where it has no TTL.
func (k KeyRow) Stays() string {
	if k.stays {
		return "stays"
	}
	return "?"
}

func rowOf(k inspect.KeyRow) KeyRow {
	row := KeyRow{Name: k.Name, Family: k.Family, Type: k.Type, Elements: site.Num{Count: k.Elements}, Shard: k.Shard, stays: k.TTLKnown && !k.Ends}
	if k.Ends && k.TTLKnown {
		row.TTL = site.Span(max(k.TTL, time.Millisecond))
	}
	return row
}

func loadKeys(ctx context.Context, a *site.Ask) (any, error) {
	page := &Keys{Match: strings.TrimPrefix(a.Param("match"), a.Base.Namespace)}
	found, err := a.In().Keys(ctx, page.Match, a.Param("after"), inspect.KeysOptions{})
	if err != nil {
		text := site.Refusal(err)
		if text == "" {
			return nil, err
		}
		page.Refused = []string{text}
		return page, nil
	}
	page.Looked, page.Others, page.Next = found.Looked, found.Others, found.Next
	page.Refused = withDenied(nil, found.Denied)
	for _, k := range found.Keys {
		page.Rows = append(page.Rows, rowOf(k))
	}
	return page, nil
}

// Key is the page of a key.
type Key struct {
	KeyRow
	Bytes    int64     `json:"bytes"` // about; -1: Redis does not say
	Encoding string    `json:"encoding"`
	Contents []Content `json:"contents"`
	Refused  []string  `json:"refused,omitempty"`
}

// PageTitle names the key.
func (k *Key) PageTitle() string { return k.Name }

// Content is an element, masked.
type Content struct {
	Field  string `json:"field,omitempty"` // of a hash
	Text   string `json:"text"`
	Size   int64  `json:"size"`   // bytes of the whole element
	Hidden bool   `json:"hidden"` // so much of it was cut off that it cannot be masked
}

func loadKey(ctx context.Context, a *site.Ask) (any, error) {
	name := a.Path("key")
	if !strings.HasPrefix(name, a.Base.Namespace) {
		name = a.Base.Namespace + name // as the links of resque-web name keys
	}
	info, err := a.In().Key(ctx, name)
	if err != nil {
		return nil, err
	}
	k := &Key{KeyRow: rowOf(info.KeyRow), Bytes: info.Bytes, Encoding: info.Encoding, Refused: withDenied(nil, info.Denied)}
	for _, c := range info.Contents {
		k.Contents = append(k.Contents, contentOf(a.Masks, info, c))
	}
	return k, nil
}

// contentOf masks an element. Names of a set hold no secrets of jobs, but may look like some.
func contentOf(m *mask.Masker, info inspect.KeyInfo, c inspect.KeyContent) Content {
	out := Content{Field: m.Text(c.Field), Size: c.Size}
	if info.Type == "set" {
		out.Text = m.Text(c.Text)
		return out
	}
	raw, failure := []byte(c.Text), info.Family == "failed"
	switch cut := c.Size > int64(len(raw)); {
	case cut:
		text, ok := m.Cut(raw, failure, contentBytes)
		out.Text, out.Hidden = text, !ok
	case failure:
		out.Text = m.BriefRecord(raw, contentBytes)
	default:
		out.Text = m.Brief(raw, contentBytes)
	}
	return out
}
