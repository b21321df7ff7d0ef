package guard

import "net/http"

// Policy is the Content-Security-Policy of every answer. It allows scripts, styles and requests of the dashboard's own
// address and nothing inline.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types goworker"

// permissions turns off what the dashboard never asks a browser for. Chromium prints a message to the console for a name
// that it does not know, so these are the ones that browsers have had for years.
const permissions = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), usb=()"

// secure sets the headers of every answer. A handler may set another Cache-Control, for what never changes.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", permissions)
	h.Set("X-Robots-Tag", "noindex")
}
