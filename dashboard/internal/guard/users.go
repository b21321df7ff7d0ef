package guard

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// How passwords are hashed: PBKDF2 with HMAC-SHA256, 600,000 iterations, which are some 0.2 s.
const (
	hashName       = "pbkdf2-sha256"
	iterations     = 600_000
	leastIteration = 10_000 // of hashes that other programs made
	mostIterations = 10_000_000
	saltLength     = 16
)

// maxUsersFile bounds the file of users.
const maxUsersFile = 1 << 20

// account is a line of the file of users.
type account struct {
	user       User
	iterations int
	salt, hash []byte
}

// matches reports whether it is the password of the account. It takes as long for a wrong one.
func (a *account) matches(password string) bool {
	hash, err := pbkdf2.Key(sha256.New, password, a.salt, a.iterations, sha256.Size)
	return err == nil && hmac.Equal(hash, a.hash)
}

// HashPassword returns the hash of a password as it stands in the file of users, with a salt of its own.
func HashPassword(password string) string { return hashPassword(password, iterations) }

func hashPassword(password string, iterations int) string {
	salt := make([]byte, saltLength)
	rand.Read(salt) // never fails
	hash, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		panic(err) // the lengths above are what FIPS 140 asks for
	}
	return fmt.Sprintf("%s$%d$%s$%s", hashName, iterations, base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(hash))
}

// UserLine returns the line of the file of users for a user and a password.
func UserLine(name string, role Role, queues []string, password string) (string, error) {
	if password == "" {
		return "", errors.New("the password is empty")
	}
	for _, queue := range queues {
		if strings.ContainsAny(queue, ",\r\n") {
			return "", fmt.Errorf("the queue %q has a comma or a line break; write ? for it", queue)
		}
	}
	line := strings.Join([]string{name, role.String(), strings.Join(queues, ","), ""}, ":")
	if _, err := parseAccount(line + noHash); err != nil {
		return "", err
	}
	return line + HashPassword(password), nil
}

// noHash has the form of a hash, and is of no password that anybody knows.
var noHash = fmt.Sprintf("%s$%d$%s$%s", hashName, iterations, strings.Repeat("A", 22), strings.Repeat("A", 43))

// parseUsers reads the file of users. Each line is
//
//	name:role:queues:pbkdf2-sha256$iterations$salt$hash
//
// role is viewer, operator or admin. queues are names and patterns with a comma between them, as in User.Queues, and nothing for
// all queues; a pattern has ? for a comma. salt and hash are base64 without =. Empty lines count for nothing, nor do those that
// begin with #.
func parseUsers(text string) (map[string]*account, error) {
	if len(text) > maxUsersFile {
		return nil, fmt.Errorf("it has %d bytes, and %d are the most", len(text), maxUsersFile)
	}
	users := make(map[string]*account)
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		a, err := parseAccount(line)
		if err == nil && users[a.user.Name] != nil {
			err = fmt.Errorf("the user %s has a line already", a.user.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		users[a.user.Name] = a
	}
	return users, nil
}

// parseAccount reads a line. Its errors show nothing of the hash.
func parseAccount(line string) (*account, error) {
	name, rest, _ := strings.Cut(line, ":")
	word, rest, _ := strings.Cut(rest, ":")
	at := strings.LastIndexByte(rest, ':') // queues may have colons, the hash has none
	if at < 0 {
		return nil, errors.New("want name:role:queues:hash")
	}
	if !validName(name) || name[0] == '#' {
		return nil, fmt.Errorf("the name %.300q: it is empty or too long, it begins with #, or it has spaces around it or characters that cannot be seen", name)
	}
	role, err := ParseRole(word)
	if err != nil {
		return nil, err
	}
	a := &account{user: User{Name: name, Role: role}}
	if queues := rest[:at]; queues != "" {
		for queue := range strings.SplitSeq(queues, ",") {
			queue = strings.TrimSpace(queue)
			if _, err := path.Match(queue, ""); err != nil || queue == "" {
				return nil, fmt.Errorf("the queue %q of %s is empty or no pattern", queue, name)
			}
			a.user.Queues = append(a.user.Queues, queue)
		}
	}
	if err := a.parseHash(rest[at+1:]); err != nil {
		return nil, fmt.Errorf("the hash of %s: %w; make one with goworker dashboard passwd", name, err)
	}
	return a, nil
}

func (a *account) parseHash(hash string) (err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 4 || parts[0] != hashName {
		return fmt.Errorf("want %s$iterations$salt$hash", hashName)
	}
	if a.iterations, err = strconv.Atoi(parts[1]); err != nil || a.iterations < leastIteration || a.iterations > mostIterations {
		return fmt.Errorf("want %d to %d iterations", leastIteration, mostIterations)
	}
	encoding := base64.RawStdEncoding.Strict()
	if a.salt, err = encoding.DecodeString(parts[2]); err != nil || len(a.salt) < saltLength || len(a.salt) > 64 {
		return fmt.Errorf("want a salt of %d to 64 bytes in base64", saltLength)
	}
	if a.hash, err = encoding.DecodeString(parts[3]); err != nil || len(a.hash) != sha256.Size {
		return fmt.Errorf("want a hash of %d bytes in base64", sha256.Size)
	}
	return nil
}
