package cluster_test

import (
	"fmt"
	"os"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cluster"
)

// A worker in a Redis Cluster. The braces in the namespace keep all its keys on one
// node; in Ruby the same is Resque.redis.namespace = "{resque}".
func ExampleOpen() {
	goworker.RegisterDialer("redis+cluster", cluster.Open)
	goworker.SetSettings(goworker.WorkerSettings{
		URI:          "redis+cluster://:" + os.Getenv("REDIS_PASSWORD") + "@node-1,node-2",
		Namespace:    "{resque}:",
		QueuesString: "mail",
	})
	goworker.Register("Welcome", func(to string) { fmt.Println("to", to) })
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
