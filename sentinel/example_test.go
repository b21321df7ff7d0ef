package sentinel_test

import (
	"fmt"
	"os"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/sentinel"
)

// A worker whose Redis is the master that three Sentinels know as mymaster.
func ExampleOpen() {
	goworker.RegisterDialer("redis+sentinel", sentinel.Open)
	goworker.SetSettings(goworker.WorkerSettings{
		URI:          "redis+sentinel://:" + os.Getenv("REDIS_PASSWORD") + "@sentinel-1,sentinel-2,sentinel-3/mymaster",
		QueuesString: "mail",
		WaitReplicas: 1, // Enqueue waits until a replica has the job
	})
	goworker.Register("Welcome", func(to string) { fmt.Println("to", to) })
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
