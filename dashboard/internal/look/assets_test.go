package look

import (
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

const (
	assetsMost = 100_000
	scriptMost = 30_000
	styleMost  = 45_000
)

// TestAssetSizes holds the budgets of what each page loads.
func TestAssetSizes(t *testing.T) {
	t.Parallel()
	all := 0
	for name := range assetTypes {
		raw, err := files.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all += len(raw)
		t.Logf("%s has %d bytes", name, len(raw))
		if name == "app.js" && len(raw) > scriptMost || name == "app.css" && len(raw) > styleMost {
			t.Errorf("%s has %d bytes", name, len(raw))
		}
		text := strings.ReplaceAll(string(raw), `"http://www.w3.org/2000/svg"`, "")
		for _, never := range []string{`\bstyle=`, `https?://`, `@import`, `\beval\(`, `new Function`, `document\.write`, `\bon[a-z]+="`} {
			if found := regexp.MustCompile(never).FindString(text); found != "" {
				t.Errorf("%s has %s", name, found)
			}
		}
	}
	if all > assetsMost {
		t.Errorf("the assets have %d bytes", all)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	a, err := NewAssets()
	if err != nil {
		t.Fatal(err)
	}
	get := func(method, path, encoding string) *http.Response {
		r := httptest.NewRequest(method, path, nil)
		if encoding != "" {
			r.Header.Set("Accept-Encoding", encoding)
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w.Result()
	}
	for name, kind := range assetTypes {
		raw, err := files.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^/assets/[0-9a-f]{12}/` + regexp.QuoteMeta(name) + `$`).MatchString(a.Path(name)) {
			t.Errorf("the path is %s", a.Path(name))
		}
		sum := sha512.Sum384(raw)
		if want := "sha384-" + base64.StdEncoding.EncodeToString(sum[:]); a.Integrity(name) != want {
			t.Errorf("the integrity of %s is %s", name, a.Integrity(name))
		}
		for encoding, zipped := range map[string]bool{"": false, "br": false, "gzip;q=0": false, "identity, gzip ; q=0.5": true, "gzip, deflate, br": true} {
			answer := get("GET", a.Path(name), encoding)
			h := answer.Header
			if answer.StatusCode != 200 || h.Get("Content-Type") != kind || !strings.Contains(h.Get("Cache-Control"), "immutable") || h.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s: %d %v", name, answer.StatusCode, h)
			}
			if (h.Get("Content-Encoding") == "gzip") != zipped {
				t.Errorf("%s with %q is in %q", name, encoding, h.Get("Content-Encoding"))
			}
			body := io.Reader(answer.Body)
			if zipped {
				if body, err = gzip.NewReader(body); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := io.ReadAll(body); err != nil || string(got) != string(raw) {
				t.Errorf("%s with %q: %d bytes, %v", name, encoding, len(got), err)
			}
		}
		if answer := get("HEAD", a.Path(name), ""); answer.StatusCode != 200 || answer.ContentLength != int64(len(raw)) {
			t.Errorf("HEAD: %d, %d bytes", answer.StatusCode, answer.ContentLength)
		}
		if answer := get("POST", a.Path(name), ""); answer.StatusCode != 405 || answer.Header.Get("Allow") == "" {
			t.Errorf("POST: %d", answer.StatusCode)
		}
	}
	for _, path := range []string{"/assets/000000000000/app.css", "/assets/app.css", "/assets/../assets.go", "/"} {
		if answer := get("GET", path, ""); answer.StatusCode != 404 || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
	}
	if a.Path("x") != "" || a.Integrity("x") != "" {
		t.Error("a file that is not there has a path")
	}
}
