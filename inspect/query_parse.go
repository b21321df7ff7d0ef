package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/fingerprint"
)

// MaxQuery is how many bytes the text of a search has at most.
const MaxQuery = 4096

// QueryError says what is wrong with the text of a search, and where.
type QueryError struct {
	Query string
	At    int // the byte where the mistake begins
	What  string
}

func (e *QueryError) Error() string {
	text := e.Query
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return fmt.Sprintf("goworker: search %q, at character %d: %s", text, utf8.RuneCountInString(e.Query[:e.At])+1, e.What)
}

// ParseQuery reads a search, as the command, the dashboard and the HTTP API take it: conditions with blanks between
// them. A job must fulfil all of them.
//
//	class:Send*             its class, or that of a job of Rails; a * stands for any text
//	queue:mail  id:K3W1…    its queue; its id. ref:<28 digits> is the Ref of an Entry
//	error:timeout           the error of a failed job contains this, in any case of its letters. exception:Net::* is its kind
//	group:1f0c62a9d3be      it failed, and this is the ID of its group; see package inspect/groups
//	worker:media-1          the process or worker that runs it or ran it: its id, or a beginning up to a colon
//	version:4f2             the version of the process that runs it begins so
//	state:failed            where it is: waiting (queued or lane), delayed, retrying, running, leased, failed; state:failed,delayed
//	arg.0.account:7         in its arguments, counted from 0, the value of a key; arg.0:7 the argument itself. args:[7,"a"] is all of them
//	meta.tenant:acme        in its metadata
//	for:>5m                 where it is for longer than that, as since and until; for:<5m for less
//	since:2h until:1h       it failed, began to run or was enqueued within that; also a time: since:2026-11-22T08:00:00Z
//	due:<10m                delayed, and due within that; due:>1h later
//	retried                 failed, and retried since
//	"exact text"            its payload, or its failure record, contains this; a word without quotes in any case of its letters
//
// A value with a blank or a quote in it stands in double quotes, with \" and \\ for these two signs; a * in quotes is a star. A minus
// turns a condition around: -retried, -class:Send*. Durations have a unit: s, m, h, d, w. now is what they are counted from.
//
// Where nothing says when a job came, since, until and for are not fulfilled: see Page.Unsure.
//
// The error is a *QueryError. It says where the mistake is.
func ParseQuery(text string, now time.Time) (Query, error) {
	p := &queryParser{text: text, now: now}
	if len(text) > MaxQuery {
		return Query{}, p.wrong(MaxQuery, "a search has at most %d bytes, and this one has %d", MaxQuery, len(text))
	}
	if at := strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError }); at >= 0 {
		if _, size := utf8.DecodeRuneInString(text[at:]); size == 1 {
			return Query{}, p.wrong(at, "the text is not UTF-8")
		}
	}
	for {
		p.blanks()
		if p.at == len(p.text) {
			return p.q, nil
		}
		if err := p.word(); err != nil {
			return Query{}, err
		}
	}
}

// queryParser reads a search from its beginning to its end.
type queryParser struct {
	text string
	at   int
	now  time.Time
	q    Query
	any  bool // a state was given
}

func (p *queryParser) wrong(at int, format string, args ...any) error {
	return &QueryError{Query: p.text, At: at, What: fmt.Sprintf(format, args...)}
}

// isBlank reports whether a character separates conditions. Those that are not seen do too.
func isBlank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func (p *queryParser) blanks() {
	p.at = len(p.text) - len(strings.TrimLeftFunc(p.text[p.at:], isBlank))
}

// ended reports whether a condition may end here.
func (p *queryParser) ended() bool {
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return p.at == len(p.text) || isBlank(r)
}

// word reads one condition.
func (p *queryParser) word() error {
	start, c := p.at, Condition{}
	if p.text[p.at] == '-' {
		c.Not = true
		if p.at++; p.ended() {
			return p.wrong(start, "a minus stands before what is not wanted, without a blank: -class:Send*")
		}
	}
	nameAt := p.at
	if p.text[p.at] == '-' {
		return p.wrong(nameAt, "a minus too many; put quotes around a text that begins with one")
	}
	if p.text[p.at] == '"' {
		c.Name, c.Literal = onText, true
		value, err := p.quotes()
		if c.Value = value; err != nil {
			return err
		}
		if value == "" {
			return p.wrong(nameAt, "there is nothing between the quotes; write the text to look for")
		}
		return p.add(c)
	}
	path, err := p.name()
	if err != nil {
		return err
	}
	if p.at == len(p.text) || p.text[p.at] != ':' {
		c.Name, c.Value = onText, p.text[nameAt:p.at]
		if c.Value == onRetried {
			c.Name, c.Value = onRetried, ""
		}
		if strings.Contains(c.Value, `"`) {
			return p.wrong(nameAt+strings.Index(c.Value, `"`), `a quote inside a word; put the whole text in quotes, with \" for this one`)
		}
		return p.add(c)
	}
	if !slices.Contains(conditionNames, path[0]) {
		return p.wrong(nameAt, "%q is no condition; %s", path[0], meant(path[0], conditionNames, "put quotes around a text with a colon, and id: before an id that has one"))
	}
	c.Name = p.text[nameAt:p.at]
	if hint := pathMistake(path); hint != "" {
		return p.wrong(nameAt, "%s", hint)
	}
	p.at++
	valueAt := p.at
	if p.ended() {
		return p.wrong(nameAt, "%s: has no value; write it behind the colon without a blank", c.Name)
	}
	if p.text[p.at] == '"' {
		c.Literal = true
		if c.Value, err = p.quotes(); err != nil {
			return err
		}
	} else {
		for !p.ended() {
			if p.text[p.at] == '"' && path[0] != onArgs {
				return p.wrong(p.at, `a quote inside a value; put the whole value in quotes, with \" for this one`)
			}
			_, size := utf8.DecodeRuneInString(p.text[p.at:])
			p.at += size
		}
		c.Value = p.text[valueAt:p.at]
	}
	if what := p.understand(&c, path[0]); what != "" {
		return p.wrong(valueAt, "%s", what)
	}
	return p.add(c)
}

