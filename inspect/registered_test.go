package inspect_test

import (
	"fmt"
	"testing"
	"time"
)

// What the processes of the fleet have registered is merged by name: the one that changed last counts, and older releases are silent.
// Their schedules are among those that Redis knows.
func TestRegistered(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	server.Do(t, "ZADD", "resque:go:processes", 1e13, "new", 1e13, "old", 1e13, "silent")
	server.Do(t, "SET", "resque:go:process-more:old", `{"at":1,"classes":[{"name":"A","retries":1},{"name":"B"}],"schedules":[{"name":"hourly","class":"A","queue":"q","every":1000}],"left":2}`)
	server.Do(t, "SET", "resque:go:process-more:new", `{"at":2,"classes":[{"name":"A","options":["x"],"timeout":1500,"retries":-1,"limits":["l"]}],
		"schedules":[{"name":"hourly","class":"A","queue":"q","args":["a",{"b":1}],"every":3600000,"description":"text"},
		{"name":"local","class":"A","queue":"q","cron":"0 3 * * *","zone":"Local"},{"name":"kept","class":"Old","queue":"q","every":1000}]}`)
	server.Do(t, "SET", "resque:go:process-more:gone", `{"at":3,"classes":[{"name":"Gone"}]}`)
	server.Do(t, "HSET", "resque:persistent_schedules", "kept", `{"class":"Kept","every":"1h","queue":"kept"}`)
	r, err := i.Registered(ctx)
	got := ""
	for _, c := range r.Classes {
		got += fmt.Sprintf("%s%v%s%d%v%v;", c.Name, c.Options, c.Timeout, c.Retries, c.Limits, c.Processes)
	}
	for _, s := range r.Schedules {
		got += fmt.Sprintf("%s%s%s%v;", s.Name, s.Every, s.Zone, s.Processes)
	}
	want(t, "registered", "A[x]1.5s-1[l][new old];B[]0s0[][old];hourly1h0m0s[new old];kept1s[new];local0sLocal[new];2[silent]",
		got+fmt.Sprintf("%d%v", r.Left, r.Silent), err)
	one, err := i.ProcessMore(ctx, "old")
	want(t, "of one process", []int{2, 1, 2, 0}, []int{len(one.Classes), len(one.Schedules), one.Left, len(one.Silent)}, err)
	none, err := i.ProcessMore(ctx, "silent")
	want(t, "of a silent one", []string{"silent"}, none.Silent, err)

	server.Do(t, "HSET", "resque:go:ticks", "hourly", fmt.Sprint(time.Now().UnixMilli(), " - y"))
	all, err := i.Schedules(ctx)
	got = ""
	for _, s := range all {
		got += fmt.Sprintf("%s %s%v %s%d%t%t;", s.Name, s.Source, s.Processes, s.Class, len(s.Args), s.Kept, !s.Next.IsZero())
	}
	want(t, "schedules", "hourly code[new old] A2falsetrue;kept redis[new] Kept0truefalse;local code[new] A0falsefalse;", got, err)
}
