package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/goworker/goworker"
)

// invalidPayload is the class in the failure record of text that is no job.
const invalidPayload = "InvalidPayload"

// byHand does what an operator does about failures: look at them, remove their
// causes, retry those that may succeed now and remove the others.
func (d *demo) byHand(ctx context.Context, failures []goworker.Failure) error {
	fmt.Printf("\n%s jobs have failed:\n", thousands(len(failures)))
	printReasons(failures)
	if len(failures) == 0 {
		return nil
	}
	fmt.Print("\nSouth Bank is up again and Audit deployed: retrying each by hand, removing what\nis no job.\n\n")
	d.shop.repair(d.Daemon)

	listed, err := d.Client().Inspect().Failures().Count(ctx)
	if err != nil {
		return err
	}
	jobs, failed := d.tally.counts()
	others := listed - int64(failed)
	for _, f := range failures {
		if f.Class == invalidPayload {
			others--
		} else {
			jobs++
		}
	}
	return d.watch(ctx, jobs, others, func(ctx context.Context) error { return d.settle(ctx, failures) })
}

// settle retries or removes each failure.
func (d *demo) settle(ctx context.Context, failures []goworker.Failure) (err error) {
	list := d.Client().Inspect().Failures()
	for _, f := range failures {
		if f.Class == invalidPayload {
			d.tally.refuse(f.Class)
			err = list.Remove(ctx, f)
		} else {
			d.tally.retry(f.Class)
			err = list.Retry(ctx, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printReasons prints how often each error happened.
func printReasons(failures []goworker.Failure) {
	count := make(map[string]int)
	for _, f := range failures {
		count[cut(fmt.Sprintf("%-14s %s", f.Class, f.Error), 71)]++
	}
	byCount := func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) }
	for _, reason := range slices.SortedFunc(maps.Keys(count), byCount) {
		fmt.Printf("%6s x %s\n", thousands(count[reason]), reason)
	}
}
