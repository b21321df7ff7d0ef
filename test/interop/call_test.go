package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// divide is called by Node under its path, and under the name of As.
func divide(_ context.Context, a, b int) (int, int, error) {
	if b == 0 {
		return 0, 0, errors.New("nothing can be divided by 0")
	}
	return a / b, a % b, nil
}

func greet(who struct{ Name string }) (string, error) { return "Hello, " + who.Name, nil }

// Node calls Go's functions by their names: as plain jobs through its own Queue, and with the result, which it reads from the
// document.
func TestNodeCallsFunctions(t *testing.T) {
	const path = "github.com/goworker/goworker/test/interop."
	server, peer := setup(t)
	d := newDaemon(server, "go")
	returned := make(chan string, 1)
	d.AddHooks(goworker.Hooks{Success: func(_ context.Context, d *goworker.Delivery) {
		if d.ID == "" { // a plain job
			returned <- fmt.Sprint(d.Class, " returned ", d.Result)
		}
	}})
	d.RegisterFunc(divide)
	d.RegisterFunc(greet, goworker.As("people.Greet"), goworker.Alias(path+"greet"))
	d.run(t)

	peer.queue(t, "enqueue", "go", path+"divide", []any{17, 5})
	if got, want := receive(t, returned, "Node's job runs"), path+"divide returned [3 2]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	peer.queue(t, "enqueue", "go", path+"greet", []any{map[string]any{"name": "Ann"}})
	if got, want := receive(t, returned, "Node's job runs under its alias"), "people.Greet returned Hello, Ann"; got != want {
		t.Errorf("%s, want %s", got, want)
	}

	for _, tt := range []struct {
		class string
		args  []any
		event string
		want  string
	}{
		{path + "divide", []any{17, 5}, "result", `[3,2]`},
		{"people.Greet", []any{map[string]any{"Name": "Bob"}}, "result", `"Hello, Bob"`},
		{path + "divide", []any{1, 0}, "error", "nothing can be divided by 0"},
		{path + "divide", []any{1, "0"}, "error", "argument 2 of " + path + "divide is a string where int is expected; producer and handler must agree on its type"},
		{path + "missing", []any{}, "error", "uninitialized constant " + path + "missing: no handler is registered for this class in this process; " +
			"call goworker.Register with exactly this name, or let only workers that know it serve the queue"},
	} {
		args, err := json.Marshal(tt.args)
		if err != nil {
			t.Fatal(err)
		}
		caller := peer.start(t, "call.mjs", "go", tt.class, string(args))
		e := caller.next(t, tt.event)
		if tt.event == "result" && !sameJSON(t, e.Result, []byte(tt.want)) || tt.event == "error" && e.Error != tt.want {
			t.Errorf("%s%s: %+v, result %s; want %s", tt.class, args, e, e.Result, tt.want)
		}
		caller.stop(t)
	}

	// What Node has called, Go finds by its id.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	count := 0
	for status, err := range d.Client().Results(ctx, goworker.ResultFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		count++
		if status.Ended.Before(time.Now().Add(-time.Hour)) {
			t.Errorf("%+v", status)
		}
	}
	if count != 5 {
		t.Errorf("%d documents, want 5", count)
	}
}
