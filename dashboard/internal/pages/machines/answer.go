package machines

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
)

// Answer is what processes answered to a command of a user. It stands on the page that the user comes back to.
type Answer struct {
	Verb    string    `json:"verb"`
	At      site.Time `json:"at"`
	Replies []Reply   `json:"replies"`

	user string
	kept time.Time
}

const (
	// answersFor is how long an answer is kept for its user.
	answersFor = 10 * time.Minute
	// mostAnswers is how many are kept in all, and mostKept how many bytes their bodies have.
	mostAnswers, mostKept = 64, 16 << 20
)

// answers keeps the last answers.
type answers struct {
	mu    sync.Mutex
	all   map[string]*Answer
	order []string // the oldest first
	bytes int
}

func answersOf(f *site.Fleet) *answers {
	return site.Held(f, func() *answers { return &answers{all: make(map[string]*Answer)} })
}

// put keeps an answer, and returns its id.
func (s *answers) put(user string, a *Answer) string {
	a.user, a.kept = user, time.Now()
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id], s.order = a, append(s.order, id)
	s.bytes += a.size()
	for len(s.order) > 1 && (len(s.order) > mostAnswers || s.bytes > mostKept || time.Since(s.all[s.order[0]].kept) > answersFor) {
		s.bytes -= s.all[s.order[0]].size()
		delete(s.all, s.order[0])
		s.order = s.order[1:]
	}
	return id
}

// get returns an answer of a user; nil: it is no longer kept.
func (s *answers) get(user, id string) *Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.all[id]; a != nil && a.user == user && time.Since(a.kept) <= answersFor {
		return a
	}
	return nil
}

func (a *Answer) size() (n int) {
	for _, r := range a.Replies {
		n += len(r.Body)
	}
	return n
}
