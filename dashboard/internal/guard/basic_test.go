package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

func signIn(name, password string) *http.Request {
	r, _ := newRequest("GET", "/", nil)
	r.SetBasicAuth(name, password)
	return r
}

func refusal(t *testing.T, err error) *Refused {
	t.Helper()
	refused, ok := asRefused(err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	return refused
}

func TestBasicAuth(t *testing.T) {
	t.Parallel()
	identify, err := BasicAuth(usersFile(t))
	if err != nil {
		t.Fatal(err)
	}
	if u, err := identify(signIn("quinn", "quinn")); err != nil || u.Name != "quinn" || u.Role != Operator || u.Whole() || !u.Sees("mail") {
		t.Errorf("quinn is %+v, %v", u, err)
	}
	for _, pair := range [][2]string{{"quinn", ""}, {"quinn", "quinn "}, {"Quinn", "quinn"}, {"", ""}, {"", "quinn"}, {"nobody", "nobody"}, {"quinn", "ada"}, {"quinnq", "uinn"}} {
		u, err := identify(signIn(pair[0], pair[1]))
		if refused := refusal(t, err); !refused.Wrong || len(refused.Challenges) != 1 || u.Name != "" {
			t.Errorf("%q: %+v, %+v", pair, u, refused)
		}
	}
	r, _ := newRequest("GET", "/", nil)
	for _, header := range []string{"", "Basic", "Basic !", "Bearer quinn", "Basic cXVpbm4="} {
		r.Header.Set("Authorization", header)
		if _, err := identify(r); refusal(t, err).Wrong || refusal(t, err).Status != 0 {
			t.Errorf("%q: %v", header, err)
		}
	}
}

// TestRemembered hashes a right password once in five minutes. The hash of the account is replaced, to see whether it is asked.
func TestRemembered(t *testing.T) {
	t.Parallel()
	clock := newHand()
	b, err := newBasic(usersFile(t), clock)
	if err != nil {
		t.Fatal(err)
	}
	ada := signIn("ada", "ada")
	if _, err := b.identify(ada); err != nil {
		t.Fatal(err)
	}
	b.users["ada"].hash = make([]byte, 32)
	clock.pass(remembered - time.Second)
	if _, err := b.identify(ada); err != nil {
		t.Error("a right password is not remembered")
	}
	if _, err := b.identify(signIn("ada", "adb")); err == nil {
		t.Error("another password is right too")
	}
	if _, err := b.identify(signIn("vera", "ada")); err == nil {
		t.Error("it is right for another name")
	}
	clock.pass(time.Second)
	if _, err := b.identify(ada); err == nil {
		t.Error("it is remembered for ever")
	}
}

// TestFileChanges reads the file when it changes, also where its size and its time do not.
func TestFileChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := "ada:admin::"+quickHash("one")+"\n", "ada:admin::"+quickHash("two")+"\n"
	write(first)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	clock := newHand()
	clock.now = info.ModTime().Add(settled / 2)
	b, err := newBasic(file, clock)
	if err != nil {
		t.Fatal(err)
	}
	identify := b.identify
	right := func(password string) bool {
		t.Helper()
		_, err := identify(signIn("ada", password))
		return err == nil
	}
	if !right("one") || right("two") {
		t.Error("the first password")
	}
	write(second)
	if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if right("one") || !right("two") {
		t.Error("a password that is remembered outlives its line")
	}
	write("ada:admin::broken\n")
	_, err = identify(signIn("ada", "two"))
	if refused := refusal(t, err); refused.Status != 500 || !strings.Contains(err.Error(), "line 1") || strings.Contains(refused.Text, file) {
		t.Errorf("a broken file: %v", err)
	}
	write(second)
	if !right("two") {
		t.Error("a file that is mended")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if right("two") {
		t.Error("a file that is gone lets in")
	}
	if err := os.WriteFile(file+".new", []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	// A file that changed long ago is not read for each request, and its change is seen all the same.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	if !right("one") {
		t.Error("a file that was replaced")
	}
	write("")
	if right("one") {
		t.Error("a line that was removed")
	}
	if err := os.Chmod(file, 0o602); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, filepath.Dir(file), file + ".none"} {
		if _, err := BasicAuth(name); err == nil {
			t.Errorf("the file %s is accepted", name)
		}
	}
}

// TestHashers bounds how many passwords are hashed, and how many wait for it.
func TestHashers(t *testing.T) {
	t.Parallel()
	b, err := newBasic(usersFile(t), newHand())
	if err != nil {
		t.Fatal(err)
	}
	for range hashers {
		b.hashing <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	for range hashQueue + 1 {
		go func() {
			_, err := b.identify(signIn("ada", "ada").WithContext(ctx))
			errs <- err
		}()
	}
	if refused := refusal(t, <-errs); refused.Status != 503 || refused.Wait == 0 || refused.Wrong {
		t.Errorf("one too many: %+v", refused)
	}
	cancel()
	for range hashQueue {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("one whose client left: %v", err)
		}
	}
	for range hashers {
		<-b.hashing
	}
	if _, err := b.identify(signIn("ada", "ada")); err != nil {
		t.Error(err)
	}
}

// TestFileChangesMeanwhile changes a password while it is hashed. It is not remembered then.
func TestFileChangesMeanwhile(t *testing.T) {
	t.Parallel()
	file := usersFile(t)
	b, err := newBasic(file, newHand())
	if err != nil {
		t.Fatal(err)
	}
	for range hashers {
		b.hashing <- struct{}{}
	}
	done := make(chan struct{})
	go func() { b.identify(signIn("ada", "ada")); close(done) }()
	redistest.Eventually(t, 30*time.Second, "a password waits to be hashed", func() bool { return len(b.waiting) == 1 })
	if err := os.WriteFile(file, []byte("ada:admin::"+quickHash("new")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.refresh()
	b.mu.Unlock()
	for range hashers {
		<-b.hashing
	}
	<-done
	if _, err := b.identify(signIn("ada", "ada")); err == nil {
		t.Error("the password of before is let in")
	}
	if _, err := b.identify(signIn("ada", "new")); err != nil {
		t.Error(err)
	}
}

// TestManySignIn lets many in at a time while the file changes, for the race detector.
func TestManySignIn(t *testing.T) {
	t.Parallel()
	file := usersFile(t)
	identify, err := BasicAuth(file)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 5 {
				if _, err := identify(signIn("ada", "ada")); err != nil {
					t.Error(err)
				}
			}
		})
		next := filepath.Join(filepath.Dir(file), fmt.Sprint(i))
		if err := os.WriteFile(next, []byte(userLines()+fmt.Sprintf("# %d", i)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
}
