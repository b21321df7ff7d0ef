package goworker_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/goworker/goworker"
)

// The documents of one catalog that change within five seconds are indexed together.
func ExampleAggregate() {
	d := demo()
	defer d.Close()
	d.Register("Index", func(catalog string, ids []int) {
		slices.Sort(ids)
		fmt.Println(catalog, ids)
	}, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(3)))

	for id := range 3 {
		if _, err := d.Client().Enqueue(context.Background(), goworker.NewJob("mail", "Index", "books", id)); err != nil {
			fmt.Println(err)
		}
	}
	if err := d.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: books [0 1 2]
}
