package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A deploy is the first process of a version, or what was recorded, which goes before that.
func TestDeploys(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	online := func(at int, process string, more ...any) {
		server.Do(t, "XADD", append([]any{"resque:go:log", fmt.Sprint(at, "-0"), "kind", "online", "process", process}, more...)...)
	}
	online(1000, "a", "version", "v1")
	online(2000, "b", "version", "v1")
	online(3000, "c", "version", "v2", "app", "1.0")
	online(4000, "d", "version", "v2", "app", "1.0")
	server.Do(t, "XADD", "resque:go:log", "5000-0", "kind", "offline", "process", "d", "version", "v3")
	online(6000, "e", "version", "v2", "app", "2.0")
	if err := i.By("ci", "").RecordDeploy(ctx, "2.0", "build 7"); err != nil {
		t.Fatal(err)
	}
	all, err := i.Deploys(ctx, time.Time{})
	got := ""
	for _, d := range all {
		got += fmt.Sprintf("%q %q %t %q %s%s;", d.Version, d.Text, d.Named, d.By, d.Goworker, d.Process)
	}
	want(t, "deploys", `"" "" false "" v1a;"1.0" "" false "" v2c;"2.0" "build 7" true "ci" ;`, got, err)
	some, err := i.Deploys(ctx, time.UnixMilli(3001))
	want(t, "of late", 1, len(some), err)
	for _, version := range []string{"", strings.Repeat("x", 101), "a\nb", "\xff"} {
		if i.RecordDeploy(ctx, version, "") == nil {
			t.Errorf("%q was deployed", version)
		}
	}
	audit, err := i.Audit(ctx, 10)
	want(t, "audited", 1, len(audit), err)
}
