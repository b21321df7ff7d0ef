package guard

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestHeaderAuth(t *testing.T) {
	t.Parallel()
	roles := func(name string) User {
		if name == "stranger" {
			return User{}
		}
		return User{Name: name, Role: Operator}
	}
	identify, err := HeaderAuth("X-Forwarded-User", []string{"10.0.0.5", "10.0.0.6/32", "fd00::5"}, roles)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		from   string
		names  []string
		status int // of the refusal; 0: let in
	}{
		{"10.0.0.5:4000", []string{"alice"}, 0},
		{"10.0.0.6:4000", []string{"alice"}, 0},
		{"[::ffff:10.0.0.5]:4000", []string{"alice"}, 0},
		{"[fd00::5]:4000", []string{"alice"}, 0},
		{"10.0.0.5:4000", []string{"käthe@example.com"}, 0},
		{"10.0.0.7:4000", []string{"alice"}, 401},
		{"127.0.0.1:4000", []string{"alice"}, 401},
		{"[::1]:4000", []string{"alice"}, 401},
		{"[fd00::6]:4000", []string{"alice"}, 401},
		{"10.0.0.5", []string{"alice"}, 401},
		{"@", []string{"alice"}, 401},
		{"", []string{"alice"}, 401},
		{"10.0.0.5:4000", nil, 401},
		{"10.0.0.5:4000", []string{""}, 401},
		{"10.0.0.5:4000", []string{" "}, 401},
		{"10.0.0.5:4000", []string{"alice", "bob"}, 401},
		{"10.0.0.5:4000", []string{"alice", ""}, 401},
		{"10.0.0.5:4000", []string{"alice\x7f"}, 401},
		{"10.0.0.5:4000", []string{"alice\xff"}, 401},
		{"10.0.0.5:4000", []string{strings.Repeat("a", 257)}, 401},
		{"10.0.0.5:4000", []string{"stranger"}, 403},
	} {
		r, _ := newRequest("GET", "/", nil)
		r.RemoteAddr = row.from
		r.Header.Set("X-Forwarded-For", "10.0.0.5")
		r.Header.Set("X_Forwarded_User", "root")
		r.Header["X-Forwarded-User"] = row.names
		u, err := identify(r)
		if row.status == 0 {
			if err != nil || u.Name != row.names[0] || u.Role != Operator {
				t.Errorf("%+v: %+v, %v", row, u, err)
			}
			continue
		}
		refused := refusal(t, err)
		if want := max(refused.Status, 401); want != row.status || refused.Wrong || u.Name != "" {
			t.Errorf("%+v: %+v, %+v", row, u, refused)
		}
	}
	plain, err := HeaderAuth("Remote-User", []string{"10.0.0.5"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := newRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.5:1"
	r.Header.Set("Remote-User", "alice")
	if u, err := plain(r); err != nil || u.Role != Viewer || u.Name != "alice" {
		t.Errorf("without roles: %+v, %v", u, err)
	}
	for _, bad := range [][]string{nil, {""}, {"10.0.0.0/8"}, {"10.0.0.0/31"}, {"0.0.0.0/0"}, {"::/0"}, {"0.0.0.0"}, {"::"}, {"224.0.0.1"}, {"proxy.example.com"}, {"10.0.0.5:80"}, {"10.0.0.5", "fd00::/64"}} {
		if _, err := HeaderAuth("X-Forwarded-User", bad, nil); err == nil {
			t.Errorf("the proxies %q are accepted", bad)
		}
	}
	for _, bad := range []string{"", "X-Forwarded-User:", "X User"} {
		if _, err := HeaderAuth(bad, []string{"10.0.0.5"}, nil); err == nil {
			t.Errorf("the header %q is accepted", bad)
		}
	}
}

func TestBearerTokens(t *testing.T) {
	t.Parallel()
	one, two := NewToken(), NewToken()
	identify, err := BearerTokens(map[string]User{one: {Name: "deploy", Role: Operator}, two: {Name: "graph"}})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := newRequest("GET", "/?token="+one, nil)
	for header, want := range map[string]string{
		"Bearer " + one: "deploy", "bearer " + one: "deploy", "BEARER  " + two: "graph",
		"": "", "Bearer": "", "Bearer ": "", one: "", "Basic " + one: "", "Bearer " + one[1:]: "", "Bearer " + one + "x": "", "Bearer " + strings.ToUpper(one): "", "Bearer " + one + " " + two: "",
	} {
		r.Header.Set("Authorization", header)
		u, err := identify(r)
		if u.Name != want || (err == nil) != (want != "") {
			t.Errorf("%q is %+v, %v", header, u, err)
		}
		if err != nil && len(refusal(t, err).Challenges) != 1 {
			t.Errorf("%q: %+v", header, err)
		}
	}
	for token, user := range map[string]User{"": {Name: "a"}, "short": {Name: "a"}, NewToken(): {}} {
		if _, err := BearerTokens(map[string]User{token: user}); err == nil || strings.Contains(err.Error(), "short") {
			t.Errorf("the token of %q: %v", user.Name, err)
		}
	}
}

func TestAnyOf(t *testing.T) {
	t.Parallel()
	if AnyOf() != nil || AnyOf(nil, nil) != nil {
		t.Error("none of them is no function, so that the page says how to set one")
	}
	fail := func(err error) Identify { return func(*http.Request) (User, error) { return User{}, err } }
	basic, token := &Refused{Challenges: []string{"Basic"}, Text: "Sign in."}, &Refused{Challenges: []string{"Bearer"}, Text: "Sign in.", Wrong: true}
	forbidden, broken := &Refused{Status: 403, Text: "Not you."}, &Refused{Status: 500, Text: "Broken."}
	for _, row := range []struct {
		errs []error
		want Refused
	}{
		{[]error{basic, token}, Refused{Challenges: []string{"Basic", "Bearer"}, Text: "Sign in.", Wrong: true}},
		{[]error{forbidden, basic}, Refused{Challenges: []string{"Basic"}, Text: "Not you. Sign in."}},
		{[]error{forbidden, errors.New("x")}, Refused{Text: "Not you."}},
		{[]error{forbidden, forbidden}, Refused{Status: 403, Text: "Not you."}},
		{[]error{basic, broken, forbidden}, Refused{Status: 500, Challenges: []string{"Basic"}, Text: "Sign in. Broken. Not you."}},
	} {
		ids := []Identify{nil}
		for _, err := range row.errs {
			ids = append(ids, fail(err))
		}
		r, _ := newRequest("GET", "/", nil)
		_, err := AnyOf(ids...)(r)
		got := refusal(t, err)
		if got.Status != row.want.Status || got.Text != row.want.Text || got.Wrong != row.want.Wrong || !slices.Equal(got.Challenges, row.want.Challenges) {
			t.Errorf("%v: %+v", row.errs, got)
		}
		if u, err := AnyOf(append(ids, as(User{Name: "a"}), as(User{Name: "b"}))...)(r); err != nil || u.Name != "a" {
			t.Errorf("%v, and one that knows the user: %+v, %v", row.errs, u, err)
		}
	}
}
