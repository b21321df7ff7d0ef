package failures

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
)

// GroupPage is the page of the failures of one kind.
type GroupPage struct {
	Group
	Example string   `json:"example"` // the error of one of them
	Shared  *Shared  `json:"shared"`
	Rows    []Member `json:"failures"`
	Record  *Record  `json:"failure"` // the one that is shown whole
	Gone    bool     `json:"gone"`    // the one that was asked for is no longer there
	Grouped Progress `json:"grouped"`
	ByQueue []string `json:"-"` // queues of which the user has to choose one
	site.Paged
}

// Member is a failure in the list of its group.
type Member struct {
	Row
	Differs string `json:"differs"` // what it has that the others of the page have not
}

// Shared is what most failures of the group have in common and other jobs of the class have not.
type Shared struct {
	Sampled  int     `json:"sampled"`
	Compared int     `json:"compared"`
	Rows     []Share `json:"rows"`
}

// Share is a value that most of them have.
type Share struct {
	What      string  `json:"what"`
	Value     string  `json:"value"`
	Among     float64 `json:"among"`
	Elsewhere float64 `json:"elsewhere"`
	Known     bool    `json:"known"` // there is something to compare with
}

// PerCent of these and of the others.
func (s Share) PerCent() (both [2]float64) { return [2]float64{100 * s.Among, 100 * s.Elsewhere} }

// Name says what has the value.
func (s Share) Name() string {
	if path, found := strings.CutPrefix(s.What, "arg."); found {
		return "argument " + path
	}
	return s.What
}

// PageTitle names the page.
func (p *GroupPage) PageTitle() string { return cmp.Or(p.Class, "Failures") + " " + p.Exception }

// sharedFor is how long pages of a group share what its failures share.
const sharedFor = 20 * time.Second

func loadGroup(ctx context.Context, a *site.Ask) (any, error) {
	x, p, err := index(ctx, a)
	if err != nil {
		return nil, err
	}
	gid, f := a.Path("gid"), seen(a)
	g, found := groupBy(x, gid, f)
	if !found {
		if !p.Done {
			return nil, site.Missing("the group %s is not known yet: %d of %d failures are grouped so far; this goes on while you look at the list of failures", gid, p.Indexed, p.Of)
		}
		return nil, site.Missing("there is no group %s of failures: all of them were removed, or it never was", gid)
	}
	page := &GroupPage{Group: groupOf(g, deploysOf(ctx, a)), Example: g.Example}
	if page.Grouped = (Progress{p.Indexed, p.Of, p.Older, p.Done}); !a.User.Whole() {
		page.Grouped = Progress{Done: p.Done}
		if page.ByQueue = page.Queues; len(page.ByQueue) == 1 {
			page.ByQueue = nil
		}
	}
	if page.Shared, err = shared(ctx, a, x, gid, f); err != nil {
		return nil, err
	}
	found1, next, err := x.Members(ctx, gid, a.Param("after"), members, f)
	if err != nil {
		return nil, err
	}
	page.Next = next
	return page, page.list(ctx, a, x, found1)
}

// list shows some members, and one of them whole.
func (p *GroupPage) list(ctx context.Context, a *site.Ask, x *groups.Index, found []inspect.Failure) error {
	var all []Row
	for _, f := range found {
		all = append(all, rowOf(a, f))
	}
	for n, text := range differing(all) {
		p.Rows = append(p.Rows, Member{all[n], text})
	}
	id := a.Param("id")
	at := 0
	if id != "" {
		if at = slices.IndexFunc(found, func(f inspect.Failure) bool { return f.ID == id }); at < 0 {
			one, err := x.Find(ctx, id)
			if err != nil {
				return err
			}
			if p.Gone = len(one) == 0 || !a.Sees(one[0].Queue); !p.Gone {
				p.Record = recordOf(a, one[0])
				return nil
			}
			at = 0
		}
	}
	if len(found) > 0 {
		p.Record = recordOf(a, found[at])
	}
	return nil
}

func groupBy(x *groups.Index, gid string, f groups.Filter) (groups.Group, bool) {
	f.Fits = func(g groups.Group) bool { return g.ID == gid }
	all := x.Groups(f)
	if len(all) == 0 {
		return groups.Group{}, false
	}
	return all[0], true
}

// shared asks what the failures of a group share, and masks the answer.
func shared(ctx context.Context, a *site.Ask, x *groups.Index, gid string, f groups.Filter) (*Shared, error) {
	scope := ""
	if !a.User.Whole() {
		scope = strings.Join(a.User.Queues, "\x00")
	}
	return site.Keep(ctx, a.Fleet, "shared\x00"+gid+"\x00"+scope, sharedFor, func(ctx context.Context) (*Shared, error) {
		s, err := x.Shared(ctx, gid, f, func(_ string, job json.RawMessage) json.RawMessage { return a.Masks.Payload(job) })
		if err != nil {
			return nil, err
		}
		out := &Shared{Sampled: s.Sampled, Compared: s.Compared}
		for _, r := range s.Rows {
			if strings.Contains(r.Value, mask.Mark) { // equal marks are no equal values
				continue
			}
			out.Rows = append(out.Rows, Share{r.What, r.Value, r.Among, r.Elsewhere, r.Known})
		}
		return out, nil
	})
}
