package groups

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
)

// Shared is what most failures of a group have in common and other jobs of their class have not.
type Shared struct {
	Sampled  int // failures of the group that were looked at: at most 200
	Compared int // other jobs of the class: at most 200. 0: there is nothing to compare with
	Rows     []ShareRow
}

// ShareRow is a value that more than 80 % of the sampled failures have, and less than half as large a share of the other jobs.
type ShareRow struct {
	What  string // "arg.0.account", "meta.tenant", as a search names them; "worker", "version", "queue"
	Value string // a text without quotes, or JSON

	Among     float64 // the share of the sampled failures that have it
	Elsewhere float64 // the share of the other jobs that have it
	Known     bool    // there are other jobs that could have it; else Elsewhere is 0
}

// Mask returns the payload of a job of a class without what people must not see; nil: nothing of it may be seen.
type Mask func(class string, payload json.RawMessage) json.RawMessage

const (
	mostSampled = 200
	mostValues  = 100 // of one job
	mostValue   = 100 // bytes of a value: longer ones are not compared
	mostDepth   = 4

	shareAmong = 0.8 // a row has more than that
	compareFor = time.Second
)

// Shared returns what the failures of a group share. It reads a sample of them, spread over all that match, and compares it with jobs of
// the class that wait, are delayed or run; where these are fewer than 200, also with its failures of other groups. The
// version is that of a process that still runs. mask may be nil. No value that it hides is in a row.
func (x *Index) Shared(ctx context.Context, gid string, f Filter, mask Mask) (s Shared, err error) {
	all := x.members(gid, f)
	sample, _, err := x.read(ctx, spread(all))
	if err != nil || len(sample) == 0 {
		return s, err
	}
	x.mu.RLock()
	kind, _ := x.kinds.number(gid)
	class := x.kinds.all[kind].class
	x.mu.RUnlock()
	processes, err := x.processes(ctx)
	if err != nil {
		return s, err
	}
	inside, outside := newShares(mask, processes), newShares(mask, processes)
	for _, one := range sample {
		inside.failure(one)
	}
	if class != "" {
		if err := x.others(ctx, outside, class, gid, f); err != nil {
			return s, err
		}
	}
	s.Sampled, s.Compared = inside.jobs, outside.jobs
	for v, n := range inside.values {
		row := ShareRow{What: v.what, Value: v.value, Among: float64(n) / float64(inside.jobs)}
		could := outside.could(v.what)
		if row.Known = could > 0; row.Known {
			row.Elsewhere = float64(outside.values[v]) / float64(could)
		}
		if row.Among > shareAmong && row.Elsewhere < row.Among/2 {
			s.Rows = append(s.Rows, row)
		}
	}
	slices.SortFunc(s.Rows, func(a, b ShareRow) int {
		return cmp.Or(cmp.Compare(b.Among-b.Elsewhere, a.Among-a.Elsewhere), cmp.Compare(a.What, b.What), cmp.Compare(a.Value, b.Value))
	})
	return s, nil
}

// spread chooses failures at equal distances.
func spread(all []ref) (some []ref) {
	for n := range min(mostSampled, len(all)) {
		some = append(some, all[n*len(all)/min(mostSampled, len(all))])
	}
	return some
}

// processes are the versions of the processes that run, by their ids.
func (x *Index) processes(ctx context.Context) (map[string]string, error) {
	versions := make(map[string]string)
	for _, s := range x.shards {
		for after := ""; ; {
			page, err := s.door.Inspector().ProcessesPage(ctx, after, inspect.MaxPage)
			if err != nil {
				return nil, err
			}
			for _, p := range page.Processes {
				versions[p.ID] = p.Version
				versions[fmt.Sprint(p.Host, ":", p.PID)] = p.Version
			}
			if after = page.Next; after == "" {
				break
			}
		}
	}
	return versions, nil
}

// others counts jobs of the class that are not in the group.
func (x *Index) others(ctx context.Context, outside *shares, class, gid string, f Filter) error {
	q := inspect.Query{
		Places: []inspect.Place{inspect.Queued, inspect.InLane, inspect.Delayed, inspect.Running},
		Where:  []inspect.Condition{{Name: "class", Value: class, Literal: true}},
	}
	for _, s := range x.shards {
		page, err := s.door.Inspector().Find(ctx, q, "", mostSampled-outside.jobs, inspect.Budget(compareFor))
		if err != nil {
			return err
		}
		for _, e := range page.Jobs {
			if f.Queues == nil || f.Queues(e.Queue) {
				outside.waiting(e)
			}
		}
		if outside.jobs >= mostSampled {
			return nil
		}
	}
	var rest []ref
	for _, g := range x.Groups(Filter{Class: class, Queues: f.Queues}) {
		if g.ID != gid {
			rest = append(rest, x.members(g.ID, Filter{Class: class, Queues: f.Queues})...)
		}
	}
	some := spread(rest)
	some = some[:min(len(some), mostSampled-outside.jobs)]
	failed, _, err := x.read(ctx, some)
	for _, one := range failed {
		outside.failure(one)
	}
	return err
}

