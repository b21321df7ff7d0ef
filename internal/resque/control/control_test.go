package control

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A command, its rules and the line of the audit are written in one step, also when Redis is out of memory, or not at all.
func TestAnnounceIsOneStep(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	announce := func(want error, an Announcement) Announced {
		t.Helper()
		done, err := s.Announce(c, an)
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
		return done
	}
	first := announce(nil, Announcement{Message: []byte("{}"), Signature: "abc", Rules: []Rule{{Name: "pause:mail", Value: "1"}}, Audit: []byte("paused")})
	if first.ID == "" || first.Number == "" || first.Heard != 0 {
		t.Errorf("announced %+v", first)
	}
	announce(ErrChanged, Announcement{Message: []byte("{}"), Rules: []Rule{{Name: "pause:low", Value: "1"}, {Name: "pause:mail", Value: "2", Was: "9"}}, Audit: []byte("no")})
	announce(ErrChanged, Announcement{Rules: []Rule{{Name: "pause:mail", Value: "2"}}})
	server.Do(t, "CONFIG", "SET", "maxmemory", 1)
	second := announce(nil, Announcement{Message: []byte("{}"), Rules: []Rule{{Name: "pause:mail", Was: "1"}, {Name: "-", Value: "-"}}, Audit: []byte("resumed")})
	if room, err := s.Answer(c, Piece{Process: "p", Last: true, Bytes: []byte("pong")}, "a", false); !room || err != nil {
		t.Errorf("answering out of memory: %v, %v", room, err)
	}
	if _, err := s.Tell(c, "events", "1", true); err != nil {
		t.Errorf("out of memory: %v", err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", 0)
	if second.Number <= first.Number {
		t.Errorf("the rules' number went from %s to %s", first.Number, second.Number)
	}
	rules, err := s.ReadRules(c)
	if err != nil || !reflect.DeepEqual(rules, map[string]string{"-": "-"}) {
		t.Errorf("the rules are %v, %v", rules, err)
	}
	if audit := server.List(t, "LRANGE", "resque:go:audit", 0, -1); strings.Join(audit, " ") != "resumed paused" {
		t.Errorf("the audit has %q", audit)
	}
	notice, entries, err := s.ReadCommands(c, "0")
	if err != nil || len(entries) != 2 || string(entries[0].Message) != "{}" || entries[0].Signature != "abc" || entries[0].ID != first.ID {
		t.Errorf("the commands are %+v, %v", entries, err)
	}
	if want := map[string]string{CommandNotice: second.ID, RulesNotice: second.Number, "events": "1"}; !reflect.DeepEqual(notice, want) {
		t.Errorf("the notice is %v, not %v", notice, want)
	}
	for _, key := range []string{"go:notice", "go:control", "go:reply:a", "go:reply:a:n"} {
		if server.Int(t, "PTTL", "resque:"+key) < 1 {
			t.Errorf("%s stays for good", key)
		}
	}
}

// Whichever command of the script Redis refuses to the user, nothing changes without a line of the audit, and with no room for one nothing
// changes at all.
func TestNothingChangesUnaudited(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	server := redistest.Start(t)
	changes := []Change{SetNumber("c:A", "3"), DropNumber("c:B"), PauseQueue("mail"), ResumeQueue("low")}
	for _, memory := range []int{0, 1} {
		server.Do(t, "CONFIG", "SET", "maxmemory", memory)
		for _, refused := range []string{"none", "hlen", "xrange", "llen", "hget", "scard", "hdel", "lpush", "ltrim", "hset", "sadd", "srem", "time", "xadd", "pexpire", "publish"} {
			server.Do(t, "FLUSHALL")
			rules := []any{"SETUSER", "operator", "reset", "on", ">secret", "~*", "&*", "+@all"}
			if refused != "none" {
				rules = append(rules, "-"+refused)
			}
			server.Do(t, "ACL", rules...)
			c, err := redis.Dial("tcp", server.Addr, redis.DialUsername("operator"), redis.DialPassword("secret"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = New(resque.New("")).Announce(c, Announcement{Message: []byte("{}"), Rules: []Rule{{Name: "pause:mail", Value: "1"}, {Name: "-", Any: true}}, Changes: changes, Audit: []byte("paused")})
			c.Close()
			if goes := refused == "none" || refused == "publish"; goes != (err == nil) {
				t.Errorf("without %s: %v", refused, err)
			}
			audited := server.Int(t, "LLEN", "resque:go:audit") == 1
			for _, key := range server.Keys(t) {
				if !audited {
					t.Errorf("without %s, at maxmemory %d, %s is written and the audit has no line", refused, memory, key)
				}
			}
			if err == nil && !audited {
				t.Errorf("without %s the audit has no line", refused)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	var many []Rule
	for n := range MostRules + 1 {
		many = append(many, Rule{Name: "class:" + time.Duration(n).String(), Value: "1"})
	}
	if _, err := s.Announce(c, Announcement{Rules: many}); !errors.Is(err, ErrFull) {
		t.Errorf("too many rules: %v", err)
	}
	if _, err := s.Announce(c, Announcement{Rules: many[1:]}); err != nil {
		t.Error(err)
	}
	if _, err := s.Announce(c, Announcement{Rules: []Rule{many[0], {Name: many[1].Name, Any: true}}}); err != nil {
		t.Errorf("one in place of another: %v", err)
	}
	for _, an := range []Announcement{
		{Message: make([]byte, MostMessage+1)}, {Rules: []Rule{{Value: "1"}}}, {Rules: []Rule{{Name: "a", Value: strings.Repeat("x", MostRuleBytes)}}},
	} {
		if _, err := s.Announce(c, an); err == nil {
			t.Error("too large, and no error")
		}
	}
	for n := range MostNotices {
		if _, err := s.Tell(c, strings.Repeat("x", n+1), "1", false); n < MostNotices-1 && err != nil {
			t.Error(err)
		} else if n == MostNotices-1 && !errors.Is(err, ErrFull) { // "rules" is among them
			t.Errorf("the notice has no end: %v", err)
		}
	}
	if _, err := s.Tell(c, "x", "", true); err != nil || server.Int(t, "HEXISTS", "resque:go:notice", "x") != 0 {
		t.Errorf("a field is not removed: %v", err)
	}

	piece := Piece{Process: "p", Bytes: make([]byte, PieceBytes)}
	pieces := 0
	for room := true; room; pieces++ {
		var err error
		if room, err = s.Answer(c, piece, "a", false); err != nil {
			t.Fatal(err)
		}
	}
	if most := MostAnswered / PieceBytes; pieces < most-2 || pieces > most {
		t.Errorf("%d pieces have room", pieces-1)
	}
	if room, err := s.Answer(c, Piece{Process: "q", Last: true, Bytes: []byte("no room")}, "a", true); !room || err != nil {
		t.Errorf("a process cannot say that its answer has no room: %v, %v", room, err)
	}
}

func TestAnswersAreReadOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	if pieces, err := s.ReadAnswers(c, "a", "0", time.Millisecond); err != nil || len(pieces) > 0 {
		t.Errorf("without an answer: %v, %v", pieces, err)
	}
	for n := range 3 {
		if room, err := s.Answer(c, Piece{Process: "p", Number: n, Last: n == 2, Bytes: []byte{byte(n)}}, "a", false); !room || err != nil {
			t.Fatal(room, err)
		}
	}
	pieces, err := s.ReadAnswers(c, "a", "0", time.Minute)
	if err != nil || len(pieces) != 3 || pieces[1].Number != 1 || pieces[1].Last || !pieces[2].Last || pieces[2].Process != "p" || pieces[2].Bytes[0] != 2 {
		t.Errorf("%+v, %v", pieces, err)
	}
	if rest, err := s.ReadAnswers(c, "a", pieces[0].ID, time.Minute); err != nil || len(rest) != 2 {
		t.Errorf("behind the first there are %v, %v", rest, err)
	}
	if err := s.Forget(c, "a"); err != nil || server.Int(t, "EXISTS", "resque:go:reply:a", "resque:go:reply:a:n") != 0 {
		t.Errorf("the answers stay: %v", err)
	}
}

// A key of another type stops a script before it writes.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	listening := Listening{For: time.Minute, Kept: time.Minute, Mark: "a", Streams: []Stream{{s.StreamKey("one"), "one", 10}, {s.StreamKey("two"), "two", 10}}}
	for _, key := range []string{"go:notice", "go:control", "go:rules", "go:audit", "go:reply:a", "go:reply:a:n", "go:one", "go:two"} {
		server.Do(t, "FLUSHALL")
		if server.Do(t, "SET", "resque:"+key, "x"); key == "go:reply:a:n" {
			server.Do(t, "DEL", "resque:"+key)
			server.Do(t, "RPUSH", "resque:"+key, "x")
		}
		before := server.Snapshot(t, "resque:")
		var errs []error
		_, err := s.Announce(c, Announcement{Message: []byte("{}"), Rules: []Rule{{Name: "a", Value: "b"}}, Audit: []byte("{}")})
		errs = append(errs, err)
		_, err = s.Tell(c, "events", "1", true)
		errs = append(errs, err)
		_, err = s.Answer(c, Piece{Process: "p"}, "a", false)
		errs = append(errs, err)
		_, _, err = s.Listen(c, listening)
		errs = append(errs, err)
		refused := 0
		for _, err := range errs {
			if resque.IsWrongType(err) {
				refused++
			} else if err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		after := server.Snapshot(t, "resque:")
		if refused == 0 || (refused == len(errs)) != reflect.DeepEqual(before, after) {
			t.Errorf("%s: %d were refused; before %v, after %v", key, refused, before, after)
		}
		if value := server.Text(t, "TYPE", "resque:"+key); value != "string" && value != "list" {
			t.Errorf("%s became a %s", key, value)
		}
	}
}

func TestCommandsAreSigned(t *testing.T) {
	t.Parallel()
	s, key := New(resque.New("a")), []byte(strings.Repeat("k", 32))
	message := []byte(`{"verb":"shutdown"}`)
	signature := s.Sign(key, message)
	if !s.Signed(key, message, signature) {
		t.Error("its own signature is wrong")
	}
	for what, signed := range map[string]bool{
		"another key":         s.Signed([]byte(strings.Repeat("l", 32)), message, signature),
		"no key":              s.Signed(nil, message, New(resque.New("a")).Sign(nil, message)),
		"another namespace":   New(resque.New("b")).Signed(key, message, signature),
		"another message":     s.Signed(key, append([]byte(" "), message...), signature),
		"no signature":        s.Signed(key, message, ""),
		"no digits":           s.Signed(key, message, "x"+signature[1:]),
		"half of a signature": s.Signed(key, message, signature[:32]),
		"capital digits":      s.Signed(key, message, strings.ToUpper(signature)),
	} {
		if signed {
			t.Errorf("%s is taken", what)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	p := Names{ID: "web-1:722:be04", Host: "web-1", Name: "mailer"}
	for to, want := range map[string]bool{
		"": true, "web-1:722:be04": true, "web-1": true, "mailer": true, "web-*": true, "*": true, "mail?r": true, "web-[12]": true,
		"web-2": false, "web": false, "WEB-1": false, "mail?": false, "other web-1": true, "web-1*be04": true,
	} {
		if got := p.Meant(strings.Fields(to)); got != want {
			t.Errorf("%q means it: %v", to, got)
		}
	}
	if (Names{ID: "a"}).Meant([]string{""}) {
		t.Error("a process without a name is meant by an empty address")
	}
	for _, bad := range []string{"", "[", "a[b"} {
		if CheckAddresses([]string{"a", bad}) == nil {
			t.Errorf("%q is an address", bad)
		}
	}
}

func FuzzParseCommand(f *testing.F) {
	text, _ := Command{ID: NewID(), Verb: "ping", To: []string{"a*"}, At: 1, Until: 2, Args: json.RawMessage(`{"a":1}`)}.Encode()
	f.Add(text)
	f.Add([]byte(`{"v":2,"id":"00000000000000000000000000000000"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseCommand(text)
		if err == nil && (c.V > Version || len(c.ID) != 32) {
			t.Errorf("%q is a command", text)
		}
		if strings.ContainsAny(c.ID, ": *\n") {
			t.Errorf("the id %q could be of another key", c.ID)
		}
	})
}

// Of programs that begin to listen, one marks a stream. The others find it asked for. A field that is over, or that lies further ahead than
// any program asks for, is none. It works when Redis is out of memory, and nothing stays for good.
func TestListenMarksOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := server.Dial(t), New(resque.New(""))
	one, two := Stream{s.StreamKey("one"), "one", 10}, Stream{s.StreamKey("two"), "two", 10}
	listen := func(want int, streams ...Stream) {
		t.Helper()
		before := time.Now().Truncate(time.Millisecond)
		now, marked, err := s.Listen(c, Listening{For: time.Minute, Kept: time.Hour, Mark: "m", Streams: streams})
		if err != nil || marked != want || now.Before(before) {
			t.Errorf("%d streams are marked, not %d, at %s: %v", marked, want, now, err)
		}
		notices, err := s.Notices(c)
		for _, one := range streams {
			if notices[one.Field] != strconv.FormatInt(now.Add(time.Minute).UnixMilli(), 10) || err != nil {
				t.Errorf("the notice is %v at %d: %v", notices, now.UnixMilli(), err)
			}
		}
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", 1)
	listen(1, one)
	listen(1, one, two)
	listen(0, two, one)
	server.Do(t, "CONFIG", "SET", "maxmemory", 0)
	server.Do(t, "HSET", "resque:go:notice", "one", 1)
	listen(1, two, one)
	server.Do(t, "HSET", "resque:go:notice", "one", time.Now().Add(3*time.Second).UnixMilli()) // processes may stop before they read the new one
	listen(1, two, one)
	server.Do(t, "HSET", "resque:go:notice", "two", time.Now().Add(time.Hour).UnixMilli())
	listen(1, one, two)
	for key, n := range map[string]int{"one": 3, "two": 2} {
		if got := server.Int(t, "XLEN", "resque:go:"+key); got != n || server.Int(t, "PTTL", "resque:go:"+key) < 1 {
			t.Errorf("%s has %d entries", key, got)
		}
	}
	for n := range MostNotices {
		server.Do(t, "HSET", "resque:go:notice", n, "1")
	}
	server.Do(t, "HDEL", "resque:go:notice", "one", "two")
	before := server.Snapshot(t, "resque:")
	if _, _, err := s.Listen(c, Listening{For: time.Minute, Kept: time.Hour, Mark: "m", Streams: []Stream{one}}); !errors.Is(err, ErrFull) {
		t.Errorf("the notice is full: %v", err)
	}
	if after := server.Snapshot(t, "resque:"); !reflect.DeepEqual(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}
