package lmstfy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
	"github.com/goworker/goworker/internal/resque/lmstfywire"
)

// Export publishes delayed jobs to lmstfy and then removes them here. lmstfy gives each a new id. Where the export is killed between
// both, one job is there twice: lmstfy has no way to publish a job once.
type Export struct {
	From  Do
	To    string            // lmstfy's address: http://host:7777
	Token map[string]string // by namespace

	// Queue returns lmstfy's name of a queue and the class of its jobs. It reports false for a queue that is not to be moved.
	Queue func(name string) (q lmstfywire.Queue, class string, ok bool)

	Client *http.Client // nil: one with a timeout
}

// Published counts what an export did.
type Published struct {
	Jobs int            // that are in lmstfy now
	Left map[string]int // why jobs stay, and how many
}

func (p *Published) leave(why string) {
	if p.Left == nil {
		p.Left = make(map[string]int)
	}
	p.Left[why]++
}

// Jobs that are due sooner stay: a pump may take them at any moment.
const soonest = 10 * time.Second

const exportPage = 200

// Run publishes all delayed jobs that lmstfy can have. With an error it says how many were published before; run it again to go on.
func (x *Export) Run(ctx context.Context) (p Published, err error) {
	if x.Client == nil {
		x.Client = &http.Client{Timeout: 30 * time.Second}
	}
	client := *x.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // another host would get the token
	x.Client = &client
	var own, plain int64
	err = x.From(ctx, func(s resque.Store, c redis.Conn) (err error) {
		own, plain, err = delayed.New(s).Count(c)
		return err
	})
	if err != nil {
		return p, err
	}
	// Those that are delayed meanwhile stay: To may be this very server.
	for skip := 0; int64(skip+p.Jobs) < own+plain; {
		var page []delayed.Job
		err := x.From(ctx, func(s resque.Store, c redis.Conn) (err error) {
			page, err = delayed.New(s).Page(c, time.Now().Add(soonest), skip, exportPage)
			return err
		})
		if err != nil || len(page) == 0 {
			return p, err
		}
		for _, j := range page {
			request, why := x.request(ctx, j)
			if why != "" {
				p.leave(why)
				skip++
				continue
			}
			refused, err := x.publish(request)
			if err != nil {
				return p, err
			}
			if refused != "" {
				p.leave("lmstfy refused the job: " + refused)
				skip++
				continue
			}
			err = x.From(ctx, func(s resque.Store, c redis.Conn) error {
				_, err := delayed.New(s).Take(c, []delayed.Job{j})
				return err
			})
			if err != nil {
				return p, fmt.Errorf("a job of queue %s is in lmstfy and could not be removed here; remove it before you go on: %w", j.Queue, err)
			}
			p.Jobs++
		}
	}
	return p, nil
}

// foreign are fields of payloads that lmstfy knows nothing of.
var foreign = []string{"unique", "wf", "result", "priority", "timeout_ms"}

// request returns the request that publishes a job, or why lmstfy cannot have it.
func (x *Export) request(ctx context.Context, j delayed.Job) (_ *http.Request, why string) {
	q, class, ok := x.Queue(j.Queue)
	if !ok {
		return nil, "the queue is of no namespace that is exported"
	}
	if j.Err != nil || j.Plain() {
		return nil, "the job was not published over HTTP"
	}
	job, err := payload.Parse(j.Payload)
	if err != nil {
		return nil, "the payload is no job"
	}
	if job.Class != class {
		return nil, "the class is not " + class
	}
	for _, name := range foreign {
		if job.Field(name) != nil {
			return nil, "lmstfy has nothing like the field " + name
		}
	}
	delay := int64(time.Until(j.At)+time.Second-1) / int64(time.Second)
	ttl := int64(0)
	if at := job.ExpiresAt; at > 0 {
		if ttl = (at-time.Now().UnixMilli())/1000 + 1; ttl < delay {
			return nil, "the job expires before it is due"
		}
	}
	tries, attempt := httpjob.Tries(&job)
	query := url.Values{"delay": {text(delay)}, "ttl": {text(ttl)}, "tries": {strconv.Itoa(max(tries-max(attempt, 1)+1, 1))}}
	address := strings.TrimSuffix(x.To, "/") + "/api/" + url.PathEscape(q.Namespace) + "/" + url.PathEscape(q.Name) + "?" + query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, address, strings.NewReader(string(httpjob.Body(job.Args))))
	if err != nil {
		return nil, "its address cannot be written: " + err.Error()
	}
	r.Header.Set("X-Token", x.Token[q.Namespace])
	meta := httpjob.Meta(&job)
	for k, v := range meta {
		if strings.ContainsFunc(k, notInName) || strings.ContainsFunc(v, unicode.IsControl) {
			return nil, "its metadata cannot be written as headers"
		}
		r.Header.Set("Job-Attr-"+k, v)
	}
	if len(meta) > 0 {
		r.Header.Set("Enable-Job-Version", "YES")
	}
	return r, ""
}

// notInName reports whether a character cannot be in the name of a header as every server takes it.
func notInName(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_')
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

// publish sends a request to lmstfy. refused is why lmstfy does not take this job, where it may take another one.
func (x *Export) publish(r *http.Request) (refused string, err error) {
	answer, err := x.Client.Do(r)
	if err != nil {
		return "", fmt.Errorf("lmstfy at %s does not answer: %w", x.To, err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if answer.StatusCode == http.StatusCreated {
		return "", nil
	}
	var says struct{ Msg, Error string }
	_ = json.Unmarshal(body, &says)
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return cmp.Or(says.Error, says.Msg, answer.Status), nil
	}
	return "", fmt.Errorf("lmstfy at %s answered %s to a job of %s: %s", x.To, answer.Status, r.URL.Path, cmp.Or(says.Error, says.Msg))
}
