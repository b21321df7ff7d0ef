package operations

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/pattern"
)

const (
	// mostAudited is how many changes the record holds.
	mostAudited = 10_000
	// beyond is how many changes a page reads more than it shows: so many may have been made since the page before.
	beyond = 200
	// underWay is how long an intent without a result may still get one.
	underWay = 30 * time.Second
)

// Audit is the page /audit.
type Audit struct {
	Rows    []Change `json:"changes"`
	Query   string   `json:"query,omitempty"`
	Looked  int      `json:"looked"` // changes that were searched
	Refused string   `json:"refused,omitempty"`
	site.Paged
}

// Change is one change that a person or a program has made.
type Change struct {
	At        site.Time `json:"at"`
	Who       string    `json:"who"`             // as the program claimed
	User      string    `json:"user,omitempty"`  // of Redis
	Face      string    `json:"face,omitempty"`  // by what the change was made: dashboard, command
	Why       string    `json:"why,omitempty"`   // as the person said
	What      string    `json:"what"`            // the call
	On        string    `json:"on,omitempty"`    // what it concerned
	Old       string    `json:"old,omitempty"`   // the value before
	Changed   int64     `json:"changed"`         // jobs, failures or queues
	Error     string    `json:"error,omitempty"` // why not all of it was done
	Result    string    `json:"result"`          // done, failed, under way or its process ended
	Operation string    `json:"operation,omitempty"`
	Shard     string    `json:"shard,omitempty"`
	index     int       // in the entries
}

// From says where the change came from.
func (c Change) From() string {
	var parts []string
	if c.Face != "" {
		parts = append(parts, c.Face)
	}
	if c.User != "" && c.User != "?" {
		parts = append(parts, "redis: "+c.User)
	}
	return strings.Join(parts, ", ")
}

// The results of a Change.
const (
	done      = "done"
	notAll    = "failed"
	notYet    = "under way"
	abandoned = "its process ended before it answered"
)

// ofOperation finds the operation that a change was about.
var ofOperation = pattern.New(`^operation ([0-9a-z]{4,32})\b`)

func loadAudit(ctx context.Context, a *site.Ask) (any, error) {
	page := &Audit{Query: a.Param("q")}
	after, err := placeOf(a.Param("after"))
	if err != nil {
		return nil, err
	}
	count := mostAudited
	if page.Query == "" {
		count = min(mostAudited, after.index+rows+beyond)
	}
	entries, err := read(ctx, a, count)
	if err != nil {
		if page.Refused = site.Refusal(err); page.Refused == "" {
			return nil, err
		}
		return page, nil
	}
	page.Looked = len(entries)
	from := after.in(entries)
	for c := range found(a, entries, page.Query) {
		if c.index < from {
			continue
		}
		if len(page.Rows) == rows {
			last := page.Rows[rows-1].index
			page.Next = place{last, digest(entries[last])}.text()
			break
		}
		page.Rows = append(page.Rows, c)
	}
	return page, nil
}

// place is where a page of the audit ends. Changes that are made meanwhile move it down, so the digest finds it again.
type place struct {
	index  int
	digest uint32
}

func (p place) text() string { return fmt.Sprintf("%d-%08x", p.index, p.digest) }

func placeOf(text string) (p place, err error) {
	if text == "" {
		return place{index: -1}, nil
	}
	index, digest, _ := strings.Cut(text, "-")
	n, bad := strconv.ParseUint(digest, 16, 32)
	if p.index, err = strconv.Atoi(index); err != nil || bad != nil || p.index < 0 || p.index >= mostAudited {
		return p, fmt.Errorf("%w: %q", inspect.ErrCursor, text)
	}
	p.digest = uint32(n)
	return p, nil
}

// in is the index of the row that follows the place.
func (p place) in(entries []inspect.AuditEntry) int {
	for at := max(0, p.index); p.index >= 0 && at < len(entries); at++ {
		if digest(entries[at]) == p.digest {
			return at + 1
		}
	}
	return max(0, p.index+1)
}

func digest(e inspect.AuditEntry) uint32 {
	h := fnv.New32a()
	text, _ := json.Marshal(e)
	_, _ = h.Write(text)
	return h.Sum32()
}

// read returns the newest changes, the newest first, as they are in Redis.
func read(ctx context.Context, a *site.Ask, count int) ([]inspect.AuditEntry, error) {
	return site.Keep(ctx, a.Fleet, fmt.Sprint("audit ", count), 2*time.Second, func(ctx context.Context) ([]inspect.AuditEntry, error) {
		return a.In().Audit(ctx, count)
	})
}

