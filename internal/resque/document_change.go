package resque

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
)

// This file keeps the documents of waiting jobs true that an operator removes, moves or retries.

var documentScript = script("document")

// ResultField is the field of a payload that gives the job a document: how long that stays after the end, in ms. A text
// of this number, a blank and a name is of a document that has the name in place of the job's id.
const ResultField = "result"

const (
	// PendingTTL is how long a document stays while its job is not over: from each change of it, or from when
	// the job is due.
	PendingTTL = 7 * 24 * time.Hour

	// MaxResultTTL is the longest TTL, so that no sum of it overflows.
	MaxResultTTL = 100 * 365 * 24 * time.Hour
)

// ResultOf returns the name of the document of a job and how long it stays after the job's end, in ms, and whether the job
// has one. The name is the job's id or, of a job that a server published, its place: ids of such jobs are of their queue
// alone. A field of another form is another program's.
func ResultOf(p *payload.Payload) (document string, ms int64, ok bool) {
	if p.ID == "" {
		return "", 0, false
	}
	text, document := string(p.Field(ResultField)), p.ID
	if strings.HasPrefix(text, `"`) {
		if text, document, ok = strings.Cut(payload.StringValue([]byte(text)), " "); !ok || document == "" {
			return "", 0, false
		}
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	return document, ms, err == nil && ms > 0 && ms <= MaxResultTTL.Milliseconds()
}

// PlacedResult is the field for a document with a name of its own.
func PlacedResult(document string, ms int64) payload.Field {
	return payload.TextField(ResultField, strconv.FormatInt(ms, 10)+" "+document)
}

// DocumentChange is what is to be written of a waiting job. DocumentChangeOf makes it of a payload.
type DocumentChange struct {
	ID    string // of the job
	Name  string // of the document
	Class string
	Stays int64     // ms, how long the document of a job that waits stays, from now or from when the job is due
	Gone  bool      // the job was removed
	Queue string    // of one that was not
	Due   time.Time // of one that is delayed
}

// DocumentChangeOf reads whose document to change from a payload. ok is false if the job has none.
func DocumentChangeOf(raw []byte) (d DocumentChange, ok bool) {
	raw = payload.JSON(raw)
	if !bytes.Contains(raw, []byte(`"`+ResultField+`":`)) { // most jobs have none, and need no parsing
		return d, false
	}
	p, err := payload.Parse(raw)
	if err != nil {
		return d, false
	}
	name, ttl, ok := ResultOf(&p)
	return DocumentChange{ID: p.ID, Name: name, Class: p.Class, Stays: max(ttl, PendingTTL.Milliseconds())}, ok
}

// changesTogether is how many documents one script changes.
const changesTogether = 500

// ChangeDocuments writes what was done with waiting jobs. It is a step of its own: if it is lost, a document
// says for a while what was true before.
func (s Store) ChangeDocuments(c redis.Conn, changes []DocumentChange) error {
	for some := range slices.Chunk(changes, changesTogether) {
		var a Call
		a.Key(s.KeyOfCancelled())
		for _, d := range some {
			s.documentKeys(&a, d.Name)
			what, due := "waits", ""
			if d.Gone {
				what = "gone"
			}
			if !d.Due.IsZero() {
				due = strconv.FormatInt(StampOf(d.Due).MS, 10)
			}
			a.Arg(what, CancelledID(d.ID), d.Queue, d.Class, due, d.Stays)
		}
		if _, err := a.Do(c, documentScript); err != nil {
			return fmt.Errorf("writing what became of %s: %w", Plural(len(some), "job"), Explain(err))
		}
	}
	return nil
}

// documentGone has the document of a waiting job say that the job is gone, in the step that removes the job. It is
// soft. There is no effect for a job without a document.
func (s Store) documentGone(raw []byte) []Effect {
	d, ok := DocumentChangeOf(raw)
	if !ok {
		return nil
	}
	return []Effect{goneVerb.Effect(s.DocumentKeys(d.Name, true)).Soft()}
}

// RetriedDocument adds the keys of the document of a failed job that is to run again, if it has one, and returns what
// is to be written there.
func (s Store) RetriedDocument(a *Call, raw []byte) DocumentChange {
	d, ok := DocumentChangeOf(raw)
	if ok {
		s.documentKeys(a, d.Name)
	}
	return d
}
