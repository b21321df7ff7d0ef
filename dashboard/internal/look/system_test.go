package look

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"html/template"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
)

// A page with every component in every state is written to this directory, beside the assets, to be looked at in a
// browser.
var writeTo = flag.String("write", "", "a directory for the page of all components")

var testNow = time.Date(2026, 10, 14, 14, 32, 7, 0, time.FixedZone("CEST", 2*3600))

type job struct {
	Class, State, Args string
	Waits              inspect.Age
	Trend              []float64
}

func wave(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 170 + 20*math.Sin(float64(i)/5) + float64(i*7919%13)
	}
	return v
}

func fixture() map[string]any {
	inf, nan := math.Inf(1), math.NaN()
	many := wave(10000)
	for i := 3000; i < 4000; i++ {
		many[i] = nan
	}
	failed := make([]float64, 60)
	for i := range failed {
		failed[i] = float64(i * i / 9)
	}
	bars := make([]Bar, 96)
	rows := make([][]int64, 12)
	for i := range bars {
		bars[i] = Bar{N: float64(i * i % 97), Class: "f", Title: Plural(i*i%97, "failure", "failures"), Href: "?since=1"}
	}
	for y := range rows {
		rows[y] = make([]int64, 48)
		for x := range rows[y] {
			rows[y][x] = int64(max(0, 40-(y-6)*(y-6)*3-x%7))
		}
	}
	at := func(minutes int) time.Time { return testNow.Add(time.Duration(minutes) * time.Minute) }
	every := func(step int) (all []time.Time) {
		for m := step; m < 1440; m += step {
			all = append(all, at(m))
		}
		return all
	}
	steps := []Step{{Name: "FetchCatalog", State: "done", Sub: "1.9 s", Href: "/jobs/1"}, {Name: "SplitCatalog", State: "done"},
		{Name: "ResizeImage", State: "running", Count: 500, Done: 480, Href: "/jobs/2"}, {Name: "ImportPrices", State: "failed", Count: 40, Done: 38, Failed: 2},
		{Name: "IndexCatalog", State: "waiting", Sub: "waits for 2 groups"}, {Name: "Notify <shop>", State: "waiting"}, {Name: "A step with a very long name indeed", State: "odd", Href: "javascript:alert(1)"}}
	edges := []Edge{{0, 1}, {1, 2}, {1, 3}, {2, 4}, {3, 4}, {4, 5}, {4, 6}, {0, 6}, {99, -1}}
	for range 12 {
		steps = append(steps, Step{Name: "Translate", State: "done"})
		edges = append(edges, Edge{1, len(steps) - 1}, Edge{len(steps) - 1, 4})
	}
	return map[string]any{
		"Theme": "", "Away": false, "Open": false, "T": Times{Now: testNow, Loc: testNow.Location()},
		"Before": at(-125), "Later": at(7), "Zero": time.Time{}, "Took": 6 * time.Millisecond,
		"AtLeast": inspect.Count{N: 1204, Bound: inspect.AtLeast}, "Rate": inspect.Rate{PerSecond: .02, Bound: inspect.Exact},
		"Series": Series{Label: "Jobs done a second", Start: at(-59), Step: time.Minute, Values: wave(60), Second: wave(60)[20:], Below: failed,
			Name: "done", Unit: "/s", SecondName: "usual", SecondUnit: "/s", BelowName: "failed", BelowUnit: "", Marks: []Mark{{at(-14), "4f2c9e1 deployed"}, {at(-13), "hidden </text>"}, {at(-900), "long ago"}}},
		"SeriesNone": Series{Label: "Nothing", Start: at(-59), Step: time.Minute},
		"SeriesOne":  Series{Label: "One value", Start: at(-59), Step: time.Minute, Values: []float64{4}, Below: []float64{1}},
		"SeriesMany": Series{Label: "Many values", Start: at(-10000), Step: time.Minute, Values: many, Class: "warn"},
		"Columns":    Columns{Label: "Failures each quarter of an hour", Bars: bars, From: at(-1440), To: testNow},
		"Heat":       Heat{Label: "Run times in the last day", Rows: rows, Names: []string{"1 min", "", "", "15 s", "", "", "4 s", "", "", "1 s", "", "250 ms"}, From: at(-1440), To: testNow, Marks: []Mark{{at(-300), "4f2c9e1 deployed"}}},
		"Gantt":      Gantt{Label: "It waited, ran, was delayed and ran again", From: at(-10), To: testNow, Spans: []Span{{at(-10), at(-9), "w", "waited 1 min"}, {at(-9), at(-7), "f", "ran 2 min, failed"}, {at(-7), at(-2), "l", "delayed"}, {at(-2), testNow, "", "runs"}}},
		"Sparks":     [][]float64{wave(40), nil, {3}, {1, nan, inf, -4, 2}, {0, 0, 0}, many},
		"Run":        Run{For: 4 * time.Minute, Usual: 3 * time.Minute, Limit: 10 * time.Minute}, "RunLate": Run{For: time.Hour, Usual: time.Minute, Limit: 10 * time.Minute},
		"Slots": Slots{Total: 25, Busy: 14, Late: 2, Stuck: 1}, "SlotsMany": Slots{Total: 2000, Busy: 1400, Late: 200, Stuck: 100},
		"Day":   Day{Label: "When each schedule fires", From: testNow, To: at(1440), Rows: []Ticks{{"heartbeat_check", every(1), ""}, {"sweep_carts", every(10), "y"}, {"rates", every(30), ""}, {"sync_inventory", every(120), "f"}, {"dunning of a very long name <b>", []time.Time{at(207)}, ""}}},
		"Graph": Graph{Label: "Workflow catalog-4411", Steps: steps, Edges: edges},
		"Jobs": []job{{"DeliverWebhook", "waiting", `{"endpoint": 771, "url": "https://hooks.acme.example/in/771?attempt=12&signature=8f21ac7e"}`, inspect.Age{For: 252 * time.Second, Method: inspect.AgeExact}, wave(60)},
			{"SyncInventory", "retrying", `"s3://media/in/8f21.mov"`, inspect.Age{For: 14 * time.Minute, Method: inspect.AgeSeen}, nil},
			{"<script>alert(1)</script>", "no such state", "\x00\x1b[31m\u202egnp.exe \xff", inspect.Age{}, []float64{nan}}},
		"States": slices.Sorted(maps.Keys(states)), "Icons": slices.Sorted(maps.Keys(shapes)),
		"JSON":  `{"order":9007199254740993,"card":"••••","user":{"name":"Ada <ada@example.com>","tags":["a",true,null,1.5e-9]}}`,
		"Trace": "app/jobs/charge_card.rb:31:in `perform'\n/usr/local/bundle/gems/stripe-12.1.0/lib/stripe.rb:88:in `request'\n/usr/local/lib/ruby/3.3.0/net/protocol.rb:229:in `rbuf_fill'\nmain.charge(0xc0001)\n\t/srv/app/charge.go:88 +0x1d\ngithub.com/aws/aws-sdk-go/service.Do()\n\t/go/pkg/mod/github.com/aws/aws-sdk-go@v1/service.go:12",
	}
}

