//go:build !linux

package sdnotify

// monotonic returns nothing: only systemd asks for it.
func monotonic() []string { return nil }
