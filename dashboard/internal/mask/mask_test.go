package mask

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const o = Mark

// The tokens are put together, so that no scanner of repositories takes them for real ones.
var (
	token  = "eyJhbGciOi" + "JIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
	stripe = "sk_" + "live_4eC39HqLyjWDarjtT1"
	github = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"
	slack  = "xox" + "b-2345-6789-abcdef"
	step   = "KMQY32D3W3N6YO3O.2." + "QRSTUVWX234567ABCDEFGHIJKL"
	amazon = "AKIA" + "IOSFODNN7EXAMPLE"
	block  = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\nab==\n-----END RSA " + "PRIVATE KEY-----"
)

// The words of a key say whether its value is secret.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"password", "Password", "user_password", "passwordConfirmation", "PASSWORD", "pwd", "passwd", "client_secret", "clientSecret", "secrets",
		"accessToken", "X-Auth-Token", "token", "tokens", "authtoken", "API-KEY", "api key", "apiKey", "APIKey", "apikey", "x-api-key", "Authorization",
		"Set-Cookie", "session", "sessionId", "session_id", "sessionid", "card", "creditCard", "card_number", "cardnumber", "cvv", "CVV2", "cvc", "iban",
		"userIBAN", "ssn", "private_key", "privateKey", "credentials", "user.password", "user[password]", "PassWord", "token2",
	} {
		if !secretKey([]byte(key)) {
			t.Errorf("%s is not secret", key)
		}
	}
	for _, key := range []string{"", "name", "account", "discard", "postcard", "wildcard", "cardinality", "tokenizer", "secretary", "possession", "key", "id", "pass", "author", "keyword", "api", "privately", "user_id"} {
		if secretKey([]byte(key)) {
			t.Errorf("%s is secret", key)
		}
	}
}

// What a text shows of secrets.
func TestText(t *testing.T) {
	t.Parallel()
	m := New(Rules{})
	for text, want := range map[string]string{
		"":                                       "",
		"nothing here: 12:30, a=b":               "nothing here: 12:30, a=b",
		"got " + token + ", no":                  "got " + o + ", no",
		"Bearer abc.def rest":                    "Bearer " + o + " rest",
		"key " + stripe + "!":                    "key " + o + "!",
		github + " " + slack:                     o + " " + o,
		"github" + "_pat_11AB_x":                 o,
		"at " + amazon + ".":                     "at " + o + ".",
		"a\n" + block + "\nb":                    "a\n" + o + "\nb",
		block[:40]:                               o,
		"card 4111111111111111 x":                "card " + o + " x",
		"4111 1111 1111 1111":                    o,
		"on 2026-11-27 4111-1111-1111-1111, yes": "on 2026-11-27 " + o + ", yes",
		"4111111111111112":                       "4111111111111112",
		"1764257270000 ms":                       "1764257270000 ms",
		"0.4111111111111111":                     "0.4111111111111111",
		"41111111111111111111111111":             "41111111111111111111111111",
		"redis://user:pa:ss@cache:6379/0":        "redis://user:" + o + "@cache:6379/0",
		"redis://:pw@cache":                      "redis://:" + o + "@cache",
		"http://host:80/a@b":                     "http://host:80/a@b",
		"https://x/?token=abc&page=2":            "https://x/?token=" + o + "&page=2",
		"user%5Bpassword%5D=x&a=1":               "user%5Bpassword%5D=" + o + "&a=1",
		`{"password":"a \" b","n":1}`:            `{"password":"` + o + `","n":1}`,
		`{\"password\":\"ab\",\"n\":1}`:          `{\"password\":\"` + o + `\",\"n\":1}`,
		`"token": 12345, "n": 1`:                 `"token": ` + o + `, "n": 1`,
		`"token": {"a":["b","}"]}, "n":1`:        `"token": ` + o + `, "n":1`,
		`{:password=>"x", :a=>1}`:                `{:password=>"` + o + `", :a=>1}`,
		`{password: "x", a: 1}`:                  `{password: "` + o + `", a: 1}`,
		"{Password:hunter2 Name:ada}":            "{Password:" + o + " Name:ada}",
		"map[password:hunter2 user:ada]":         "map[password:" + o + " user:ada]",
		"Authorization: Basic dXNlcg==\nHost: x": "Authorization: " + o + "\nHost: x",
		"Cookie: a=b; c=d":                       "Cookie: " + o,
		"API key: abc":                           "API key: " + o,
		"password=":                              "password=",
		"password = 4111 1111 1111 1111":         "password = " + o,
		"SECRET == abc":                          "SECRET == " + o,
		"Session::Expired":                       "Session::Expired",
		"InvalidTokenError: it is late":          "InvalidTokenError: it is late",
		"app/session.rb:12:in `call'":            "app/session.rb:12:in `call'",
		`"password":"cut off`:                    `"password":"` + o,
		"pass\xffword=\xfe secret=\xfd x":        "pass\xffword=\xfe secret=" + o + " x",
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%q\ngot  %q\nwant %q", text, got, want)
		}
		if again := m.Text(m.Text(text)); again != m.Text(text) {
			t.Errorf("%q: masked again it is %q", text, again)
		}
		if got := New(Rules{Level: Show}).Text(text); got != text {
			t.Errorf("shown: %q", got)
		}
	}
}

