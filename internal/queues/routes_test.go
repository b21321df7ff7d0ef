package queues

import "testing"

func TestRoutes(t *testing.T) {
	t.Parallel()
	var routes Routes
	for _, list := range []string{"*,!secret,!low", "high=2,low", "low,mail_*"} {
		spec, err := Parse([]string{list})
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, Route{Spec: spec, Shard: "a", List: list})
	}
	for queue, want := range map[string][2]int{
		"high": {1, 1}, "low": {1, 1}, "mail_a": {0, -1}, "other": {0, -1}, "secret": {-1, -1}, "*": {0, -1}, "mail_*": {0, -1},
	} {
		find := routes.Finder()
		if got := routes.Find(queue); got != want[0] {
			t.Errorf("%s belongs to list %d, want %d", queue, got, want[0])
		}
		for range 2 {
			if got, err := find(queue); got != want[0] || (err == nil) != (got >= 0) {
				t.Errorf("%s is found on list %d (%v), want %d", queue, got, err, want[0])
			}
		}
		if got := routes.namer(queue, -1); got != want[1] {
			t.Errorf("%s is named by list %d, want %d", queue, got, want[1])
		}
	}
	if got := routes[2:].Find("mail_a"); got != 0 {
		t.Errorf("mail_a belongs to list %d of one", got)
	}
}

// A queue stays where it lay when the list of its shard changes.
func TestRoutesChange(t *testing.T) {
	t.Parallel()
	parse := func(list string) Spec {
		spec, err := Parse([]string{list})
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	var routes Routes
	for shard, list := range []string{"*,!low", "mail,video"} {
		var err error
		if routes, err = routes.Add("ab"[shard:shard+1], parse(list), []string{list}); err != nil {
			t.Fatal(err)
		}
	}
	before := routes
	routes, err := routes.Change(1, parse("audio"))
	if err != nil {
		t.Fatal(err)
	}
	if routes, err = routes.Change(0, parse("low,other")); err != nil {
		t.Fatal(err)
	}
	for queue, want := range map[string]int{"audio": 1, "mail": 1, "video": 1, "low": 0, "other": 0, "else": 0} {
		if got := routes.Find(queue); got != want {
			t.Errorf("%s belongs to list %d, want %d", queue, got, want)
		}
	}
	if before.Find("audio") != 0 {
		t.Error("routes that are in use have changed")
	}
	for shard, list := range map[int]string{0: "mail", 1: "low"} {
		if _, err := routes.Change(shard, parse(list)); err == nil {
			t.Errorf("%s lies on two shards", list)
		}
	}
	if routes, err = routes.Change(1, parse("mail,audio")); err != nil || routes.Find("mail") != 1 {
		t.Errorf("a list does not come back: %v", err)
	}
}
