package dashboard

import (
	"net/http"
	"net/url"
	"strings"
)

// mounted returns the path that the dashboard is mounted at, without a slash at its end, and the URL below it. A ServeMux says the path
// in the request's pattern; behind http.StripPrefix the URL no longer has it.
func (s *Server) mounted(r *http.Request) (root string, below *url.URL) {
	root = s.prefix
	if root == "" {
		pattern := r.Pattern
		if _, path, found := strings.Cut(pattern, " "); found {
			pattern = path
		}
		if slash := strings.IndexByte(pattern, '/'); slash >= 0 { // a host may stand in front
			pattern = pattern[slash:]
		}
		pattern, _, _ = strings.Cut(pattern, "{")
		root = strings.TrimSuffix(pattern, "/")
	}
	if below = stripped(r.URL, root); below == nil {
		below = r.URL
	}
	return root, below
}

// stripped returns the URL without a prefix of its path; nil: it does not begin with it.
func stripped(u *url.URL, prefix string) *url.URL {
	if prefix == "" {
		return u
	}
	path := strings.TrimPrefix(u.Path, prefix)
	raw := strings.TrimPrefix(u.RawPath, prefix)
	if len(path) == len(u.Path) || u.RawPath != "" && len(raw) == len(u.RawPath) || path != "" && path[0] != '/' {
		return nil
	}
	below := *u
	if below.Path, below.RawPath = path, raw; path == "" {
		below.Path = "/"
	}
	return &below
}

// oldAddress is where a bookmark of resque-web leads; "": it is none.
func oldAddress(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	rest := strings.Join(parts[1:], "/")
	query := r.URL.Query()
	with := func(path string, pairs ...string) string {
		q := url.Values{}
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i+1] != "" {
				q.Set(pairs[i], pairs[i+1])
			}
		}
		if len(q) > 0 {
			return path + "?" + q.Encode()
		}
		return path
	}
	switch parts[0] {
	case "overview":
		return "/"
	case "working":
		if rest != "" {
			return "/workers/" + rest
		}
		return "/running"
	case "failed":
		q := ""
		if class := query.Get("class"); class != "" {
			q = "class:" + class
		}
		if rest != "" && rest != "all" {
			q = strings.TrimSpace(q + " queue:" + strings.TrimSuffix(rest, "_failed"))
		}
		return with("/failures", "by", "each", "q", q)
	case "workers":
		if rest == "" || rest == "all" {
			return with("/processes", "by", "worker")
		}
		if !strings.Contains(rest, ":") && !strings.Contains(rest, "%3A") { // a host
			host, err := url.PathUnescape(rest)
			if err != nil {
				return ""
			}
			return with("/processes", "by", "worker", "q", "host:"+host)
		}
	case "stats":
		switch {
		case rest == "redis", rest == "resque", rest == "":
			return "/redis"
		case rest == "keys":
			return "/redis/keys"
		case strings.HasPrefix(rest, "keys/"):
			return "/redis/" + rest
		}
	case "delayed":
		if rest != "" && strings.Trim(rest, "0123456789") == "" {
			return with("/delayed", "from", rest, "to", rest)
		}
		if parts[len(parts)-1] == "jobs_klass" || len(parts) > 1 && parts[1] == "jobs" {
			return "/delayed"
		}
	}
	return ""
}