// value is something that a job has.
type value struct{ what, value string }

// shares counts what jobs have.
type shares struct {
	mask     Mask
	versions map[string]string

	jobs, workers, versioned int // jobs; those of which a worker, and a version, is known
	values                   map[value]int
}

func newShares(mask Mask, versions map[string]string) *shares {
	return &shares{mask: mask, versions: versions, values: make(map[value]int)}
}

// could is how many jobs could have a value of this kind.
func (s *shares) could(what string) int {
	switch what {
	case "worker":
		return s.workers
	case "version":
		return s.versioned
	}
	return s.jobs
}

func (s *shares) failure(f inspect.Failure) {
	host, _, _ := strings.Cut(f.Worker, ":")
	pid, _, _ := strings.Cut(strings.TrimPrefix(f.Worker, host+":"), "-")
	pid, _, _ = strings.Cut(pid, ":")
	version := s.versions[strings.TrimSuffix(host, ".go")+":"+pid]
	s.count(f.Queue, f.Worker, version, f.Payload)
}

func (s *shares) waiting(e inspect.Entry) {
	s.count(e.Queue, e.Process, s.versions[e.Process], e.Payload)
}

// count counts what one job has.
func (s *shares) count(queue, worker, version string, raw json.RawMessage) {
	s.jobs++
	seen := map[value]bool{{"queue", queue}: queue != ""}
	if worker != "" {
		s.workers++
		seen[value{"worker", process(worker)}] = true
	}
	if version != "" {
		s.versioned++
		seen[value{"version", version}] = true
	}
	if p, err := payload.Parse(raw); err == nil {
		class, list := p.Class, p.Args
		inner, _ := args.OpenActiveJob(p.Args)
		if p.Class == args.ActiveJobWrapper && inner.Class != "" {
			class = inner.Class
		}
		if s.mask != nil {
			if p, err = payload.Parse(s.mask(class, raw)); err != nil {
				p = payload.Payload{}
			}
			list = p.Args
			inner, _ = args.OpenActiveJob(p.Args)
		}
		if p.Class == args.ActiveJobWrapper && inner.Class != "" {
			list = inner.Args
		}
		for n, one := range list {
			scalars(seen, fmt.Sprint("arg.", n), one, 0)
		}
		for _, m := range payload.Members(p.Field(httpjob.MetaField)) {
			scalars(seen, "meta."+key(m.Key), m.Value, mostDepth)
		}
	}
	for v, has := range seen {
		if has {
			s.values[v]++
		}
	}
}

// process is the part of a worker's id that its jobs have in common: its host and process, without its queues.
func process(worker string) string {
	if at := strings.LastIndexByte(worker, ':'); at > 0 && strings.Count(worker, ":") > 1 {
		return worker[:at]
	}
	return worker
}

// scalars adds the texts, numbers and words in a value, with their paths as a search writes them.
func scalars(to map[value]bool, path string, raw json.RawMessage, depth int) {
	if len(raw) == 0 || len(to) >= mostValues {
		return
	}
	switch raw[0] {
	case '{':
		for _, m := range payload.Members(raw) {
			if depth < mostDepth {
				scalars(to, path+"."+key(m.Key), m.Value, depth+1)
			}
		}
	case '[':
		for n, one := range payload.Elements(raw) {
			if depth < mostDepth && n < mostValues {
				scalars(to, fmt.Sprint(path, ".", n), one, depth+1)
			}
		}
	case '"':
		if text := payload.StringValue(raw); len(text) <= mostValue {
			to[value{path, text}] = true
		}
	default:
		if len(raw) <= mostValue {
			to[value{path, string(raw)}] = true
		}
	}
}

// key is the name of a member as a search writes it.
func key(quoted []byte) string {
	name := payload.StringValue(quoted)
	if strings.ContainsAny(name, ".: \"\\") || name == "" {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
	}
	return name
}
