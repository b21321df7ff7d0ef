package scale

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/internal/redistest"
)

// What the dashboard is tested on: the size of the largest fleet that it is promised for.
const (
	crowdWorkers   = 5_000 // of Ruby, and as many of goworker
	crowdQueues    = 500
	crowdJobs      = 1_000_000
	crowdFailures  = 100_000
	crowdProcesses = 500
	crowdLeases    = 200
)

// large is such a fleet.
func large(t testing.TB) *redistest.Server {
	t.Helper()
	server := fleet(t, crowdWorkers, crowdQueues, crowdJobs)
	goworkers(t, server, crowdProcesses, crowdWorkers/crowdProcesses, crowdFailures, crowdLeases, 1000)
	server.Do(t, "EVAL", `
		for n = 1, 3000 do
			local second = ARGV[1] + n * 60
			redis.call('ZADD', 'resque:delayed_queue_schedule', second, second)
			redis.call('RPUSH', 'resque:delayed:' .. second, '{"class":"Later","args":[' .. n .. '],"queue":"mail"}', '{"class":"Later","args":[],"queue":"q7"}')
		end
		for n = 1, 1000 do
			redis.call('HSET', 'resque:go:result:kept' .. n, 'state', 'done', 'class', 'SendMail', 'queue', 'mail', 'attempt', 1, 'ended', (ARGV[1] - n) * 1000,
				'result', '{"sent":' .. n .. '}')
		end
		for n = 1, 100 do redis.call('HSET', 'resque:persistent_schedules', 'every' .. n, '{"class":"Report","args":[],"queue":"mail","cron":"*/5 * * * *"}') end
		for n = 1, 500 do
			redis.call('LSET', 'resque:failed', -n, '{"failed_at":"2026/11/21 12:00:00 UTC","payload":{"class":"Report","args":[' .. n .. ']},"exception":"E","error":"no","backtrace":[],"worker":"w","queue":"q7"}')
		end`, 0, time.Now().Unix())
	return server
}

// opened is a dashboard of a fleet.
func opened(t testing.TB, server *redistest.Server) (url string) {
	t.Helper()
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s, err := dashboard.New(client, dashboard.Options{Logger: slog.New(slog.DiscardHandler), User: func(r *http.Request) (dashboard.User, error) {
		return dashboard.User{Name: r.URL.Query().Get("user") + "ops", Role: dashboard.Admin}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	began := time.Now()
	redistest.Eventually(t, time.Minute, "the failures are grouped", func() bool {
		body, _ := got(t, web.URL+"/api/v1")
		return strings.Contains(body, fmt.Sprintf(`"grouped":%d,`, crowdFailures))
	})
	t.Logf("%d failures are grouped %.1f s after the first look", crowdFailures, time.Since(began).Seconds())
	return web.URL
}

func got(t testing.TB, url string) (body string, status int) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), res.StatusCode
}

// pagesOf are the pages that are measured: each kind once.
func pagesOf(t testing.TB, base string) []string {
	t.Helper()
	first := func(page, field string) string {
		body, _ := got(t, base+"/api/v1"+page)
		_, rest, found := strings.Cut(body, `"`+field+`":"`)
		value, _, _ := strings.Cut(rest, `"`)
		if !found {
			t.Fatalf("%s has no %s: %.500s", page, field, body)
		}
		return value
	}
	return []string{
		"/", "/notices", "/history", "/queues", "/queues?sort=size", "/queues/q7", "/queues/q7?in=failed", "/queues/q7?in=delayed", "/queues/q7?in=running", "/queues/q7?q=args:[7]",
		"/running", "/running?sort=new", "/failures", "/failures?by=each", "/failures?by=each&q=class:SendMail", "/failures/groups/" + first("/failures", "id"),
		"/failures/" + first("/failures?by=each", "id"), "/jobs", "/jobs/kept7", "/delayed", "/delayed?q=class:Later", "/schedule", "/schedule/every7", "/workflows", "/classes", "/classes/SendMail", "/limits", "/limits?v=turns", "/limits?v=locks", "/limits?v=groups", "/processes", "/processes?by=worker",
		"/processes?by=queue", "/processes/web7:7:xxxxxxxx", "/events", "/http", "/redis", "/redis/keys", "/redis/slow", "/operations", "/bin", "/audit",
		"/search?q=class:SendMail", "/jobs/nosuch",
	}
}

// What a page may ask Redis beside the sample that all share: at its first sight, and again.
const (
	firstCommands = 60
	ownCommands   = 34
)

// searches are pages whose first sight costs more: the first one looks at jobs until its time is over, each time; the second does so once a
// minute; and the third reads the record of each process once in five minutes.
var searches = []string{"/jobs/nosuch", "/jobs/kept7", "/classes/SendMail"}

// Every page stays within its budget on a large fleet: what it asks Redis beside the sample that all share, and how long its HTML is.
func TestDashboardPages(t *testing.T) {
	t.Parallel()
	server := large(t)
	base := opened(t, server)
	monitor := server.Monitor(t)
	see := func(page string, most int) (sent int, body string) {
		t.Helper()
		var commands [][]string
		var status int
		for range 5 { // on a busy machine the sample may be too old meanwhile, and be taken again beside the page
			got(t, base+"/queues") // the sample is taken
			from := len(monitor.Commands())
			body, status = got(t, base+page)
			commands = monitor.Commands()[from:]
			if most == firstCommands || !slices.ContainsFunc(commands, func(c []string) bool { return c[0] == "INFO" }) {
				break
			}
		}
		if status != http.StatusOK && !strings.Contains(page, "nosuch") {
			t.Errorf("%s: %d", page, status)
		}
		if len(commands) > most && (most == ownCommands && page != searches[0] || !slices.Contains(searches, page)) {
			names := make(map[string]int)
			for _, c := range commands {
				names[strings.Join(c[:min(2, len(c))], " ")]++
			}
			t.Errorf("%s sends %d commands, more than %d: %v", page, len(commands), most, names)
		}
		return len(commands), body
	}
	pages := pagesOf(t, base)
	redistest.Eventually(t, time.Minute, "the checks have looked, which they do beside the page", func() bool {
		body, _ := got(t, base+"/api/v1/redis")
		return strings.Contains(body, `"checking":false`)
	})
	for _, page := range pages {
		first, _ := see(page, firstCommands)
		again, body := see(page, ownCommands)
		var packed strings.Builder
		z := gzip.NewWriter(&packed)
		_, _ = io.WriteString(z, body)
		_ = z.Close()
		t.Logf("%-40s %2d commands, again %2d, %4d KiB of HTML, %3d KiB compressed", page, first, again, len(body)>>10, packed.Len()>>10)
		if len(body) > 256<<10 {
			t.Errorf("%s has %d KiB of HTML", page, len(body)>>10)
		}
	}
}

// tabs opens streams of pages, counts what the dashboard sends meanwhile, and returns how many commands a second these are, and how many for
// each sample: on a busy machine samples are rarer.
func tabs(t *testing.T, base string, monitor *redistest.Monitor, pages []string, d time.Duration) (second, sample float64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ready, over sync.WaitGroup
	for n, page := range pages {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/live?user=%d&page=%s", base, n/10, url.QueryEscape(page)), nil)
		if err != nil {
			t.Fatal(err)
		}
		ready.Add(1)
		over.Go(func() {
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				ready.Done()
				t.Error(page, err)
				return
			}
			defer res.Body.Close()
			lines := bufio.NewScanner(res.Body)
			lines.Buffer(nil, 1<<20)
			first := true
			for lines.Scan() {
				if first && strings.HasPrefix(lines.Text(), "event: region") {
					ready.Done()
					first = false
				}
			}
			if first {
				ready.Done()
			}
		})
	}
	ready.Wait()
	from, began := len(monitor.Commands()), time.Now()
	time.Sleep(d) // the span that is measured
	sent, took := monitor.Commands()[from:], time.Since(began).Seconds()
	cancel()
	over.Wait()
	samples := 0
	for _, c := range sent {
		if c[0] == "INFO" {
			samples++
		}
	}
	return float64(len(sent)) / took, float64(len(sent)) / float64(max(1, samples))
}

