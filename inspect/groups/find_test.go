package groups_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
	"github.com/goworker/goworker/internal/redistest"
)

// said are the first arguments of failures, and whether each was retried.
func said(all []inspect.Failure) string {
	var texts []string
	for _, f := range all {
		texts = append(texts, string(f.Payload[strings.Index(string(f.Payload), "[")+1:len(f.Payload)-2])+strings.Repeat("r", min(1, len(f.RetriedAt))))
	}
	return strings.Join(texts, " ")
}

// Failures are found by their IDs where they stand now, also over several Redises, before all are known, and where the Index leaves them out.
func TestFind(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	for n := range 10 {
		push(t, a, "failed", failed("A", "E", "no", "mail", time.Duration(20-n)*time.Second, n))
		push(t, b, "failed", failed("A", "E", "no", "mail", time.Duration(20-n)*time.Second, 100+n))
	}
	in := inspect.New(lend(t, a, "a"), lend(t, b, "b"))
	all, err := in.Failures().List(t.Context(), 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]string)
	for _, f := range all {
		ids[said([]inspect.Failure{f})] = f.ID
	}
	asked := []string{ids["3"], ids["101"], strings.Repeat("0", 28), ids["0"], "nonsense"}
	check := func(x *groups.Index, want string, ids ...string) {
		t.Helper()
		found, err := x.Find(t.Context(), ids...)
		if got := said(found); err != nil || got != want {
			t.Errorf("found %s, want %s (%v)", got, want, err)
		}
	}
	small := options()
	small.MaxIndexed = 3
	check(groups.New(in, options()), "3 101 0", asked...)
	check(groups.New(in, small), "3 101 0", asked...)
	check(groups.New(in, small), "3", ids["3"], ids["3"])
	x := groups.New(in, options())
	refreshed(t, x)
	a.Do(t, "LPOP", "resque:failed")
	a.Do(t, "LPOP", "resque:failed")
	check(x, "3 101", asked...)
	if _, err := in.Failures().RetryID(t.Context(), ids["3"]); err != nil {
		t.Fatal(err)
	}
	check(x, "3r", ids["3"])
	x.Retried(ids["3"], ids["105"], "nonsense")
	if g := x.Groups(groups.Filter{})[0]; g.Unretried != g.Count-2 {
		t.Errorf("%d of %d were not retried", g.Unretried, g.Count)
	}
	push(t, a, "failed", string(all[3].Raw)) // one that was not retried, with the ID of one that was
	refreshed(t, x)
	check(x, "3", ids["3"])
	check(x, "3 3r", ids["3"], ids["3"], ids["3"])
	jobs := in.FailedJobs(all[4], inspect.Failure{})
	if n, err := in.Remove(t.Context(), jobs[0]); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n, err := in.Remove(t.Context(), jobs[1]); n != 0 || err == nil {
		t.Error("a failure that nobody has listed was removed")
	}
}

// The neighbours of a failure are those that happened last before it and first after it, in any list.
func TestNear(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SADD", "resque:failed_queues", "low_failed")
	for n := range 6 {
		push(t, server, "failed", failed(fmt.Sprint("A", n), "E", "no", "mail", time.Duration(60-10*n)*time.Second, n))
		push(t, server, "low_failed", failed(fmt.Sprint("B", n), "E", "no", "low", time.Duration(55-10*n)*time.Second, n))
	}
	push(t, server, "failed", failed("Same", "E", "no", "mail", 10*time.Second, 7), `{"payload":{"class":"Never","args":[]},"queue":"mail"}`)
	in := inspect.New(lend(t, server, "one"))
	x := groups.New(in, options())
	refreshed(t, x)
	names := func(all []groups.Neighbour) (names []string) {
		for _, n := range all {
			names = append(names, n.Class)
		}
		return names
	}
	all, err := in.Failures().List(t.Context(), 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of            string
		f             groups.Filter
		before, after []string
	}{
		{"A3", groups.Filter{}, []string{"A2", "B2"}, []string{"B3", "A4"}},
		{"A3", groups.Filter{Queues: func(q string) bool { return q == "mail" }}, []string{"A1", "A2"}, []string{"A4", "A5"}},
		{"A5", groups.Filter{}, []string{"A4", "B4"}, []string{"Same", "B5"}},
		{"Same", groups.Filter{}, []string{"B4", "A5"}, []string{"B5"}},
		{"A0", groups.Filter{}, nil, []string{"B0", "A1"}},
		{"Never", groups.Filter{}, nil, nil},
	} {
		at := slices.IndexFunc(all, func(f inspect.Failure) bool { return f.Class == c.of })
		before, after := x.Near(all[at].ID, c.f, 2)
		if !slices.Equal(names(before), c.before) || !slices.Equal(names(after), c.after) {
			t.Errorf("%s: %v before, %v after", c.of, names(before), names(after))
		}
	}
	if before, after := x.Near("nonsense", groups.Filter{}, 2); before != nil || after != nil {
		t.Error(before, after)
	}
}

// hides replaces a word.
type hides string

func (h hides) Payload(job []byte) json.RawMessage {
	return bytes.ReplaceAll(job, []byte(h), []byte("***"))
}
func (h hides) Record(f []byte) []byte { return bytes.ReplaceAll(f, []byte(h), []byte("***")) }

// The texts of groups are those that a mask leaves, and no filter by text confirms what it hides. Fits chooses groups by these texts.
func TestMaskedTexts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	push(t, server, "failed", failed("A", "E", "no user tulip", "mail", time.Minute, 1), failed("B", "Etulip", "no", "mail", time.Minute, 1))
	x := groups.New(inspect.New(lend(t, server, "one")).Masked(hides("tulip")), options())
	refreshed(t, x)
	plain := groups.New(inspect.New(lend(t, server, "one")), options())
	refreshed(t, plain)
	for n, g := range x.Groups(groups.Filter{}) {
		if text := fmt.Sprint(g); strings.Contains(text, "tulip") || !strings.Contains(text, "***") {
			t.Error(text)
		}
		if of := plain.Groups(groups.Filter{})[n]; of.ID != g.ID {
			t.Errorf("the group is %s, without a mask %s", g.ID, of.ID)
		}
	}
	if found := x.Groups(groups.Filter{Text: "tulip"}); found != nil {
		t.Error(found)
	}
	fits := groups.Filter{Fits: func(g groups.Group) bool { return g.Exception == "E***" && g.Class == "B" && g.ID != "" }}
	if found := x.Groups(fits); len(found) != 1 || found[0].Class != "B" {
		t.Error(found)
	}
	gid := plain.Groups(groups.Filter{Text: "tulip"})[0].ID
	if ids, _ := x.IDs(gid, groups.Filter{}, "", 10); len(ids) != 1 {
		t.Error(ids)
	}
}
