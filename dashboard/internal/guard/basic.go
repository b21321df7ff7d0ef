package guard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

const (
	remembered = 5 * time.Minute // how long a right password is not hashed again
	hashers    = 2               // passwords that are hashed at a time
	hashQueue  = 64              // requests that wait for that; more are refused
	settled    = 2 * time.Second // a file that changed so lately may change again within one tick of its file system
)

var basicChallenge = []string{`Basic realm="goworker dashboard", charset="UTF-8"`}

// basic lets in the users of a file.
type basic struct {
	file    string
	clock   clock.Clock
	key     [32]byte      // of the digests in right; a process has its own
	hashing chan struct{} // a value for each password that is hashed
	waiting chan struct{} // a value for each request with a password to hash

	mu    sync.Mutex
	read  os.FileInfo // of the file as it was read last; nil: it has to be read again
	text  string      // what was in it
	users map[string]*account
	err   error            // why users is empty
	costs int              // the iterations of a name that is not in the file
	right map[string]right // by the name: a password that was right
}

// right is a pair of name and password that was right.
type right struct {
	digest  [sha256.Size]byte
	expires time.Time
}

// BasicAuth lets in the users of a file, by the name and password that a browser asks them for. The file has a line a user:
//
//	name:role:queues:pbkdf2-sha256$iterations$salt$hash
//
// role is viewer, operator or admin. queues are names and patterns with a comma between them, and nothing for all queues.
// UserLine makes a line. The file is read again when it changes. While it cannot be read, or a line of it is wrong, nobody is
// let in and the log says why. A file that all users of the host may write to is refused too.
//
// A browser sends the password with each request, so use TLS. A right password is remembered for 5 minutes, as a keyed hash.
func BasicAuth(file string) (Identify, error) {
	b, err := newBasic(file, clock.System)
	if err != nil {
		return nil, err
	}
	return b.identify, nil
}

func newBasic(file string, c clock.Clock) (*basic, error) {
	b := &basic{file: file, clock: c, hashing: make(chan struct{}, hashers), waiting: make(chan struct{}, hashQueue)}
	rand.Read(b.key[:]) // never fails
	b.refresh()
	return b, b.err
}

func (b *basic) identify(r *http.Request) (User, error) {
	name, password, ok := r.BasicAuth()
	if !ok {
		return User{}, &Refused{Challenges: basicChallenge, Text: "Sign in with your name and password."}
	}
	digest := b.digest(name, password)
	b.mu.Lock()
	b.refresh()
	a, err, costs := b.users[name], b.err, b.costs
	known := b.right[name]
	b.mu.Unlock()
	if err != nil {
		return User{}, &Refused{Status: http.StatusInternalServerError, Text: "The file of users cannot be used. The log of the dashboard says why.", Err: err}
	}
	if a != nil && hmac.Equal(digest[:], known.digest[:]) && b.clock.Now().Before(known.expires) {
		return a.user, nil
	}
	matches, err := b.matches(r, a, costs, password)
	if err != nil {
		return User{}, &Refused{Status: http.StatusServiceUnavailable, Wait: time.Second, Text: "Too many sign in at this moment. Try again in a second.", Err: err}
	}
	if !matches {
		return User{}, &Refused{Challenges: basicChallenge, Wrong: true, Text: "The name or the password is wrong."}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users[name] == a { // the file has not changed meanwhile
		b.right[name] = right{digest, b.clock.Now().Add(remembered)}
	}
	return a.user, nil
}

// matches hashes a password when its turn comes. A name that is not in the file costs as much as another.
func (b *basic) matches(r *http.Request, a *account, costs int, password string) (bool, error) {
	select {
	case b.waiting <- struct{}{}:
		defer func() { <-b.waiting }()
	default:
		return false, fmt.Errorf("%d passwords wait to be hashed", hashQueue)
	}
	select {
	case b.hashing <- struct{}{}:
		defer func() { <-b.hashing }()
	case <-r.Context().Done():
		return false, r.Context().Err()
	}
	if a == nil {
		nobody := account{iterations: costs, salt: b.key[:saltLength], hash: make([]byte, sha256.Size)}
		nobody.matches(password)
		return false, nil
	}
	return a.matches(password), nil
}

// digest is what a pair of name and password is remembered by. Nobody can compute it without the key, which is in no file.
func (b *basic) digest(name, password string) (d [sha256.Size]byte) {
	mac := hmac.New(sha256.New, b.key[:])
	length := binary.BigEndian.AppendUint64(nil, uint64(len(name))) // so that no two pairs are alike
	mac.Write(append(length, name...))
	mac.Write([]byte(password))
	mac.Sum(d[:0])
	return d
}

// refresh reads the file if it has changed. b.mu is held, or nobody else knows b.
func (b *basic) refresh() {
	info, err := os.Stat(b.file)
	if err == nil && b.read != nil && os.SameFile(info, b.read) && info.ModTime().Equal(b.read.ModTime()) && info.Size() == b.read.Size() {
		return
	}
	b.read = nil
	var text string
	if err == nil && info.Mode().Perm()&0o002 != 0 {
		err = errors.New("all users of this host may write to it")
	}
	if err == nil {
		text, err = readFile(b.file)
	}
	if err == nil && (text != b.text || b.users == nil) {
		b.text, b.right = text, make(map[string]right)
		b.users, err = parseUsers(text)
		b.costs = leastIteration
		for _, a := range b.users {
			b.costs = max(b.costs, a.iterations)
		}
	}
	if b.err = nil; err != nil {
		b.users, b.err = nil, fmt.Errorf("the file of users %s: %w", b.file, err)
		return
	}
	if clock.Since(b.clock, info.ModTime()) > settled {
		b.read = info
	}
}

// readFile reads a file of users, and no more of it than may be.
func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxUsersFile+1))
	return string(text), err
}
