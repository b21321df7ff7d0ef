package dashboard_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard"
)

// A program mounts the dashboard with one line. Until Options.User is set nobody is let in, and the page says how to set it.
func ExampleHandler() {
	client, err := goworker.NewClient(goworker.WorkerSettings{}) // it dials when the dashboard is asked
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	mux := http.NewServeMux()
	mux.Handle("/jobs/", dashboard.Handler(client, dashboard.Options{}))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/jobs/", nil))
	fmt.Println(answer.Code)
	// Output: 403
}

// The names that a proxy of this host sets after its login decide who looks, and a list of the program who may act.
func ExampleHeaderAuth() {
	operators := map[string]bool{"ann": true}
	users, err := dashboard.HeaderAuth("X-Forwarded-User", []string{"127.0.0.1"}, func(name string) dashboard.User {
		if operators[name] {
			return dashboard.User{Name: name, Role: dashboard.Operator}
		}
		return dashboard.User{Name: name, Queues: []string{"mail*"}} // a viewer of some queues
	})
	if err != nil {
		log.Fatal(err)
	}

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "127.0.0.1:40000"
	r.Header.Set("X-Forwarded-User", "ann")
	user, err := users(r)
	fmt.Println(user.Name, user.Role, err)

	r.RemoteAddr = "10.0.0.9:40000" // this one did not come through the proxy
	_, err = users(r)
	fmt.Println(err != nil)
	// Output:
	// ann operator <nil>
	// true
}

// Options.Can decides in place of the role which actions a user may do.
func ExampleUser() {
	user := dashboard.User{Name: "night shift", Can: func(action string, on dashboard.Target) bool {
		return action == "failure.retry" || action == "queue.pause" && on.Queue != "payments"
	}}
	fmt.Println(user.May("failure.retry", dashboard.Operator, dashboard.Target{}))
	fmt.Println(user.May("queue.pause", dashboard.Operator, dashboard.Target{Queue: "payments"}))
	// Output:
	// true
	// false
}