// quotes reads a text in quotes.
func (p *queryParser) quotes() (string, error) {
	start := p.at
	var b strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case '\\':
			if p.at++; p.at == len(p.text) || p.text[p.at] != '"' && p.text[p.at] != '\\' {
				return "", p.wrong(p.at-1, `behind \ stands " or \; write \\ for one backslash`)
			}
			b.WriteByte(p.text[p.at])
		case '"':
			if p.at++; !p.ended() && p.text[p.at] != ':' && p.text[p.at] != '.' {
				return "", p.wrong(p.at, "behind the closing quote stands a blank")
			}
			return b.String(), nil
		default:
			b.WriteByte(c)
		}
	}
	return "", p.wrong(start, "the quote is not closed")
}

// name reads up to a colon that is not in quotes, or to the end of the word, and returns the parts between dots.
func (p *queryParser) name() (path []string, err error) {
	part := p.at
	for !p.ended() && p.text[p.at] != ':' {
		switch p.text[p.at] {
		case '.':
			path = append(path, p.text[part:p.at])
			if p.at++; p.at < len(p.text) && p.text[p.at] == '"' {
				text, err := p.quotes()
				if err != nil {
					return nil, err
				}
				path = append(path, text)
				if p.at < len(p.text) && p.text[p.at] == '.' {
					p.at++
				} else if p.at == len(p.text) || p.text[p.at] != ':' {
					return nil, p.wrong(p.at, "behind the key in quotes stands a dot or a colon")
				} else {
					return path, nil
				}
			}
			part = p.at
		default:
			_, size := utf8.DecodeRuneInString(p.text[p.at:])
			p.at += size
		}
	}
	return append(path, p.text[part:p.at]), nil
}

// pathOf returns the parts of a name of a condition; nil: it is none.
func pathOf(name string) []string {
	p := &queryParser{text: name}
	path, err := p.name()
	if err != nil || p.at < len(name) || pathMistake(path) != "" {
		return nil
	}
	return path
}

// pathMistake says what is wrong with what stands behind the first part of a name.
func pathMistake(path []string) string {
	switch name := path[0]; name {
	case onArg:
		if len(path) < 2 {
			return "arg needs the number of the argument, counted from 0: arg.0:7, arg.0.account:7"
		}
		if _, err := strconv.ParseUint(path[1], 10, 16); err != nil {
			return fmt.Sprintf("behind arg stands the number of the argument, counted from 0, not %q: arg.0.account:7", path[1])
		}
		if slices.Contains(path, "") {
			return "between two dots stands a key: arg.0.account:7"
		}
	case onMeta:
		if len(path) != 2 || path[1] == "" {
			return `meta needs one key: meta.tenant:acme; put quotes around a key with a dot: meta."a.b":1`
		}
	default:
		if len(path) > 1 {
			return fmt.Sprintf("%s has nothing behind a dot; only arg and meta have: arg.0.account:7", name)
		}
	}
	return ""
}

// understand reads the value of a condition, and says what is wrong with it.
func (p *queryParser) understand(c *Condition, name string) (mistake string) {
	switch name {
	case onState:
		return p.state(c)
	case onRef:
		if len(c.Value) != refSize || strings.Trim(c.Value, "0123456789abcdef") != "" {
			return fmt.Sprintf("a ref has %d hexadecimal digits, of small letters", refSize)
		}
	case onGroup:
		if !fingerprint.IsID(c.Value) {
			return fmt.Sprintf("a group has %d hexadecimal digits, of small letters; goworker failed groups prints them", fingerprint.IDSize)
		}
	case onArgs:
		var list []json.RawMessage
		if json.Unmarshal([]byte(c.Value), &list) != nil || list == nil {
			return `args needs all arguments as JSON: args:[7,"ada"]`
		}
		c.Literal = true
	case onFor:
		longer := !strings.HasPrefix(c.Value, "<")
		d, mistake := durationOf(strings.TrimLeft(c.Value, "<>"))
		if len(strings.TrimLeft(c.Value, "<>")) < len(c.Value)-1 {
			mistake = "before the duration stands one > or <: for:>5m"
		}
		if mistake != "" {
			return mistake
		}
		if c.Name, c.Value, c.Literal, c.Time = onSince, "", false, p.now.Add(-d); longer {
			c.Name = onUntil
		}
	case onSince, onUntil:
		at, mistake := p.time(c.Value, -1)
		if mistake != "" {
			return mistake
		}
		c.Value, c.Literal, c.Time = "", false, at
	case onDue:
		if c.Value[:min(1, len(c.Value))] != "<" && c.Value[:min(1, len(c.Value))] != ">" {
			return "due needs < for earlier or > for later: due:<10m"
		}
		at, mistake := p.time(c.Value[1:], 1)
		if mistake != "" {
			return mistake
		}
		c.Value, c.Literal, c.Time = c.Value[:1], false, at
	}
	return ""
}

