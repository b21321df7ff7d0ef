package redistest

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// Name and password of the user of MinimalACL.
const (
	ACLUser     = "worker"
	ACLPassword = "secret"
)

// MinimalACL returns the rules of the user whom docs/redis.md shows, as arguments
// of ACL SETUSER or of the setting user: its name, the password secret, the rules.
func MinimalACL(t testing.TB) []string { return ACL(t, ACLUser) }

// ACL is MinimalACL for another user that the page shows.
func ACL(t testing.TB, user string) []string {
	t.Helper()
	return ACLOn(t, "redis.md", user)
}

// ACLOn is ACL for a user that another page of docs shows.
func ACLOn(t testing.TB, name, user string) []string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	page, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "..", "docs", name))
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	block := regexp.MustCompile("(?s)```acl\nuser " + user + " (.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatalf("redistest: docs/%s shows no user %s", name, user)
	}
	rules := strings.ReplaceAll(string(block[1]), ">PASSWORD", ">"+ACLPassword)
	return append([]string{user}, strings.Fields(rules)...)
}

// asMinimalUser reports whether all tests are to run as the user of MinimalACL, on
// keys of any namespace: REDISTEST_ACL is set.
func asMinimalUser() bool { return os.Getenv("REDISTEST_ACL") != "" }

// OwnUser skips a test that is about users or permissions, or needs more permissions,
// when all tests run as the user of MinimalACL.
func OwnUser(t testing.TB) {
	t.Helper()
	if asMinimalUser() {
		t.Skip("this test chooses its user")
	}
}

// minimalUsers are the users of workers and operators as a server's settings, so that they still exist after a
// restart. They have other names, since some tests make users called as on the page.
func minimalUsers(t testing.TB) []string {
	return append(minimal(t, ACLUser, "minimal"), minimal(t, "operator", "operating")...)
}

func minimal(t testing.TB, user, name string) []string {
	rules := ACL(t, user)
	rules[0] = name
	for i, rule := range rules {
		if strings.HasPrefix(rule, "~") {
			rules[i] = "~*"
		}
	}
	return append([]string{"--user"}, rules...)
}
