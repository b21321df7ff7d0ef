package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/daemontest"
)

// The tests of this file are one for each defect that lmstfy has, and would fall there.

// serverEnv has the address of a Redis. The test's program then is a server of jobs until it is killed.
const serverEnv = "HTTPAPI_TEST_SERVER"

// 1. A server that is killed while consumers take jobs loses none.
func TestKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	ctx := t.Context()
	const jobs, consumers = 1920, 16
	missing := make(map[string]bool)
	for range jobs / 64 {
		ids, err := c.bulk(ctx, "mail", make([]any, 64), 0, 5, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			missing[id] = true
		}
	}
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverEnv+"="+s.redis.URI())
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	victim := *c
	victim.url = strings.TrimSpace(url)
	var mu sync.Mutex
	var wg sync.WaitGroup
	killed, ends := false, time.Now().Add(2*time.Minute)
	for range consumers {
		wg.Go(func() {
			for over := false; !over && time.Now().Before(ends); {
				j, _ := victim.consume(ctx, 1, 0, "mail")
				mu.Lock()
				if j != nil {
					delete(missing, j.ID)
				}
				if len(missing) <= jobs/2 && !killed {
					killed = true
					_ = server.Process.Kill()
				}
				over = killed
				mu.Unlock()
				if j != nil {
					_ = victim.ack(ctx, "mail", j.ID) // on a busy machine the lease may be over
				}
			}
		})
	}
	wg.Wait()
	_ = server.Wait()
	if !killed {
		t.Fatal("the server was not killed while it worked")
	}
	redisEventually(t, "all jobs come", func() bool {
		got, err := c.batch(ctx, 100, 60, 0, "mail")
		for _, j := range got {
			delete(missing, j.ID)
			err = c.ack(ctx, "mail", j.ID)
		}
		if err != nil {
			t.Error(err)
		}
		return len(missing) == 0
	})
	redisEventually(t, "no job is left", func() bool {
		got, err := c.batch(ctx, 100, 60, 0, "mail")
		for _, j := range got { // the acknowledgement was not heard
			err = c.ack(ctx, "mail", j.ID)
		}
		return err == nil && s.redis.Int(t, "ZCARD", "resque:go:leases") == 0
	})
	if dead, _, err := c.deadLetter(ctx, "mail"); dead != 0 || err != nil {
		t.Errorf("%d dead letters, %v", dead, err)
	}
}

// runServer serves jobs until it is killed.
func runServer(uri string) error {
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: uri})
	if err != nil {
		return err
	}
	api, err := httpapi.New(client, httpapi.Settings{Open: true, QuietAccess: true})
	if err != nil {
		return err
	}
	if err := api.Start(context.Background()); err != nil {
		return err
	}
	for !api.Connected() {
		time.Sleep(time.Millisecond)
	}
	return listen(api)
}