// Jobs keep every byte that is not masked.
func TestPayload(t *testing.T) {
	t.Parallel()
	m := New(Rules{
		Args: map[string][]string{"Charge": {"0.card.no", "1.items.*.code", `2."a.b"`}, "Rails": {"0.amount"}},
		Func: func(class string, path []string, value string) bool {
			return class == "Charge" && strings.Join(path, ".") == "3.x" || value == "forbidden"
		},
	})
	wrapped := func(amount string) string {
		return `{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Rails","job_id":"4111111111111111","arguments":[{"amount":` + amount + `,"by":"ada","_aj_symbol_keys":["amount"]}],"locale":"en"}]}`
	}
	for job, want := range map[string]string{
		`{"class":"A","args":[9007199254740993, 1.0e5 , {"b":"\u00e9", "a":null}],"id":"4111111111111111"}`:                            "",
		`{"class":"A","args":[{"password": "hunter22" ,"n":9007199254740993}]}`:                                                        `{"class":"A","args":[{"password": "` + o + `" ,"n":9007199254740993}]}`,
		`{"class":"A","args":[{"pass\u0077ord":[1,{"x":true}]}]}`:                                                                      `{"class":"A","args":[{"pass\u0077ord":["` + o + `",{"x":"` + o + `"}]}]}`,
		`{"class":"A","args":[4111111111111111,"4111111111111111"]}`:                                                                   `{"class":"A","args":["` + o + `","` + o + `"]}`,
		`{"class":"A","args":["see ` + token + `!"]}`:                                                                                  `{"class":"A","args":["see ` + o + `!"]}`,
		`{"class":"A","args":[{"password":"hunter22"},"it is hunter22!"],"note":"hunter22"}`:                                           `{"class":"A","args":[{"password":"` + o + `"},"it is ` + o + `!"],"note":"` + o + `"}`,
		`{"class":"A","args":[{"pin_token":4740},4740,47401]}`:                                                                         `{"class":"A","args":[{"pin_token":"` + o + `"},"` + o + `",47401]}`,
		`{"class":"A","args":[],"meta":{"tenant":"acme","session":"x"}}`:                                                               `{"class":"A","args":[],"meta":{"tenant":"acme","session":"` + o + `"}}`,
		`{"class":"Charge","args":[{"card_":{"no":1}},{"items":[{"code":5},{"code":{"x":"y"},"n":6}]},{"a.b":7,"a":{"b":8}},{"x":9}]}`: `{"class":"Charge","args":[{"card_":{"no":"` + o + `"}},{"items":[{"code":"` + o + `"},{"code":{"x":"` + o + `"},"n":6}]},{"a.b":"` + o + `","a":{"b":8}},{"x":"` + o + `"}]}`,
		`{"class":"Other","args":[{"card_no":{}},{"items":[{"code":5}]}]}`:                                                             "",
		`{"class":"Other","args":["forbidden"]}`:                                                                                       `{"class":"Other","args":["` + o + `"]}`,
		wrapped(`12`):                                                                                                                  wrapped(`"` + o + `"`),
		`[{"password":"hunter22"}]`:                                                                                                    `[{"password":"` + o + `"}]`,
		`{"class":"A","args":[{"token":"x`:                                                                                             `{"class":"A","args":[{"token":"` + o,
		"no job":                                                                                                                       "",
		`{"class":"InvalidPayload","args":["base64:cGFzc3dvcmQ9aHVudGVyMgD/"]}`:                                                        `{"class":"InvalidPayload","args":["` + o + `"]}`,
		`{"class":"InvalidPayload","args":["base64:AAECAwQF/w=="]}`:                                                                    "",
	} {
		if want == "" {
			want = job
		}
		if got := string(m.Payload([]byte(job))); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", job, got, want)
		}
		p, err := payload.Parse([]byte(job))
		if err != nil {
			continue
		}
		if shown, err := payload.Parse([]byte(want)); err != nil || string(joined(m.Args(p.Class, p.Args))) != string(joined(shown.Args)) {
			t.Errorf("%s: the arguments are %s, %v", job, m.Args(p.Class, p.Args), err)
		}
	}
}