func page(t *testing.T, change func(map[string]any)) []byte {
	t.Helper()
	tmpl, err := template.New("system.tmpl").Funcs(Funcs()).ParseFiles("testdata/system.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	data := fixture()
	change(data)
	var b bytes.Buffer
	if err := tmpl.Execute(&b, data); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSystemPage(t *testing.T) {
	t.Parallel()
	text := page(t, func(map[string]any) {})
	if err := wellFormed(text); err != nil {
		t.Error(err)
	}
	for _, never := range []string{`(?i)<[^>]*\sstyle=`, `<script>`, `NaN`, `Inf\b`, `javascript:`, Unnamed, `%!`, `ZgotmplZ`, "\x00", "\u202e"} {
		if found := regexp.MustCompile(never).FindIndex(text); found != nil {
			t.Errorf("the page has %q in %q", never, text[max(0, found[0]-80):min(len(text), found[1]+80)])
		}
	}
	if !bytes.Contains(text, []byte("9007199254740993")) {
		t.Error("a large number was changed")
	}
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllSubmatch(text, -1) {
		if ids[string(id[1])] {
			t.Errorf("the id %s is there twice", id[1])
		}
		ids[string(id[1])] = true
	}
	if *writeTo == "" {
		return
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(*writeTo, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name := range assetTypes {
		raw, err := files.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		write(name, raw)
	}
	for _, theme := range []string{"light", "dark"} {
		write("system-"+theme+".html", page(t, func(d map[string]any) { d["Theme"] = theme }))
	}
	write("system-away.html", page(t, func(d map[string]any) { d["Away"] = true; d["Open"] = true }))
}

// wellFormed reads HTML whose elements all end, as the decoder of XML can: void elements and attributes without a
// value aside.
func wellFormed(text []byte) error {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Strict = false
	d.AutoClose = []string{"meta", "link", "input", "br", "hr", "img"}
	d.Entity = xml.HTMLEntity
	var open []string
	for {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			if len(open) > 0 {
				return errors.New("not closed: " + strings.Join(open, " "))
			}
			return nil
		case err != nil:
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			open = append(open, token.Name.Local)
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1] != token.Name.Local {
				return errors.New(token.Name.Local + " ends within " + strings.Join(open, " "))
			}
			open = open[:len(open)-1]
		}
	}
}
