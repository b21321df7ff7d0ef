package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/control"
)

// drawReport draws the report of a process, with the tree of its parts.
func (o *operator) drawReport(r control.ReportAnswer) string {
	pairs := [][2]string{
		{"process", "up " + spanOf(r.Up) + map[bool]string{true: ", takes jobs", false: ", takes no jobs"}[r.Ready]},
	}
	system := r.System
	if r.Kernel != "" {
		system += ", kernel " + r.Kernel
	}
	processors := fmt.Sprintf("%d, GOMAXPROCS %d", r.CPUs, r.Procs)
	if limit := processorLimit(r.CPUMax); limit != "" {
		processors += ", limit " + limit
	}
	memory := "heap " + view.Bytes(r.Heap)
	if r.Resident > 0 {
		memory = view.Bytes(r.Resident) + ", " + memory
	}
	if n, err := strconv.ParseInt(r.MemoryMax, 10, 64); err == nil {
		memory += ", limit " + view.Bytes(n)
	}
	concurrency := fmt.Sprintf("%s, %s busy", view.Count(int64(r.Workers)), view.Count(int64(r.Busy)))
	if r.Settings != "" && r.Settings != strconv.Itoa(r.Workers) {
		concurrency += " (its settings say " + r.Settings + ")"
	}
	pairs = append(pairs,
		[2]string{"program", r.Go}, [2]string{"system", system}, [2]string{"processors", processors}, [2]string{"memory", memory},
		[2]string{"lease", "renewed " + spanOf(r.Lease) + " ago, round trip " + spanOf(r.RTT)},
		[2]string{"queues", r.Queues + " (" + r.Order + ")"}, [2]string{"concurrency", concurrency},
	)
	for n := range pairs {
		pairs[n][1] = escaped(pairs[n][1])
	}
	return view.Pairs(o.room(), pairs...) + o.drawReasons(r.Reasons) + o.drawParts(r.Parts)
}

// processorLimit converts the kernel's limit into a number of processors; "": there is none.
func processorLimit(limit string) string {
	used, period, _ := strings.Cut(limit, " ")
	n, err := strconv.ParseFloat(used, 64)
	of, bad := strconv.ParseFloat(period, 64)
	if err != nil || bad != nil || of <= 0 {
		return ""
	}
	return strconv.FormatFloat(n/of, 'f', -1, 64)
}

// drawParts draws each part below the one that it requires. Parts without anything to report share a line.
func (o *operator) drawParts(parts []control.PartAnswer) string {
	if len(parts) == 0 {
		return ""
	}
	below := make(map[int][]int) // by the place of the part that they need; those at -1 need none
	for n, p := range parts {
		at := -1
		for m := range n { // the last of those that they need: it started last
			if slices.Contains(p.Requires, parts[m].Name) {
				at = m
			}
		}
		below[at] = append(below[at], n)
	}
	widest := 0
	for _, p := range parts {
		widest = max(widest, view.Width(partState(p)))
	}
	var b strings.Builder
	b.WriteString("parts\n")
	var draw func(at int, indent string)
	draw = func(at int, indent string) {
		quiet := func(n int) bool {
			p := parts[n]
			return len(below[n]) == 0 && p.Info == nil && p.Error == "" && p.Restarts == 0
		}
		all := below[at]
		for len(all) > 0 {
			n := all[0]
			names := parts[n].Name
			if all = all[1:]; quiet(n) {
				for len(all) > 0 && quiet(all[0]) && parts[all[0]].State == parts[n].State {
					names += ", " + parts[all[0]].Name
					all = all[1:]
				}
			}
			state := partState(parts[n])
			head := "  " + state + strings.Repeat(" ", widest-view.Width(state)+2) + indent
			hang := strings.Repeat(" ", view.Width(head)+2)
			text := escaped(names)
			if said := partSays(parts[n]); said != "" {
				text += ": " + said
			}
			if o.width > 0 {
				text = strings.ReplaceAll(view.Wrap(text, max(1, o.room()-view.Width(hang)), ""), "\n", "\n"+hang)
			}
			b.WriteString(head + text + "\n")
			draw(n, indent+"  ")
		}
	}
	draw(-1, "")
	return b.String()
}

// partState is the state of a part, and since when it has it.
func partState(p control.PartAnswer) string { return escaped(p.State) + " " + spanOf(p.For) }

// partSays is the Info of a part, and its last error.
func partSays(p control.PartAnswer) string {
	var says []string
	switch info := p.Info.(type) {
	case nil:
	case string:
		says = append(says, escaped(info))
	default:
		says = append(says, plainValue(info))
	}
	if p.Restarts > 0 {
		says = append(says, view.Plural(int64(p.Restarts), "restart"))
	}
	if p.Error != "" {
		says = append(says, escaped(p.Error))
	}
	return strings.Join(says, "; ")
}