// 2. A job does not go to a client that has gone, and loses no try by it.
func TestGoneClientTakesNoJob(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	gone, leave := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		_, _ = c.consume(gone, 60, 300, "mail")
		close(ended)
	}()
	redisEventually(t, "the client waits", func() bool { return s.waiters() == 1 })
	leave()
	<-ended
	redisEventually(t, "the client has gone", func() bool { return s.waiters() == 0 })
	id, err := c.publish(t.Context(), oldPublish{queue: "mail", data: []byte("x"), tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	if j, err := c.consume(t.Context(), 60, 30, "mail"); err != nil || j == nil || j.ID != id {
		t.Errorf("the next client got %+v, %v", j, err)
	}
}

// 3. A job that is expired or acknowledged does not hide those behind it.
func TestExpiredHeadHidesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	ctx := t.Context()
	publish := func(queue string, ttl int) string {
		id, err := c.publish(ctx, oldPublish{queue: queue, data: []byte("x"), ttl: ttl, tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	var behind []string
	for _, queue := range []string{"one", "many"} {
		for range 3 {
			publish(queue, 1)
		}
		if err := c.ack(ctx, queue, publish(queue, 60)); err != nil {
			t.Fatal(err)
		}
		behind = append(behind, publish(queue, 60))
		publish(queue, 1)
	}
	behind = append(behind, publish("many", 60))
	over := time.Now().Add(1100 * time.Millisecond)
	redisEventually(t, "the heads expire", func() bool {
		j, err := c.peek(ctx, "many", "peek")
		return err == nil && j.ID == behind[1] && time.Now().After(over)
	})
	j, err := c.consume(ctx, 60, 0, "one")
	if err != nil || j == nil || j.ID != behind[0] {
		t.Errorf("behind the expired head is %+v, %v", j, err)
	}
	jobs, err := c.batch(ctx, 10, 60, 0, "many")
	if err != nil || len(jobs) != 2 || jobs[0].ID != behind[1] || jobs[1].ID != behind[2] {
		t.Errorf("behind the expired head are %d jobs, %v", len(jobs), err)
	}
}

// 4. A call that does not wait returns, also if jobs expire while it runs.
func TestNoTimeoutNeverWaits(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // lmstfy's call takes 136 years
	defer cancel()
	ends := time.Now().Add(2200 * time.Millisecond) // two seconds begin meanwhile
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			queue := "q" + strconv.Itoa(n)
			for calls := 0; time.Now().Before(ends); calls++ {
				if calls%50 == 0 {
					if _, err := c.publish(ctx, oldPublish{queue: queue, data: []byte("x"), ttl: 1, tries: 1}); err != nil {
						t.Error(err)
						return
					}
					continue
				}
				if _, err := c.consume(ctx, 1, 0, queue); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// 5. A republish that is refused has changed nothing, and one that is not changes all at once.
func TestRepublishIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	ctx := t.Context()
	id, err := c.publish(ctx, oldPublish{queue: "mail", data: []byte("old"), tries: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.consume(ctx, 600, 0, "mail"); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []oldPublish{{tries: 0}, {tries: 1, ttl: 1, delay: 2}, {tries: 1, data: make([]byte, 2<<20)}} {
		wrong.queue, wrong.instead = "mail", id
		if _, err := c.publish(ctx, wrong); err == nil {
			t.Errorf("%d tries, TTL %d, delay %d: there is no error", wrong.tries, wrong.ttl, wrong.delay)
		}
		if leases := s.redis.List(t, "ZRANGE", "resque:go:leases", 0, -1); len(leases) != 1 || !strings.HasSuffix(leases[0], id) {
			t.Fatalf("the leases are %v", leases)
		}
	}
	fresh, err := c.publish(ctx, oldPublish{queue: "mail", instead: id, data: []byte("new"), tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.redis.Int(t, "ZCARD", "resque:go:leases"); n != 0 {
		t.Errorf("%d leases are left", n)
	}
	if j, err := c.consume(ctx, 60, 0, "mail"); err != nil || j == nil || j.ID != fresh {
		t.Errorf("the new job is %+v, %v", j, err)
	}
}

// 6. Each token has the limit that it was given, also after it has changed.
func TestEachTokenHasItsLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	limits := []int64{2, 5, 0}
	clients := make([]*oldClient, len(limits))
	for i, most := range limits {
		token := httpapi.Token{Namespace: "shop"}
		if most > 0 {
			token.Limits = &httpapi.Limits{Write: most, Interval: time.Hour}
		}
		clients[i] = &oldClient{url: s.url, namespace: "shop", token: s.newToken(t, token), http: s.client}
	}
	for i, most := range limits {
		done := int64(0)
		for range 10 {
			_, err := clients[i].publish(t.Context(), oldPublish{queue: "mail", data: []byte("x"), tries: 1})
			var refused *oldError
			switch {
			case err == nil:
				done++
			case !errors.As(err, &refused) || refused.status != http.StatusTooManyRequests:
				t.Fatal(err)
			}
			// What is refused for another reason costs nothing.
			if _, err := clients[i].publish(t.Context(), oldPublish{queue: "mail", tries: 0}); err == nil {
				t.Fatal("a publish without tries was taken")
			}
		}
		if want := most; done != want && (want > 0 || done != 10) {
			t.Errorf("the token with the limit %d published %d times", most, done)
		}
	}
}

// 7. What was acknowledged leaves nothing behind in Redis.
func TestAcknowledgedLeavesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	ctx := t.Context()
	for range 100 {
		if _, err := c.bulk(ctx, "mail", []any{1, 2, 3}, 86400, 3, 0); err != nil {
			t.Fatal(err)
		}
		jobs, err := c.batch(ctx, 3, 600, 0, "mail")
		if err != nil || len(jobs) != 3 {
			t.Fatal(jobs, err)
		}
		for _, j := range jobs {
			if err := c.ack(ctx, "mail", j.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, key := range s.redis.Keys(t) {
		switch kind := s.redis.Text(t, "TYPE", key); {
		case strings.HasPrefix(key, "resque:go:served:"), strings.HasPrefix(key, "resque:go:taker"), key == "resque:go:taken", daemontest.OfHistory(strings.TrimPrefix(key, "resque:")), key == "resque:queues",
			key == "resque:go:http:tokens", strings.HasPrefix(key, "resque:stat:"):
		default:
			t.Errorf("%s, a %s, is left", key, kind)
		}
	}
	if got := s.redis.Int(t, "GET", "resque:stat:processed"); got != 300 {
		t.Errorf("%d jobs were processed", got)
	}
}

// 8. A stop does not wait for clients that wait.
func TestStopEndsWaits(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	const clients = 20
	got := make(chan error, clients)
	for range clients {
		go func() {
			j, err := c.consume(t.Context(), 60, 599, "mail")
			if j != nil {
				err = fmt.Errorf("there is the job %s", j.ID)
			}
			got <- err
		}()
	}
	redisEventually(t, "the clients wait", func() bool { return s.waiters() == clients })
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := s.api.Stop(ctx); err != nil || ctx.Err() != nil {
		t.Error(err, ctx.Err())
	}
	for range clients {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}

// 9. A time to run is at least a second and at most twelve hours. See also differs.txt.
func TestTTRIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	if _, err := c.publish(t.Context(), oldPublish{queue: "mail", data: []byte("x"), tries: 1}); err != nil {
		t.Fatal(err)
	}
	for _, ttr := range []int{0, 43201, 4294967295} {
		if _, err := c.consume(t.Context(), ttr, 0, "mail"); err == nil || err.Error() != "400: invalid ttr" {
			t.Errorf("ttr=%d: %v", ttr, err)
		}
	}
	if size, err := c.size(t.Context(), "mail"); size != 1 || err != nil {
		t.Errorf("%d jobs are ready, %v", size, err)
	}
}

// 10. What is respawned has its body, and what a consumer had of a destroyed queue does not come again.
func TestRespawnHasBodiesAndDestroyIsFinal(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	ctx := t.Context()
	for _, queue := range []string{"dead", "gone"} {
		if _, err := c.publish(ctx, oldPublish{queue: queue, data: []byte("body of " + queue), ttl: 30, tries: len(queue) - 3}); err != nil {
			t.Fatal(err)
		}
		if j, err := c.consume(ctx, 1, 0, queue); j == nil || err != nil {
			t.Fatal(j, err)
		}
	}
	if err := c.do(ctx, http.MethodDelete, "/gone", nil, nil, nil, http.StatusNoContent, nil); err != nil {
		t.Fatal(err)
	}
	if n := s.redis.Int(t, "ZCARD", "resque:go:leases"); n > 1 {
		t.Errorf("%d leases are left", n)
	}
	redisEventually(t, "the job dies", func() bool {
		size, _, err := c.deadLetter(ctx, "dead")
		return size == 1 && err == nil
	})
	if n, err := c.respawn(ctx, "dead", 5, 60); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if j, err := c.consume(ctx, 60, 0, "dead"); err != nil || j == nil || string(j.Data) != "body of dead" || j.TTL <= 30 || j.TTL > 60 {
		t.Errorf("the respawned job is %+v, %v", j, err)
	}
	if j, err := c.consume(ctx, 60, 0, "gone"); err != nil || j != nil {
		t.Errorf("of the destroyed queue came %+v, %v", j, err)
	}
}

// 11. Jobs come in the order of their publishing, and of the queues in a call, also after an answer that did not reach
// its client.
func TestOrder(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	ctx := t.Context()
	var want []string
	for _, queue := range []string{"low", "high", "middle"} {
		ids, err := c.bulk(ctx, queue, []any{1, 2, 3}, 0, 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, ids...)
	}
	want = slices.Concat(want[3:6], want[6:9], want[0:3])
	r := httptest.NewRequest(http.MethodGet, "/api/shop/high,middle,low?count=4", nil)
	r.Header.Set("X-Token", c.token)
	s.api.ServeHTTP(deafWriter{httptest.NewRecorder()}, r)
	redisEventually(t, "the jobs are back", func() bool { return s.redis.Int(t, "ZCARD", "resque:go:leases") == 0 })
	var got []string
	for range 2 {
		jobs, err := c.batch(ctx, 4, 60, 0, "high", "middle", "low")
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			got = append(got, j.ID)
		}
	}
	j, err := c.consume(ctx, 60, 0, "high", "middle", "low")
	if err != nil || j == nil {
		t.Fatal(j, err)
	}
	if got = append(got, j.ID); !slices.Equal(got, want) {
		t.Errorf("the jobs came as %v, want %v", got, want)
	}
}

// 12. A token that is revoked is refused by each server within a second, and requests that wait with it end. Nothing is
// answered without a token but a refusal.
func TestRevocationReachesAllServers(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	other := s.another(t, httpapi.Settings{})
	made, err := httpapi.NewTokens(s.jobs, "").Create(t.Context(), httpapi.Token{Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	known(t, made, s.api, other.api)
	clients := make([]*oldClient, 2)
	waits := make(chan error, 2)
	for i, at := range []*site{s, other} {
		clients[i] = &oldClient{url: at.url, namespace: "shop", token: made.Token, http: at.client}
		if _, err := clients[i].size(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := clients[i].consume(t.Context(), 60, 300, "mail")
			waits <- err
		}()
		redisEventually(t, "a client waits", func() bool { return at.waiters() == 1 })
	}
	if err := httpapi.NewTokens(s.jobs, "").Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	const refused = "401: invalid token"
	for i, c := range clients {
		redisEventually(t, "the token is refused", func() bool {
			_, err := c.size(t.Context(), "mail")
			return err != nil && err.Error() == refused
		})
		if err := <-waits; err == nil || err.Error() != refused {
			t.Errorf("the wait at server %d or the other one ended with %v", i, err)
		}
		c.token = ""
		for _, path := range []string{"mail", "mail/deadletter"} {
			if _, err := c.size(t.Context(), path); err == nil || err.Error() != "401: token not found" {
				t.Errorf("the size of %s without a token: %v", path, err)
			}
		}
	}
}

// 13. Clients that wait hold no connections to Redis, and keep no publish from its work.
func TestWaitersHoldNoConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	const clients = 300
	got := make(chan string, clients)
	for n := range clients {
		go func() {
			j, err := c.consume(t.Context(), 60, 300, "q"+strconv.Itoa(n%7), "mail")
			if err != nil || j == nil {
				got <- fmt.Sprint(err)
				return
			}
			got <- j.ID
		}()
	}
	redisEventually(t, "the clients wait", func() bool {
		select {
		case id := <-got:
			t.Fatalf("a client got %s", id)
		default:
		}
		return s.waiters() == clients
	})
	connections := strings.Count(s.redis.Text(t, "CLIENT", "LIST"), "\n")
	if connections > 12 {
		t.Errorf("there are %d connections", connections)
	}
	want := make(map[string]bool)
	for len(want) < clients {
		ids, err := c.bulk(t.Context(), "mail", make([]any, 60), 0, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			want[id] = true
		}
	}
	for range clients {
		id := <-got
		if !want[id] {
			t.Fatalf("a client got %s", id)
		}
		delete(want, id)
	}
}