// found are the changes that fit a search, masked. To mask is slow, so what does not fit before is not masked; what fits before
// has to fit afterwards too, so that nobody finds a secret.
func found(a *site.Ask, entries []inspect.AuditEntry, query string) iter.Seq[Change] {
	fits := matcher(query)
	return func(yield func(Change) bool) {
		for _, c := range changes(a, entries) {
			if !fits(c) {
				continue
			}
			c.Why, c.On, c.Old, c.Error = a.Masks.Text(c.Why), a.Masks.Text(c.On), a.Masks.Text(c.Old), a.Masks.Text(c.Error)
			if query != "" && !fits(c) {
				continue
			}
			if !yield(c) {
				return
			}
		}
	}
}

// changes are entries as they are shown, not masked. An intent whose result follows is left out.
func changes(a *site.Ask, entries []inspect.AuditEntry) (all []Change) {
	type asked struct{ who, what, on string }
	answered := make(map[asked]int)
	for index, e := range entries { // the newest first, so results come before their intents
		same := asked{e.Who, e.What, e.On}
		if e.Intent && answered[same] > 0 {
			answered[same]--
			continue
		}
		c := Change{
			At: site.Time{Time: e.At}, Who: e.Who, User: e.User, Face: e.Face, Why: e.Why, What: e.What, On: about(e.On), Old: e.Old,
			Changed: e.Changed, Error: e.Error, Shard: e.Shard, Result: done, index: index,
		}
		switch {
		case e.Intent && a.Now().Sub(e.At) < underWay:
			c.Result = notYet
		case e.Intent:
			c.Result = abandoned
		case e.Error != "":
			c.Result = notAll
		}
		if !e.Intent {
			answered[same]++
		}
		if found := ofOperation.FindStringSubmatch(e.On); found != nil {
			c.Operation = found[1]
			if e.Intent && strings.HasPrefix(e.What, "Operations.") {
				c.Result = done // the page of the operation says how far it is
			}
		}
		all = append(all, c)
	}
	return all
}

// about is what a change concerned. Where that is the search of an operation, it is in words.
func about(on string) string {
	head, text, found := strings.Cut(on, ": ")
	var q inspect.Query
	if !found || !ofOperation.MatchString(on) || json.Unmarshal([]byte(text), &q) != nil {
		return on
	}
	return head + ": " + q.String()
}

// matcher returns a function that reports whether a change fits a search: words that it has somewhere, or name:value of a field.
// A minus excludes. It sees what the page shows, so it finds no masked value.
func matcher(query string) func(c Change) bool {
	var tests []func(c Change) bool
	for _, word := range strings.Fields(strings.ToLower(query)) {
		word, not := strings.CutPrefix(word, "-")
		name, value, named := strings.Cut(word, ":")
		if _, known := fields[name]; !named || !known {
			name, value = "", word
		}
		tests = append(tests, func(c Change) bool {
			found := false
			for field, of := range fields {
				found = found || (name == "" || name == field) && strings.Contains(strings.ToLower(of(c)), value)
			}
			return found != not
		})
	}
	return func(c Change) bool {
		return !slices.ContainsFunc(tests, func(fits func(c Change) bool) bool { return !fits(c) })
	}
}

// fields are what a search of the audit may name.
var fields = map[string]func(c Change) string{
	"who": func(c Change) string { return c.Who }, "did": func(c Change) string { return c.What }, "on": func(c Change) string { return c.On },
	"why": func(c Change) string { return c.Why }, "by": func(c Change) string { return c.Face }, "user": func(c Change) string { return c.User },
	"old": func(c Change) string { return c.Old }, "result": func(c Change) string { return c.Result + " " + c.Error },
}

// export writes all changes that fit a search: JSON lines, or CSV for ?format=csv.
func export(ctx context.Context, a *site.Ask, w http.ResponseWriter) error {
	entries, err := read(ctx, a, mostAudited)
	if err != nil {
		return err
	}
	all := found(a, entries, a.Param("q"))
	name := "audit-" + a.Now().UTC().Format("20060102-150405")
	head := w.Header()
	if a.Choice("format", "jsonl", "csv") == "csv" {
		head.Set("Content-Type", "text/csv; charset=utf-8")
		head.Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
		return table(csv.NewWriter(w), all)
	}
	head.Set("Content-Type", "application/x-ndjson")
	head.Set("Content-Disposition", `attachment; filename="`+name+`.jsonl"`)
	lines := json.NewEncoder(w)
	for c := range all {
		if err := lines.Encode(c); err != nil {
			return err
		}
	}
	return nil
}

func table(out *csv.Writer, all iter.Seq[Change]) error {
	lines := [][]string{{"at", "who", "user", "face", "why", "what", "on", "old", "changed", "result", "error", "shard"}}
	for c := range all {
		lines = append(lines, []string{c.At.UTC().Format(time.RFC3339Nano), c.Who, c.User, c.Face, c.Why, c.What, c.On, c.Old, strconv.FormatInt(c.Changed, 10), c.Result, c.Error, c.Shard})
	}
	for _, row := range lines {
		for n, cell := range row {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				row[n] = "'" + cell // else a spreadsheet takes it for a formula
			}
		}
	}
	return out.WriteAll(lines)
}
