// Package shop is what a worker and a web server both import: functions that are called as jobs, and how.
package shop

import (
	"context"
	"fmt"
	"time"

	"github.com/goworker/goworker"
)

// cents is what a piece costs.
var cents = map[string]int{"tea": 450, "cup": 1200}

// Order is what a customer buys.
type Order struct {
	Item   string `json:"item"`
	Pieces int    `json:"pieces"`
}

// Price returns what an order costs, in cents. Programs in other languages call it as
// github.com/goworker/goworker/example/calling/shop.Price.
func Price(_ context.Context, item string, pieces int) (int, error) {
	if cents[item] == 0 {
		return 0, fmt.Errorf("there is no %s", item)
	}
	return cents[item] * pieces, nil
}

// Quote is Price of an order. PHP's clients of Resque send one object as all arguments, so this is the function for them.
func Quote(ctx context.Context, o Order) (int, error) { return Price(ctx, o.Item, o.Pieces) }

// Ship says that an order is on its way. It was named Send before.
func Ship(_ context.Context, o Order, cost int) (string, error) {
	return fmt.Sprintf("%d %s for %d.%02d", o.Pieces, o.Item, cost/100, cost%100), nil
}

// How the functions are called: the worker and the web server have the same options.
var (
	PriceOptions = []goworker.Option{goworker.OnQueue("shop"), goworker.WithResult(time.Hour)}
	ShipOptions  = []goworker.Option{
		goworker.OnQueue("shop"), goworker.WithResult(time.Hour), goworker.As("shop.Ship"),
		goworker.Alias("github.com/goworker/goworker/example/calling/shop.Send"),
	}
)

// Register makes a worker run the functions.
func Register(d *goworker.Daemon) {
	d.RegisterFunc(Price, PriceOptions...)
	d.RegisterFunc(Quote, PriceOptions...)
	d.RegisterFunc(Ship, ShipOptions...)
}

// Functions makes a Client know them.
func Functions() []goworker.ClientOption {
	return []goworker.ClientOption{
		goworker.Function(Price, PriceOptions...), goworker.Function(Quote, PriceOptions...), goworker.Function(Ship, ShipOptions...),
	}
}