// One tab costs Redis at most 25 commands a second; two hundred on one page what one costs, and two hundred on two hundred pages at most
// four times that.
func TestDashboardTabs(t *testing.T) {
	t.Parallel()
	server := large(t)
	base := opened(t, server)
	monitor := server.Monitor(t)
	const span = 8 * time.Second
	for _, page := range []string{"/", "/queues"} {
		one, _ := tabs(t, base, monitor, []string{page}, span)
		t.Logf("one tab on %-12s %5.1f commands a second", page, one)
		if one > 25 {
			t.Errorf("one tab on %s costs %.1f commands a second", page, one)
		}
	}
	same, each := tabs(t, base, monitor, slices.Repeat([]string{"/"}, 200), span)
	alone, one := tabs(t, base, monitor, []string{"/"}, span)
	t.Logf("200 tabs on one page %5.1f commands a second and %.1f a sample, one tab %.1f and %.1f", same, each, alone, one)
	if same > 25 || each > 1.5*one+5 {
		t.Errorf("200 tabs on one page cost %.1f commands a second and %.1f a sample, and one tab %.1f and %.1f", same, each, alone, one)
	}
	var different []string
	for n := range 200 {
		different = append(different, fmt.Sprintf("/queues/q%d", n))
	}
	many, _ := tabs(t, base, monitor, different, 2*span)
	t.Logf("200 tabs on 200 pages %5.1f commands a second", many)
	if many > 100 {
		t.Errorf("200 tabs on 200 pages cost %.1f commands a second", many)
	}
}

// BenchmarkPages gets each kind of page of a large fleet by turns, and reports the median and the time within which 95 of a hundred are: of all
// pages, and of the slowest kind.
func BenchmarkPages(b *testing.B) {
	base := opened(b, large(b))
	took := make(map[string][]time.Duration)
	var all []time.Duration
	pages := pagesOf(b, base)
	for _, page := range pages {
		got(b, base+page)
	}
	for b.Loop() {
		for _, page := range pages {
			began := time.Now()
			got(b, base+page)
			d := time.Since(began)
			took[page], all = append(took[page], d), append(all, d)
		}
	}
	slices.Sort(all)
	b.ReportMetric(ms(all, 50), "page-p50-ms")
	b.ReportMetric(ms(all, 95), "page-p95-ms")
	slowest := ""
	for page, d := range took {
		slices.Sort(d)
		if slowest == "" || ms(d, 95) > ms(took[slowest], 95) {
			slowest = page
		}
		b.Logf("%-40s p50 %6.1f ms, p95 %6.1f ms", page, ms(d, 50), ms(d, 95))
	}
	b.ReportMetric(ms(took[slowest], 95), "slowest-p95-ms")
}