// Hide shows the structure, and what goworker and Rails write.
func TestHide(t *testing.T) {
	t.Parallel()
	m := New(Rules{Level: Hide})
	job := `{"class":"Mail","args":[1,"two",{"k":null}],"id":"x","attempt":2,"meta":{"tenant":"acme"},"extra":"y"}`
	want := `{"class":"Mail","args":["` + o + `","` + o + `",{"k":"` + o + `"}],"id":"x","attempt":2,"meta":{"tenant":"` + o + `"},"extra":"` + o + `"}`
	if got := string(m.Payload([]byte(job))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	rails := `{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Rails","job_id":"j","arguments":["ada"],"locale":"en"}]}`
	if got := string(m.Payload([]byte(rails))); got != strings.Replace(rails, "ada", o, 1) {
		t.Errorf("got %s", got)
	}
	if got := m.With([]byte(job)).Text("no acme for two, 9007"); got != "no "+o+" for two, 9007" {
		t.Error(got)
	}
	if got := string(m.Payload([]byte("no job"))); got != o {
		t.Error(got)
	}
	if got := m.Meta(map[string]string{"a": "b"}); got["a"] != o {
		t.Error(got)
	}
	if got := string(m.JSON([]byte(`[1,{"a":"b"}]`))); got != `["`+o+`",{"a":"`+o+`"}]` {
		t.Error(got)
	}
	if got := string(New(Rules{Level: Show}).Payload([]byte(`{"class":"A","args":[{"token":"x"}]}`))); !strings.Contains(got, `"x"`) {
		t.Error(got)
	}
}

// What is masked in a job is masked in what belongs to it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	m := New(Rules{})
	s := m.With([]byte(`{"class":"A","args":[{"password":"pä\"ss\nword2","cvv":"123","card":4111111111111111,"token":"abcdefgh-0123456789","secret":true,"cookie":"a b&c"}]}`))
	for text, want := range map[string]string{
		"wrong: pä\"ss\nword2":        "wrong: " + o,
		`wrong: "pä\"ss\nword2"`:      `wrong: "` + o + `"`,
		`wrong: p\u00e4\"ss\nword2`:   "wrong: " + o,
		"line word2":                  "line " + o,
		"code 123 and true":           "code 123 and true",
		"float 4.111111111111111e+15": "float " + o,
		"cut off abcdefgh-01…":        "cut off " + o + "…",
		"cut off abcdefgh-0":          "cut off " + o,
		"abcdefgh in words":           "abcdefgh in words",
		"q=a+b%26c, a b&c":            "q=" + o + ", " + o,
	} {
		if got := s.Text(text); got != want {
			t.Errorf("%q\ngot  %q\nwant %q", text, got, want)
		}
	}
	if got, want := string(s.JSON([]byte(`{"got":"abcdefgh-0123456789","n":4111111111111111,"token":"ziyx","b":["ziyx"]}`))), `{"got":"`+o+`","n":"`+o+`","token":"`+o+`","b":["`+o+`"]}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	many := []byte(`{"class":"A","args":[{"token":"` + strings.Repeat("x", mostValues+1) + `"}]}`)
	if got := m.With(many).Text("anything"); got != o {
		t.Error(got)
	}
}

// A failure and the job of a search lose what is masked everywhere.
func TestFailure(t *testing.T) {
	t.Parallel()
	m := New(Rules{})
	raw := `{"failed_at":"2026/11/27 10:00:00 UTC","payload":{"class":"A","args":[{"password":"hunter22"}]},"exception":"Oops","error":"no hunter22","backtrace":["a hunter22","b"],"worker":"w","queue":"q","x":{"token":"t"}}`
	want := strings.ReplaceAll(strings.Replace(raw, `"t"`, `"`+o+`"`, 1), "hunter22", o)
	if got := string(m.Record([]byte(raw))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(m.Record([]byte("token=abc"))); got != "token="+o {
		t.Error(got)
	}
	f := inspect.Failure{Payload: []byte(`{"class":"A","args":[{"password":"hunter22"}]}`), Error: "no hunter22", Backtrace: []string{"a hunter22", "b"}, Raw: []byte(raw), Invalid: errors.New("token=abc")}
	e := m.Entry(inspect.Entry{Class: "A", Payload: f.Payload, Args: []json.RawMessage{[]byte(`{"password":"hunter22"}`)}, Limits: []string{"by hunter22"}, Failure: &f})
	if text := fmt.Sprintf("%s %s %+v %+v", e.Payload, e.Args, e.Limits, *e.Failure); strings.Contains(text, "hunter22") || strings.Contains(text, "abc") || e.Failure.Raw != nil {
		t.Error(text)
	}
	if diff := cmp.Diff([]string{"a " + o, "b"}, e.Failure.Backtrace); diff != "" {
		t.Error(diff)
	}
	if f.Error != "no hunter22" || f.Backtrace[0] != "a hunter22" {
		t.Error("the failure itself was changed")
	}
	if diff := cmp.Diff(map[string]string{"tenant": "acme", "api_key": o, "at": "Bearer " + o}, m.Meta(map[string]string{"tenant": "acme", "api_key": "x", "at": "Bearer y"})); diff != "" {
		t.Error(diff)
	}
}

// A brief text ends between two characters, and outside of a Mark.
func TestBrief(t *testing.T) {
	t.Parallel()
	m := New(Rules{})
	job := []byte(`{"class":"Ä","args":[{"password":"hunter22"},"it is hunter22","` + strings.Repeat("é", 200) + `"]}`)
	whole := string(m.Payload(job))
	for n := range len(whole) + 2 {
		got := m.Brief(job, n)
		text, cut := strings.CutSuffix(got, "…")
		if !strings.HasPrefix(whole, text) || !utf8.ValidString(got) || len(text) > n || cut != (n < len(whole)) || strings.HasSuffix(strings.ReplaceAll(text, Mark, ""), "•") {
			t.Fatalf("%d: %q", n, got)
		}
	}
	if got := m.Brief([]byte("\xff\xfe token=abc"), 100); got != "? token="+o {
		t.Error(got)
	}
	if got := m.Brief([]byte("token="+strings.Repeat("a", 500)+" "+strings.Repeat("b", 500)), 40); got != "token="+o+" "+strings.Repeat("b", 15)+"…" {
		t.Error(got)
	}
}

// Large, deep and broken jobs end, and show nothing.
func TestHostile(t *testing.T) {
	t.Parallel()
	m := New(Rules{Args: map[string][]string{"A": {"0.*.x"}}, Func: func(string, []string, string) bool { return false }})
	const size = 1 << 18
	deep := strings.Repeat(`{"a":[`, 4000) + `{"password":"hunter22"}` + strings.Repeat(`]}`, 4000)
	for name, job := range map[string]string{
		"brackets":      strings.Repeat("[", size) + `{"password":"hunter22"}`,
		"deep":          `{"class":"A","args":[` + deep + `]}`,
		"quotes":        strings.Repeat(`"token":"`, size/9) + "hunter22",
		"open brackets": strings.Repeat(`"token":[`, size/9) + "hunter22",
		"names":         strings.Repeat(`token=a `, size/8) + "token=hunter22",
		"slashes":       `{"class":"A","args":["` + strings.Repeat(`\\`, size/2) + `",{"token":"hunter22"}]}`,
		"dashes":        strings.Repeat("-----BEGIN ", size/11) + "hunter22",
		"urls":          strings.Repeat("a://b:", size/6) + "hunter22@x",
		"digits":        strings.Repeat("4 ", size/2) + "token=hunter22",
		"many values":   `{"class":"A","args":[` + strings.Repeat(`{"token":"aaaa"},`, size/17) + `"hunter22"],"token":"hunter22"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, got := range []string{string(m.Payload([]byte(job))), m.Brief([]byte(job), len(job)), m.With([]byte(job)).Text(job)} {
				if strings.Contains(got, "hunter22") {
					t.Error("a secret is shown")
				}
			}
		})
	}
}

// Paths that cannot be meant are mistakes of the program.
func TestPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{"0": {"0"}, "0.a.*": {"0", "a", "*"}, `1."a.b".c`: {"1", "a.b", "c"}, "": nil, "0..a": nil, "0.": nil, `0."a`: nil, `0."a"b`: nil} {
		if got, ok := splitPath(path); ok != (want != nil) || ok && !cmp.Equal(want, got) {
			t.Errorf("%q: %q %v", path, got, ok)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(Rules{Args: map[string][]string{"A": {""}}})
}

func TestLevels(t *testing.T) {
	t.Parallel()
	if got := fmt.Sprint(Mask, Hide, Show, Level(7)); got != "mask hide show unknown" {
		t.Error(got)
	}
}

// The token that ends a step of a workflow keeps the step's id, and hides its secret. A version or an address is no token.
func TestStepToken(t *testing.T) {
	t.Parallel()
	m := New(Rules{})
	if got, want := m.Text("complete "+step+" now"), "complete KMQY32D3W3N6YO3O.2."+Mark+" now"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(m.Payload([]byte(`{"class":"Ask","args":[7,"` + step + `"],"external":true}`))); strings.Contains(got, "QRSTUVWX") {
		t.Error(got)
	}
	for _, plain := range []string{"goworker 1.24.0", "10.0.0.12", "KMQY32D3W3N6YO3O.2", "v1.2.ABCDEFGHIJKLMNO"} {
		if got := m.Text(plain); got != plain {
			t.Errorf("%q became %q", plain, got)
		}
	}
}
