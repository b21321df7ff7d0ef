package control

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// Version is the version of the form of commands. A process answers a command of a newer form with an error.
const Version = 1

// FullLives is how long a command of the level full may be valid. Within this time a copy of it could do harm.
const FullLives = 30 * time.Second

// Command is a command of an operator to processes.
type Command struct {
	V     int             `json:"v"`
	ID    string          `json:"id"` // 32 hexadecimal digits
	Verb  string          `json:"verb"`
	Args  json.RawMessage `json:"args,omitempty"`
	To    []string        `json:"to,omitempty"`   // addresses; none: all processes
	At    int64           `json:"at"`             // when the caller made it, in ms by Redis's clock
	Until int64           `json:"until"`          // until when a process may begin it, in ms by Redis's clock
	Wait  int64           `json:"wait,omitempty"` // how long the caller waits for answers, in ms from At on; 0: to Until
	By    string          `json:"by,omitempty"`
}

// NewID makes the id of a command.
func NewID() string {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// Encode returns the message of a command.
func (c Command) Encode() ([]byte, error) {
	c.V = Version
	return json.Marshal(c)
}

// ErrVersion is returned for a command of a newer form.
var ErrVersion = errors.New("the command is of a newer release; bring this process to that release")

// ParseCommand reads a message. With ErrVersion the command has its id.
func ParseCommand(message []byte) (c Command, err error) {
	if len(message) > MostMessage {
		return c, fmt.Errorf("the command has %d bytes, and %d are allowed", len(message), MostMessage)
	}
	if err := json.Unmarshal(message, &c); err != nil {
		return Command{}, fmt.Errorf("the command is not readable: %w", err)
	}
	if id, err := hex.DecodeString(c.ID); err != nil || len(id) != 16 { // it becomes a part of keys
		return Command{}, errors.New("the command has no id of 32 hexadecimal digits")
	}
	if c.V > Version {
		return c, ErrVersion
	}
	return c, nil
}

// Ends is until when the caller waits, in ms by Redis's clock.
func (c Command) Ends() int64 { return max(c.Until, c.At+c.Wait) }

// Lives is how long the command is valid.
func (c Command) Lives() time.Duration { return time.Duration(c.Until-c.At) * time.Millisecond }

// Sign returns the signature of a message: an HMAC of SHA-256 over the namespace, a line feed and the bytes of the message.
func (s Store) Sign(key, message []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(s.Namespace() + "\n"))
	h.Write(message)
	return hex.EncodeToString(h.Sum(nil))
}

// Signed reports whether a signature is that of the message, digit for digit. It takes the same time for any wrong signature of the same
// length.
func (s Store) Signed(key, message []byte, signature string) bool {
	return len(key) > 0 && hmac.Equal([]byte(signature), []byte(s.Sign(key, message)))
}

// Names are the names by which a call can address a process.
type Names struct{ ID, Host, Name string }

// Meant reports whether a command to these addresses is for the process. Without addresses it is for all. An address is the whole
// id, host or name of a process, or a pattern of them with * ? [.
func (n Names) Meant(to []string) bool {
	if len(to) == 0 {
		return true
	}
	for _, address := range to {
		for _, name := range []string{n.ID, n.Host, n.Name} {
			if name == "" {
				continue
			}
			if address == name {
				return true
			}
			if match, err := path.Match(address, name); err == nil && match && strings.ContainsAny(address, "*?[") {
				return true
			}
		}
	}
	return false
}

// CheckAddresses returns an error if no process can have one of the addresses.
func CheckAddresses(to []string) error {
	for _, address := range to {
		if address == "" {
			return errors.New("an address is empty; leave it out to address all processes")
		}
		if _, err := path.Match(address, ""); err != nil {
			return fmt.Errorf("the address %q is no pattern: %w", address, err)
		}
	}
	return nil
}

// Reply is the answer of a process to a command. The process sends it as JSON, in pieces.
type Reply struct {
	Process string          `json:"process"`
	Host    string          `json:"host,omitempty"`
	Name    string          `json:"name,omitempty"`
	Version string          `json:"version,omitempty"`
	Error   string          `json:"error,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}