// time reads a time, or a duration from now on in a direction.
func (p *queryParser) time(text string, direction time.Duration) (time.Time, string) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, p.now.Location()); err == nil && t.Year() > 0 {
			return t, ""
		}
	}
	if len(text) >= len(time.DateOnly) && strings.Count(text, "-") > 1 {
		return time.Time{}, fmt.Sprintf("%q is no time; write 2026-11-22, 2026-11-22T08:00 or 2026-11-22T08:00:00Z", text)
	}
	d, mistake := durationOf(text)
	if text != "" && (text[0] < '0' || text[0] > '9') {
		mistake = fmt.Sprintf("%q is neither a time nor a duration; write 2026-11-22, 2026-11-22T08:00:00Z, 90s, 5m, 2h or 3d", text)
	}
	return p.now.Add(direction * d), mistake
}

// durationOf reads a duration with units up to weeks.
func durationOf(text string) (d time.Duration, mistake string) {
	units := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
	const most = 100 * 366 * 24 * time.Hour
	rest := text
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		number, err := strconv.ParseFloat(rest[:digits], 64)
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		unit, ok := units[rest[:letters]]
		if err == nil && letters == 0 && rest == "" {
			return 0, fmt.Sprintf("%q has no unit; write %ss, %[1]sm, %[1]sh, %[1]sd or %[1]sw", text, text[len(text)-digits:])
		}
		if err != nil || !ok || number*float64(unit) > float64(most) {
			break
		}
		if d, rest = d+time.Duration(number*float64(unit)), rest[letters:]; rest == "" && d <= most {
			return d, ""
		}
	}
	return 0, fmt.Sprintf("%q is no duration; write 90s, 5m, 2h, 3d or 1w, at most 100 years", text)
}

// state reads where jobs are. Only what is wanted narrows the places.
func (p *queryParser) state(c *Condition) (mistake string) {
	words := strings.Split(c.Value, ",")
	var named []Place
	for _, word := range words {
		of, ok := states[word]
		if !ok {
			var all []string
			for name := range states {
				all = append(all, name)
			}
			slices.Sort(all)
			return fmt.Sprintf("%q is no state; %s", word, meant(word, all, ""))
		}
		named = append(named, of...)
	}
	if c.Literal = false; c.Not {
		return ""
	}
	if p.any {
		named = slices.DeleteFunc(named, func(place Place) bool { return !slices.Contains(p.q.Places, place) })
	}
	if len(named) == 0 {
		return "no job is in this state and in the one before; put a comma between states of which any will do: state:failed,delayed"
	}
	slices.SortFunc(named, func(a, b Place) int { return slices.Index(places, a) - slices.Index(places, b) })
	p.q.Places, p.any = slices.Compact(named), true
	return ""
}

// add takes a condition that was read.
func (p *queryParser) add(c Condition) error {
	switch {
	case c.Name == onState && !c.Not && !slices.Contains(strings.Split(c.Value, ","), retryingState): // it is in Places
	case c.Name == onQueue && !c.Not && p.q.Queue == "" && c.Value != "" && (c.Literal || !strings.Contains(c.Value, "*")):
		p.q.Queue = c.Value
	default:
		p.q.Where = append(p.q.Where, c)
	}
	return nil
}

// meant says which of the names was meant, or all of them.
func meant(word string, names []string, otherwise string) string {
	best, least := "", min(3, 1+max(1, len(word)/3))
	for _, name := range names {
		if d := distance(word, name); d < least {
			best, least = name, d
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	if otherwise != "" {
		otherwise = "; " + otherwise
	}
	return "there are " + strings.Join(names, ", ") + otherwise
}

// distance is how many letters differ, are missing or are swapped between two words; at most 3.
func distance(a, b string) int {
	if len(a) > 20 || len(a)-len(b) > 2 || len(b)-len(a) > 2 {
		return 3
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	above := slices.Clone(row) // the row before the one before
	for i := range a {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(before[j+1]+1, row[j]+1, before[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], above[j-1]+1)
			}
		}
		above = before
	}
	return min(row[len(b)], 3)
}
