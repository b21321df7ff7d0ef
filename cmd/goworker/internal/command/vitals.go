package command

import (
	"fmt"
	"strings"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

// vitalsPairs are the vitals of a process for people. A value that it has not reported is "".
func vitalsPairs(p inspect.ProcessInfo) (pairs [][2]string) {
	v := p.Vitals
	if !v.At.IsZero() {
		pairs = [][2]string{
			{"busy", fmt.Sprint(v.Busy)}, {"memory", view.Bytes(v.RSS)}, {"goroutines", view.Count(int64(v.Goroutines))}, {"cpu", view.Span(v.CPU)},
			{"renewal took", view.Span(v.RTT)}, {"last exchange", view.Time(v.LastExchange)}, {"parts down", strings.Join(v.Down, ", ")}, {"said so", view.Time(v.At)},
		}
	}
	if a := v.Autoscale; a.Max > 0 {
		pairs = append(pairs, [2]string{"autoscale", fmt.Sprintf("%d..%d: %s", a.Min, a.Max, a.Reason)})
	}
	for _, b := range p.Bridges {
		text := fmt.Sprintf("%s to %s; %s wait", b.Queue, b.To, view.Count(b.Waiting))
		if b.Waiting > 0 {
			text += ", the oldest for " + view.Age(b.Oldest)
		}
		pairs = append(pairs, [2]string{"bridge", text})
	}
	for _, j := range p.Stuck {
		pairs = append(pairs, [2]string{"stuck", fmt.Sprintf("%s of queue %s for %s; its limit is %s", j.Class, j.Queue, view.Span(j.For), view.Span(j.Limit))})
	}
	return pairs
}

// vitalsObject are the vitals of a process in JSON; null: it reports none.
func vitalsObject(v inspect.Vitals) view.Object {
	if v.At.IsZero() {
		return nil
	}
	object := view.Object{
		{Key: "at", Value: v.At}, {Key: "busy", Value: v.Busy}, {Key: "rss", Value: v.RSS}, {Key: "goroutines", Value: v.Goroutines}, {Key: "cpu", Value: v.CPU},
		{Key: "rtt", Value: v.RTT}, {Key: "last_exchange", Value: v.LastExchange}, {Key: "down", Value: v.Down},
	}
	if v.Autoscale.Max > 0 {
		object = object.With("autoscale", autoscaleObject(v.Autoscale))
	}
	return object
}

// autoscaleObject is the autoscale of a process in JSON.
func autoscaleObject(a inspect.Autoscale) view.Object {
	return view.Object{{Key: "min", Value: a.Min}, {Key: "max", Value: a.Max}, {Key: "reason", Value: a.Reason}}
}

// bridgeObjects are bridges in JSON.
func bridgeObjects(all []inspect.Bridge) []view.Object {
	list := []view.Object{}
	for _, b := range all {
		var oldest any
		if b.Oldest.Known() {
			oldest = b.Oldest.For
		}
		list = append(list, view.Object{
			{Key: "queue", Value: b.Queue}, {Key: "to", Value: b.To}, {Key: "at", Value: b.At}, {Key: "waiting", Value: b.Waiting}, {Key: "taken", Value: b.Taken},
			{Key: "oldest", Value: oldest}, {Key: "method", Value: string(b.Oldest.Method)},
		})
	}
	return list
}

// stuckObjects are stuck jobs in JSON.
func stuckObjects(all []inspect.StuckJob) []view.Object {
	list := []view.Object{}
	for _, j := range all {
		list = append(list, view.Object{
			{Key: "worker", Value: j.Worker}, {Key: "queue", Value: j.Queue}, {Key: "class", Value: j.Class}, {Key: "id", Value: j.ID},
			{Key: "for", Value: j.For}, {Key: "limit", Value: j.Limit},
		})
	}
	return list
}
