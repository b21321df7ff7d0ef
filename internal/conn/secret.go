package conn

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// mostSecret is how many bytes a file with a password or a URI may have.
const mostSecret = 64 << 10

// ReadSecret reads a file with a password, a URI or a token: its first line, without the blanks around it. what names it in errors.
func ReadSecret(what, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the %s cannot be read: %w", what, err)
	}
	defer f.Close()
	text := make([]byte, mostSecret)
	n, err := io.ReadFull(f, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fmt.Errorf("the %s cannot be read: %w", what, err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text[:n])), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", fmt.Errorf("the file %s with the %s is empty", path, what)
	}
	return line, nil
}

// SplitLogin takes user and password out of a URI. The URI that is left is the address alone; a text that is no URI stays whole.
func SplitLogin(uri string) (address string, login *url.Userinfo) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(uri), "://")
	if !ok || !isScheme(strings.ToLower(scheme)) {
		return uri, nil
	}
	authority, path, slash := strings.Cut(rest, "/")
	info, host, found := cutLast(authority, "@")
	if !found {
		return uri, nil
	}
	u, err := url.Parse("redis://" + info + "@host")
	if err != nil {
		return uri, nil // its reader says what is wrong
	}
	if slash {
		host += "/" + path
	}
	return scheme + "://" + host, u.User
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// ReadURI reads the URI of Redis from a file, and returns it without user and password: each dial reads these again.
func ReadURI(path string) (address string, err error) {
	text, err := ReadSecret("URI of Redis", path)
	if err != nil {
		return "", err
	}
	address, _ = SplitLogin(text)
	return address, nil
}

// login returns the function that reads user and password at each dial; nil: the URI has them.
func (c Config) login() func() (user, password string, err error) {
	if c.URIFile == "" && c.PasswordFile == "" {
		return nil
	}
	_, given := SplitLogin(c.URI)
	return func() (user, password string, err error) {
		info := given
		if c.URIFile != "" {
			text, err := ReadSecret("URI of Redis", c.URIFile)
			if err != nil {
				return "", "", err
			}
			_, info = SplitLogin(text)
		}
		if c.PasswordFile == "" {
			var t target
			t.credentials(info)
			return t.user, t.password, nil
		}
		password, err = ReadSecret("password of Redis", c.PasswordFile)
		return UserOf(info), password, err
	}
}

// UserOf returns the user of a URI whose password is in a file: there redis://worker@host names a user and no password.
func UserOf(info *url.Userinfo) string {
	if info == nil {
		return ""
	}
	return info.Username()
}

// OpenToOthers returns a warning where other users of the machine can read a file with a secret; "": they cannot, or there is none.
func OpenToOthers(path string) string {
	info, err := os.Stat(path)
	if path == "" || err != nil || !openTo(info) {
		return ""
	}
	return fmt.Sprintf("other users can read %s, which has a secret and the mode %04o; run chmod 600 %[1]s", path, info.Mode().Perm())
}
