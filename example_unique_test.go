package goworker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker"
)

// A report is made once, however often it is asked for meanwhile.
func ExampleUnique() {
	d := demo()
	defer d.Close()
	d.Register("Report", func(month string) { fmt.Println("report of", month) }, goworker.Unique())

	report := goworker.NewJob("mail", "Report", "October")
	for range 2 {
		_, err := d.Client().Enqueue(context.Background(), report)
		var duplicate *goworker.DuplicateError
		if errors.As(err, &duplicate) {
			fmt.Println("there is one in queue", duplicate.Queue)
		} else if err != nil {
			fmt.Println(err)
		}
	}
	if err := d.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// there is one in queue mail
	// report of October
}

// Of several saves of a document the last one runs, a while after it was asked for.
func ExampleReplaceWaiting() {
	d := demo()
	defer d.Close()
	for _, text := range []string{"W", "Wo", "Word"} {
		save := goworker.NewJob("mail", "Save", 7, text)
		receipt, err := d.Client().Enqueue(context.Background(), save, goworker.ProcessIn(time.Minute),
			goworker.Unique(goworker.ByKey("document 7"), goworker.ReplaceWaiting()))
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(text, "replaces one:", receipt.Replaced != "")
	}
	// Output:
	// W replaces one: false
	// Wo replaces one: true
	// Word replaces one: true
}

// A reminder that comes too late is dropped.
func ExampleExpireAfter() {
	d := demo()
	defer d.Close()
	d.Register("Remind", func(of string) { fmt.Println("remember", of) })
	for of, expiry := range map[string]goworker.EnqueueOption{
		"the meeting today":     goworker.ExpireAfter(time.Hour),
		"the meeting yesterday": goworker.ExpiresAt(time.Now().AddDate(0, 0, -1)),
	} {
		remind := goworker.NewJob("mail", "Remind", of)
		if _, err := d.Client().Enqueue(context.Background(), remind, expiry); err != nil {
			fmt.Println(err)
		}
	}
	if err := d.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	info, err := d.Client().Inspect().Fleet(context.Background())
	fmt.Println(info.Expired, "came too late", err)
	// Output:
	// remember the meeting today
	// 1 came too late <nil>
}
