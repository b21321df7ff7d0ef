package goworker_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/goworker/goworker"
)

// failed is a daemon of whose jobs three have failed.
func failed() (d *goworker.Daemon, repair func()) {
	d = demo()
	broken := true
	d.Register("Mail", func(to string) error {
		if broken {
			return errors.New("dial tcp: i/o timeout")
		}
		fmt.Println("mail to", to)
		return nil
	})
	d.Register("Sum", func(a, b int) error { return errors.New("out of paper") })
	for _, p := range []goworker.Payload{
		{Class: "Mail", Args: []any{"Ada"}}, {Class: "Mail", Args: []any{"Grace"}}, {Class: "Sum", Args: []any{1, 2}},
	} {
		_ = d.Enqueue(&goworker.Job{Queue: "mail", Payload: p})
	}
	_ = d.Run(context.Background())
	return d, func() { broken = false }
}

func ExampleFailureList_Groups() {
	d, _ := failed()
	defer d.Close()

	groups, err := d.Failures().Groups(goworker.FailureFilter{})
	for _, g := range groups {
		fmt.Println(g.Count, g.Class, g.Exception)
	}
	fmt.Println(err)
	// Output:
	// 2 Mail Error
	// 1 Sum Error
	// <nil>
}

func ExampleFailureList_Search() {
	d, _ := failed()
	defer d.Close()

	failures := d.Failures()
	after := ""
	for {
		page, next, err := failures.Search(goworker.FailureFilter{Text: "timeout"}, after, 20)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, f := range page {
			fmt.Printf("%s %s: %s\n", f.Class, f.Payload, f.Error) // f.ID names it
		}
		if after = next; after == "" {
			break
		}
	}
	// Output:
	// Mail {"class":"Mail","args":["Grace"]}: dial tcp: i/o timeout
	// Mail {"class":"Mail","args":["Ada"]}: dial tcp: i/o timeout
}

func ExampleFailureList_RetryWhere() {
	d, repair := failed()
	defer d.Close()

	repair()
	n, err := d.Failures().RetryWhere(goworker.FailureFilter{Class: "Mail", Text: "timeout"})
	fmt.Println("retried", n, err)
	_ = d.Run(context.Background())
	n, err = d.Failures().RemoveWhere(goworker.FailureFilter{Retried: true})
	fmt.Println("removed", n, err)
	// Output:
	// retried 2 <nil>
	// mail to Ada
	// mail to Grace
	// removed 2 <nil>
}

func ExampleFailureList_RetryID() {
	d, repair := failed()
	defer d.Close()

	page, _, err := d.Failures().Search(goworker.FailureFilter{Class: "Mail"}, "", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	id := page[0].ID // keep it in a link, a ticket, a chat
	repair()
	_, err = d.Failures().RetryID(id)
	fmt.Println(err)
	_, err = d.Failures().RetryID(id) // another operator presses the button too
	fmt.Println(errors.Is(err, goworker.ErrRetried))
	_ = d.Run(context.Background())
	// Output:
	// <nil>
	// true
	// mail to Grace
}
