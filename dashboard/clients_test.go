package dashboard_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque/leases"
)

const redisGone = time.Minute

// tokens are those that the page lists.
func (d *desk) tokens() (all []token) {
	d.Helper()
	var page struct{ Tokens []token }
	d.Read("/http?v=tokens", "", &page)
	return page.Tokens
}

type token struct {
	ID, Short, Description, Namespace string
	Scopes, Queues                    []string
	Limits                            *struct{ Read, Write, Window int64 }
	Ends                              *time.Time
}

// A new token shows on the page that answers, and nowhere else. It is rotated once, limited and revoked, by an admin.
func TestTokens(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	d := setup(t, func(o *dashboard.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	a := d.Post("/http/tokens/create", "", "namespace", "shop", "description", "the <b>web</b> shop", "scopes", "publish, peek", "queues", "mail img-*", "within", "30d")
	_, made, found := strings.Cut(a.Body, `<code class="code">`)
	made, _, _ = strings.Cut(made, "<")
	if a.Status != http.StatusOK || !found || len(made) < 20 || a.Header.Get("Set-Cookie") != "" || a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	all := d.tokens()
	if len(all) != 1 || all[0].Namespace != "shop" || len(all[0].Short) != 6 || len(all[0].Queues) != 2 || len(all[0].Scopes) != 2 || all[0].Ends == nil {
		t.Fatalf("%+v", all)
	}
	body := d.Get("/http?v=tokens", "").Body
	if strings.Contains(body, made) || strings.Contains(body, "<b>web") || strings.Contains(log.String(), made) {
		t.Error("the token, or its description as markup, is on a page or in the log")
	}
	if a := d.Get("/http?v=tokens", "eve viewer"); strings.Contains(a.Body, "/rotate") || strings.Contains(a.Body, "/create") {
		t.Error("a viewer has buttons")
	}
	at := "/http/tokens/" + all[0].ID
	for _, verb := range []string{"/rotate", "/limits", "/revoke"} {
		if a := d.Post(at+verb, "bob operator"); a.Status != http.StatusForbidden {
			t.Errorf("%s by an operator: %d", verb, a.Status)
		}
	}

	if a := d.act(at+"/limits", "", `{"read":5,"window":"60"}`); a.Status != http.StatusOK || !strings.Contains(a.Body, "5 reads in 1 min") {
		t.Error(a.Status, a.Body)
	}
	for body, status := range map[string]int{`{"read":-1}`: 400, `{"read":"x"}`: 400, `{"read":1,"window":"400d"}`: 400} {
		if a := d.act(at+"/limits", "", body); a.Status != status {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if all := d.tokens(); all[0].Limits == nil || all[0].Limits.Read != 5 {
		t.Errorf("%+v", all)
	}

	_, version, _ := strings.Cut(d.Get("/http?v=tokens", "").Body, `name="version" value="`)
	version, _, _ = strings.Cut(version, `"`)
	a = d.act(at+"/rotate", "", `{"version":"`+version+`","after":"1h"}`)
	var out struct{ Data struct{ Secret string } }
	if json.Unmarshal([]byte(a.Body), &out) != nil || a.Status != http.StatusOK || len(out.Data.Secret) < 20 || out.Data.Secret == made {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := d.Post(at+"/rotate", "", "version", version); a.Status != http.StatusConflict {
		t.Errorf("it is rotated twice: %d %s", a.Status, a.Body)
	}
	if n := len(d.tokens()); n != 2 {
		t.Errorf("%d tokens", n)
	}

	if a := d.act(at+"/revoke", "", `{"why":"leaked"}`); a.Status != http.StatusOK {
		t.Error(a.Status, a.Body)
	}
	if a := d.act(at+"/revoke", "", ""); a.Status != http.StatusNotFound {
		t.Error(a.Status, a.Body)
	}
	for _, want := range []string{"CreateToken", "LimitToken", "RotateToken", "RevokeToken"} {
		if strings.Count(d.audited(), "dashboard ops: "+want) != 1 {
			t.Errorf("the audit lacks %s: %s", want, d.audited())
		}
	}
	for _, body := range []string{`{}`, `{"namespace":"x","scopes":"everything"}`, `{"namespace":"x","within":"soon"}`} {
		if a := d.act("/http/tokens/create", "", body); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if strings.Contains(d.audited(), made) || strings.Contains(log.String(), out.Data.Secret) {
		t.Error("the audit or the log has a token")
	}
}

// The jobs that clients hold show masked, to users of their queues. A lease is released by its name, once.
func TestLeasePage(t *testing.T) {
	t.Parallel()
	d := setup(t)
	if a := d.Get("/http", ""); !strings.Contains(a.Body, "No client holds a job") || !strings.Contains(a.Body, "No server takes jobs") {
		t.Error(a.Body)
	}
	ends := time.Now().Add(time.Hour)
	hold := func(queue, id string) {
		d.redis.Do(t, "HSET", "resque:go:leased", leases.Place(queue, id), `{"class":"Send<script>","args":[{"password":"hidden-word"}],"id":"`+id+`","attempt":2,"tries":5}`)
		d.redis.Do(t, "ZADD", "resque:go:leases", ends.UnixMilli(), leases.Place(queue, id))
	}
	hold("mail", "id1")
	hold("a/b?c", "id2")
	list := func(user string) (all []struct{ Queue, ID, Lease string }) {
		var page struct {
			Leases []struct{ Queue, ID, Lease string }
		}
		d.Read("/http", user, &page)
		return page.Leases
	}
	all := list("")
	if len(all) != 2 || len(list("ann operator mail")) != 1 {
		t.Fatalf("%+v", all)
	}
	for _, user := range []string{"", "ann operator mail", "eve viewer"} {
		a := d.Get("/http", user)
		if strings.Contains(a.Body, "hidden-") || strings.Contains(a.Body, "<script>") || !strings.Contains(a.Body, "2 of 5") || strings.Contains(a.Body, "/release") == strings.HasPrefix(user, "eve") {
			t.Errorf("%s: %s", user, a.Body)
		}
		if strings.HasPrefix(user, "ann") && strings.Contains(a.Body, "id2") {
			t.Error("a user of one queue sees another")
		}
	}
	if a := d.Post("/http/leases/a%2Fb%3Fc/id2/release", "ann operator mail"); a.Status != http.StatusNotFound {
		t.Error(a.Status)
	}
	if a := d.Post("/http/leases/mail/id1/release", "eve viewer"); a.Status != http.StatusForbidden {
		t.Error(a.Status)
	}
	for _, l := range all {
		path := "/http/leases/" + strings.NewReplacer("/", "%2F", "?", "%3F").Replace(l.Queue) + "/" + l.ID + "/release"
		if a := d.act(path, "bob operator", `{"lease":"another"}`); a.Status != http.StatusNotFound {
			t.Errorf("%s of another lease: %d %s", path, a.Status, a.Body)
		}
		var did atomic.Int64
		for range 2 {
			if a := d.act(path, "bob operator", `{"lease":"`+l.Lease+`"}`); a.Status == http.StatusOK {
				did.Add(1)
			}
		}
		if did.Load() != 1 {
			t.Errorf("%s released %d leases", path, did.Load())
		}
	}
	if lines := d.audited(); strings.Count(lines, "dashboard bob: ReleaseLease") != 2 {
		t.Error(lines)
	}
	redistest.Eventually(t, redisGone, "the leases have ended", func() bool { return strings.Contains(d.Get("/http", "").Body, "it has ended") })
}
