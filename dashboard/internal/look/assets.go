package look

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed assets/app.css assets/app.js assets/icon.svg
var files embed.FS

// assetTypes are the files by their names.
var assetTypes = map[string]string{
	"app.css":  "text/css; charset=utf-8",
	"app.js":   "text/javascript; charset=utf-8",
	"icon.svg": "image/svg+xml",
}

// Assets serves the style, the script and the icon under paths that name their contents, so that browsers keep them
// for a year. Many goroutines may use it.
type Assets struct {
	byName map[string]*asset
	byPath map[string]*asset
}

type asset struct {
	path, kind, integrity string
	raw, gzipped          []byte
}

// NewAssets reads the embedded files, and compresses each once.
func NewAssets() (*Assets, error) {
	a := &Assets{byName: make(map[string]*asset), byPath: make(map[string]*asset)}
	for name, kind := range assetTypes {
		raw, err := files.ReadFile("assets/" + name)
		if err != nil {
			return nil, fmt.Errorf("read the asset %s: %w", name, err)
		}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // its error is of a level that does not exist
		if _, err := z.Write(raw); err != nil {
			return nil, fmt.Errorf("compress the asset %s: %w", name, err)
		}
		if err := z.Close(); err != nil {
			return nil, fmt.Errorf("compress the asset %s: %w", name, err)
		}
		sum, long := sha256.Sum256(raw), sha512.Sum384(raw)
		one := &asset{
			path: "/assets/" + hex.EncodeToString(sum[:])[:12] + "/" + name, kind: kind,
			integrity: "sha384-" + base64.StdEncoding.EncodeToString(long[:]), raw: raw, gzipped: b.Bytes(),
		}
		a.byName[name], a.byPath[one.path] = one, one
	}
	return a, nil
}

// Path returns the path of a file, to be put behind the prefix of the dashboard: "/assets/3f786850e387/app.css". It is
// "" for a name that is not known.
func (a *Assets) Path(name string) string {
	if one := a.byName[name]; one != nil {
		return one.path
	}
	return ""
}

// Integrity returns the value of the integrity attribute of a file, "" for a name that is not known.
func (a *Assets) Integrity(name string) string {
	if one := a.byName[name]; one != nil {
		return one.integrity
	}
	return ""
}

// ServeHTTP answers GET and HEAD for the paths of Path, without the dashboard's prefix. Any other path, that of another
// release too, is not found: a file under a wrong sum would be kept for a year.
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := a.byPath[path.Clean("/"+r.URL.Path)]
	if one == nil {
		w.Header().Set("Cache-Control", "no-store")
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "an asset can only be read", http.StatusMethodNotAllowed)
		return
	}
	h, body := w.Header(), one.raw
	h.Set("Content-Type", one.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept-Encoding")
	if takesGzip(r.Header.Values("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = one.gzipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the client is gone if this fails
	}
}

// takesGzip reads Accept-Encoding: gzip is named, and not with a quality of zero.
func takesGzip(values []string) bool {
	for _, one := range strings.Split(strings.Join(values, ","), ",") {
		name, quality, _ := strings.Cut(one, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, isQ := strings.CutPrefix(strings.ReplaceAll(quality, " ", ""), "q=")
		n, err := strconv.ParseFloat(q, 64)
		return !isQ || err != nil || n > 0
	}
	return false
}
