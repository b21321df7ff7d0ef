package queues

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// One is the page of a job that its payload names: plain Resque jobs have no id.
type One struct {
	Queue   string          `json:"queue"`
	Job     Job             `json:"job"`
	Payload json.RawMessage `json:"payload"` // null above 64 KiB, and where it is no JSON: text has the beginning
	Text    string          `json:"text,omitempty"`
	List    string          `json:"-"`     // the arguments, for the form
	Left    site.Time       `json:"left"`  // when this dashboard saw last that it waited, if it waits no more
	Where   string          `json:"where"` // where it is, in words
	Waits   bool            `json:"waits"` // it waits, so it can be changed
	Class   string          `json:"-"`     // of the payload, that of Rails for an ActiveJob
	Process string          `json:"process,omitempty"`
	Ticket  int64           `json:"ticket,omitempty"`
	Back    string          `json:"-"`
	Links   []site.Link     `json:"-"`
}

const (
	lookFor    = 500 * time.Millisecond // how long the page looks for the job
	mostShown  = 64 << 10               // of a payload
	textShown  = 2 << 10                // of what is longer
	seenJobFor = 10 * time.Minute
)

func (o *One) PageTitle() string {
	if o.Job.Class == "" {
		return "A job of " + shown(o.Queue)
	}
	return o.Job.Class
}

func loadJob(ctx context.Context, a *site.Ask) (any, error) {
	queue, ref := a.Path("queue"), a.Param("ref")
	if len(ref) != 28 || strings.Trim(ref, "0123456789abcdef") != "" {
		return nil, site.Bad("ref is %q; it has 28 hexadecimal digits, as the list of the queue gives it", ref)
	}
	last, err := site.Keep(ctx, a.Fleet, "job "+queue+" "+ref, seenJobFor, func(context.Context) (*atomic.Int64, error) { return new(atomic.Int64), nil })
	if err != nil {
		return nil, err
	}
	e, place, there, of, err := locate(ctx, a, queue, ref)
	if err != nil {
		return nil, err
	}
	left := time.Time{}
	if ms := last.Load(); ms > 0 {
		left = time.UnixMilli(ms)
	}
	if !there {
		return nil, gone(a, left, of)
	}
	o := &One{Queue: queue, Job: jobOf(a, e, place), Waits: slices.Contains(changeable, e.Place), Where: whereText(a, e, place), Class: e.Class, Process: e.Process, Ticket: e.Ticket, Back: below(a, a.URL("queues", queue))}
	if o.Waits {
		last.Store(a.Now().UnixMilli())
	} else {
		o.Left = site.Time{Time: left}
	}
	o.show(a, e)
	for _, l := range a.Links {
		if address, ok := linked(l.URL, map[string]string{"id": o.Job.ID, "class": o.Job.Class, "queue": queue, "process": e.Process}); ok {
			o.Links = append(o.Links, site.Link{Name: l.Name, URL: address})
		}
	}
	return o, nil
}

// locate looks for a job: near the place that it had, and then wherever a job of the queue can be. of is how many jobs were not looked at.
func locate(ctx context.Context, a *site.Ask, queue, ref string) (e inspect.Entry, place int64, there bool, of int64, err error) {
	at, _ := strconv.Atoi(a.Param("place"))
	if len(a.Base.Servers) == 1 {
		skip := max(0, at-1-near)
		window, _, err := a.In().Peek(ctx, queue, skip, near+rows, false)
		if err != nil {
			return e, 0, false, 0, err
		}
		if n := slices.IndexFunc(window, func(e inspect.Entry) bool { return e.Ref == ref }); n >= 0 {
			return window[n], int64(skip + n + 1), true, 0, nil
		}
	}
	began := time.Now()
	for after := ""; ; {
		page, err := a.In().Find(ctx, inspect.Query{Queue: queue, Ref: ref}, after, 1, inspect.Budget(max(1, lookFor-time.Since(began))))
		if err != nil {
			return e, 0, false, 0, err
		}
		if len(page.Jobs) > 0 {
			return page.Jobs[0], 0, true, 0, nil
		}
		if after = page.Next; after == "" {
			return e, 0, false, 0, nil
		}
		if time.Since(began) >= lookFor {
			return e, 0, false, max(1, page.Of-page.Seen), nil
		}
	}
}

// gone is the error of a job that is not where it was.
func gone(a *site.Ask, left time.Time, unseen int64) error {
	text := "It has left this queue"
	if !left.IsZero() {
		text += " " + look.Dur(max(time.Second, a.Now().Sub(left).Truncate(time.Second))) + " ago"
	}
	if unseen > 0 {
		return site.Missing("%s, or is behind the jobs that were looked at: some %s were not", text, look.Plural(unseen, "job", "jobs"))
	}
	return site.Missing("%s. It is neither delayed nor running nor failed: it is done, or was removed, changed or moved. A plain job leaves nothing behind when it is done", text)
}

// whereText says where a job is.
func whereText(a *site.Ask, e inspect.Entry, place int64) string {
	switch e.Place {
	case inspect.Queued:
		if place > 0 {
			return fmt.Sprintf("waits in its queue, at place %s", look.Whole(place))
		}
		return "waits in its queue"
	case inspect.InLane:
		return "waits for a limit"
	case inspect.Delayed:
		return "is delayed until " + e.At.In(a.Loc).Format("2 Jan 2006, 15:04:05")
	case inspect.Running:
		return "runs now"
	case inspect.Leased:
		return "is held by a client over HTTP"
	}
	return "has failed"
}

// show fills in the payload, masked.
func (o *One) show(a *site.Ask, e inspect.Entry) {
	masked := a.Masks.Payload(e.Payload)
	if len(masked) > mostShown || !json.Valid(masked) {
		o.Text = a.Masks.Brief(e.Payload, textShown)
		return
	}
	o.Payload = masked
	if e.Invalid != nil {
		return
	}
	var b bytes.Buffer
	b.WriteString("[")
	for n, one := range a.Masks.Entry(e).Args {
		if n > 0 {
			b.WriteString(", ")
		}
		b.Write(one)
	}
	b.WriteString("]")
	o.List = b.String()
}

// linked fills in the words of a link; ok is false where the job has not all of them.
func linked(text string, words map[string]string) (address string, ok bool) {
	for word, value := range words {
		if at := "{" + word + "}"; strings.Contains(text, at) {
			if value == "" {
				return "", false
			}
			text = strings.ReplaceAll(text, at, url.QueryEscape(value))
		}
	}
	return text, !strings.Contains(text, "{")
}
