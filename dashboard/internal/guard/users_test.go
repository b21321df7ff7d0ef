package guard

import (
	"crypto/sha256"
	"reflect"
	"strings"
	"testing"
)

// quickHash is HashPassword with the least iterations.
func quickHash(password string) string { return hashPassword(password, leastIteration) }

const someHash = "pbkdf2-sha256$100000$MDEyMzQ1Njc4OWFiY2RlZg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func TestUserLine(t *testing.T) {
	t.Parallel()
	line, err := UserLine("alice", Operator, []string{"mail", "img*", "a:b"}, "käse:1")
	if err != nil {
		t.Fatal(err)
	}
	users, err := parseUsers("# people\r\n\r\n" + line + "\r\n")
	if err != nil {
		t.Fatal(err)
	}
	alice := users["alice"]
	if want := (User{Name: "alice", Role: Operator, Queues: []string{"mail", "img*", "a:b"}}); alice == nil || !reflect.DeepEqual(alice.user, want) {
		t.Fatalf("the user is %+v", alice)
	}
	if alice.iterations != iterations {
		t.Errorf("the hash has %d iterations", alice.iterations)
	}
	if first, second := quickHash("käse:1"), quickHash("käse:1"); first == second {
		t.Error("two hashes have one salt")
	}
	for _, bad := range []struct {
		name, password string
		role           Role
		queues         []string
	}{{"", "p", Viewer, nil}, {"a:b", "p", Viewer, nil}, {"a\nb", "p", Viewer, nil}, {"#a", "p", Viewer, nil}, {"a", "", Viewer, nil}, {"a", "p", 9, nil}, {"a", "p", Viewer, []string{"["}}, {"a", "p", Viewer, []string{"a", ""}}, {"a", "p", Viewer, []string{"a,b"}}, {"a", "p", Viewer, []string{"a\nb"}}} {
		if line, err := UserLine(bad.name, bad.role, bad.queues, bad.password); err == nil {
			t.Errorf("%+v gives the line %s", bad, line)
		}
	}
}

// TestUsersFile refuses lines that may mean something else than was meant.
func TestUsersFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                            "",
		"a:viewer::" + someHash:       "",
		"a b:admin:x,y:" + someHash:   "",
		"a:viewer":                    "line 1: want name:role:queues:hash",
		"a:viewer:" + someHash:        "want name:role:queues:hash",
		":viewer::" + someHash:        "the name",
		" a:viewer::" + someHash:      "the name",
		"a:root::" + someHash:         `the role "root"`,
		"a:::" + someHash:             "the role",
		"a:Admin::" + someHash:        "the role",
		"a:viewer:[:" + someHash:      "the queue",
		"a:viewer:,:" + someHash:      "the queue",
		"a:viewer: :" + someHash:      "the queue",
		"a:viewer::secret":            "want pbkdf2-sha256$",
		"a:viewer::$2y$10$abc$def":    "want pbkdf2-sha256$",
		"a:viewer::" + someHash + "A": "want a hash of 32 bytes",
		"a:viewer::" + someHash + "$": "want pbkdf2-sha256$",
		"a:viewer::" + someHash + "\n\n#\nb:viewer::" + someHash + "\na:admin::" + someHash:      "line 5: the user a has a line already",
		"a:viewer::" + strings.Replace(someHash, "100000", "9999", 1):                            "iterations",
		"a:viewer::" + strings.Replace(someHash, "100000", "99999999999999999999", 1):            "iterations",
		"a:viewer::" + strings.Replace(someHash, "MDEyMzQ1Njc4OWFiY2RlZg", "MDEy", 1):            "salt",
		"a:viewer::" + strings.Replace(someHash, "MDEyMzQ1Njc4OWFiY2RlZg", "MDEyMzQ1Njc4OW!", 1): "salt",
		strings.Repeat("#\n", maxUsersFile/2+1):                                                  "are the most",
	} {
		_, err := parseUsers(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "AAAA")) {
			t.Errorf("the error shows a hash: %v", err)
		}
	}
}

// FuzzUsers looks for a file that makes a user that was not meant, or stops the parser.
func FuzzUsers(f *testing.F) {
	f.Add("a:viewer::" + someHash)
	f.Add("# x\r\na b:admin:mail,img*,a:b:" + someHash + "\r\nc:operator:?:" + someHash)
	f.Add("a:viewer:[:x$y$z$")
	f.Fuzz(func(t *testing.T, text string) {
		users, err := parseUsers(text)
		if err != nil {
			if users != nil {
				t.Error("an error comes with users")
			}
			return
		}
		for name, a := range users {
			if a.user.Name != name || checkUser(a.user) != nil || strings.Contains(name, ":") {
				t.Errorf("%q has the user %+v", name, a.user)
			}
			if a.iterations < leastIteration || a.iterations > mostIterations || len(a.salt) < saltLength || len(a.hash) != sha256.Size {
				t.Errorf("%q has the hash %+v", name, a)
			}
			if a.user.Queues != nil && len(a.user.Queues) == 0 {
				t.Errorf("%q sees no queue", name)
			}
			if !strings.Contains(text, name+":"+a.user.Role.String()+":") {
				t.Errorf("%q is made up", name)
			}
		}
	})
}
