package look

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ raw, want string }{
		{``, ``},
		{`[]`, `[]`},
		{`[9007199254740993,-1.5e-9]`, "[\n  <span class=\"nu\">9007199254740993</span>,\n  <span class=\"nu\">-1.5e-9</span>\n]"},
		{`{"a\"b":null}`, "{\n  <span class=\"k\">&#34;a\\&#34;b&#34;</span>: <span class=\"nu\">null</span>\n}"},
		{`["••••1111"]`, "[\n  <span class=\"x\">&#34;••••1111&#34;</span>\n]"},
		{`["cut off`, `[<span class="st">&#34;cut off</span>`},
		{`not json <b>`, `not json &lt;b&gt;`},
		{"\"\xff\x00\u202e\"", `<span class="st">&#34;` + "\uFFFD" + `<span class="x">\u0000</span><span class="x">\u202e</span>&#34;</span>`},
	} {
		if got := string(JSON(tt.raw)); got != tt.want {
			t.Errorf("JSON(%q)\n got %s\nwant %s", tt.raw, got, tt.want)
		}
	}
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	if got := JSON(deep); string(got) != deep {
		t.Errorf("deep JSON became %d bytes long", len(got))
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial ‹10.0.0.1:80›: refused": `dial <span class="mk">10.0.0.1:80</span>: refused`,
		"a › b ‹c <d>":                `a › b <span class="mk">c &lt;d&gt;</span>`,
		"":                            "",
	} {
		if got := string(Message(text)); got != want {
			t.Errorf("Message(%q) = %s", text, got)
		}
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	for line, own := range map[string]bool{
		"/srv/app/jobs/charge_card.rb:31:in `perform'":                        true,
		"app/models/card.rb:7":                                                true,
		"/usr/local/bundle/gems/stripe-12.1.0/lib/stripe.rb:88:in `request'":  false,
		"/usr/local/lib/ruby/3.3.0/net/protocol.rb:229:in `rbuf_fill'":        false,
		"<internal:kernel>:187:in `loop'":                                     false,
		"    at charge (/srv/app/charge.js:10:3)":                             true,
		"    at Object.<anonymous> (/srv/app/node_modules/x/index.js:1:1)":    false,
		"    at process.processTicks (node:internal/process/task_queues:95)":  false,
		"#3 /srv/app/vendor/guzzlehttp/guzzle/src/Client.php(331): request()": false,
		"goroutine 7 [running]:":                                              false,
		"runtime.gopanic({0x1, 0x2})":                                         false,
		"main.charge(0xc0001)":                                                true,
	} {
		want := `<span class="lib">`
		if own {
			want = `<span class="own">`
		}
		if got := string(Trace(line)); !strings.HasPrefix(got, want) {
			t.Errorf("%q is %s", line, got)
		}
	}
	got := string(Trace("main.charge()\n\t/srv/app/a.go:1", "x.Do()", "\t/go/pkg/mod/x/x.go:2", "net/http.(*Server).Serve()\n\t/opt/x/server.go:3"))
	classes := regexp.MustCompile(`class="(\w+)"`).FindAllStringSubmatch(got, -1)
	var all []string
	for _, c := range classes {
		all = append(all, c[1])
	}
	if strings.Join(all, " ") != "own own lib lib lib lib" {
		t.Errorf("the frames are %v:\n%s", all, got)
	}
	if got := string(Trace(make([]string, 0)...)); got != `<span class="own"></span>` {
		t.Errorf("no frames are %s", got)
	}
	many := string(Trace(strings.Repeat("a\n", 1000)))
	if !strings.HasSuffix(many, "… and 600 more lines</span>") {
		t.Errorf("a long backtrace ends with %s", many[len(many)-60:])
	}
}

// tags are all that the functions of code.go may write.
var tags = regexp.MustCompile(`<span class="(k|st|nu|x|mk|own|lib)">|</span>`)

// safe holds that a text has no markup but our own, that it is valid, and that its words are those of the input.
func safe(t *testing.T, out string) string {
	t.Helper()
	plain := tags.ReplaceAllString(out, "")
	if strings.ContainsAny(plain, `<>"`) || !utf8.ValidString(out) {
		t.Errorf("the text has markup or is not UTF-8: %q", out)
	}
	if strings.Count(out, "<span") != strings.Count(out, "</span>") {
		t.Errorf("spans are not closed: %q", out)
	}
	return html.UnescapeString(plain)
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"b\"",null]}`, `"<b>`, "\xff\x00", `[[[`, `{"a":"\`, "-", `"••"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		raw = strings.ReplaceAll(raw, "\r", "\n") // a blank of JSON, which indenting may take away
		got := safe(t, string(JSON(raw)))
		if words(got) != words(html.UnescapeString(tags.ReplaceAllString(visible(raw), ""))) {
			t.Errorf("%q became %q", raw, got)
		}
	})
}

// words leaves out blanks, which indenting adds.
func words(s string) string { return strings.Join(strings.Fields(s), "") }

func FuzzTrace(f *testing.F) {
	for _, seed := range []string{"a.rb:1\n/gems/b.rb:2", "main.x()\n\t/a.go:1", "‹<b>", "\xff\n\n\x00", "‹a‹b››"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		safe(t, string(Trace(raw)))
		safe(t, string(Trace(raw, raw)))
		safe(t, string(Message(raw)))
		safe(t, string(Text(raw)))
	})
}
