package guard

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// hosts are the names that a request may have been sent to, beside IP addresses, localhost and *.localhost.
//
// A page of another site can point its own name at the dashboard's address. Its requests are then of the same origin for
// the browser, they come from an address that the operator's own come from, and they set any header. Only the name they
// were sent to tells them apart.
type hosts map[string]bool

// newHosts checks the names of the settings.
func newHosts(names []string) (hosts, error) {
	h := make(hosts, len(names))
	for _, name := range names {
		plain, ok := hostName(name)
		if !ok || plain == "" {
			return nil, fmt.Errorf("the host %q: %w", name, errHostName)
		}
		h[plain] = true
	}
	return h, nil
}

var errHostName = errors.New("write a name as ops.example.com, without scheme, port and *, and one with other letters as browsers send it (xn--…)")

// allow reports whether the dashboard answers requests with this Host header.
func (h hosts) allow(host string) bool {
	name, port := host, ""
	if bracketed, ok := strings.CutPrefix(host, "["); ok {
		name, port, ok = strings.Cut(bracketed, "]")
		if !ok || port != "" && port[0] != ':' {
			return false
		}
		address, err := netip.ParseAddr(name)
		return err == nil && address.Is6() && address.Zone() == "" && digits(strings.TrimPrefix(port, ":"))
	}
	name, port, _ = strings.Cut(host, ":")
	if !digits(port) {
		return false
	}
	name, ok := hostName(name)
	if !ok {
		return false
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || h[name]
}

// hostName returns a name in lower case, without the dot at the end that stands for the root. It returns false for what is
// no name: an empty part, or another sign than letters, digits, - and _.
func hostName(name string) (string, bool) {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 {
		return "", false
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" {
			return "", false
		}
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return "", false
		}
	}
	return strings.ToLower(name), true
}

// digits reports whether s is empty or at most five digits, as the port of a Host header is.
func digits(s string) bool {
	return len(s) <= 5 && strings.Trim(s, "0123456789") == ""
}
