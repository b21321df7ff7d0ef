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
		if got := routes.Namer(queue); got != want[1] {
			t.Errorf("%s is named by list %d, want %d", queue, got, want[1])
		}
	}
	if got := routes[2:].Find("mail_a"); got != 0 {
		t.Errorf("mail_a belongs to list %d of one", got)
	}
}
