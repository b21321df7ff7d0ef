package goworker

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestFromContextOutsideAJob(t *testing.T) {
	t.Parallel()
	if d := FromContext(context.Background()); d != nil {
		t.Errorf("got %v", d)
	}
	d := &Delivery{Class: "C"}
	ctx, cancel := context.WithCancel(NewContext(context.Background(), d))
	defer cancel()
	if FromContext(ctx) != d {
		t.Error("NewContext's Delivery was not found")
	}
}

// php-resque's payload: its one argument an object, an id of its own.
func TestDeliveryOfPHPPayload(t *testing.T) {
	t.Parallel()
	const payload = `{"class":"My_Job","args":[{"name":"x"}],"id":"0f0f","queue_time":1.5}`
	type input struct{ Name string }
	r := newRegistry()
	var got input
	var d *Delivery
	r.register("My_Job", func(ctx context.Context, in input) error {
		got, d = in, FromContext(ctx)
		return nil
	}, nil)
	ready, err := prepared(t, r, payload)
	if err != nil {
		t.Fatal(err)
	}
	if err := ready.perform(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got.Name != "x" || d.ID != "0f0f" || d.Attempt != 1 || d.Queue != "mail" || string(d.Raw()) != payload {
		t.Errorf("got %+v, %+v", got, d)
	}
	d.Raw()[0] = '!'
	if string(d.Raw()) != payload {
		t.Error("Raw is not a copy")
	}
}

func TestDeliveryJob(t *testing.T) {
	t.Parallel()
	d := &Delivery{Queue: "q", Class: "C", Args: []json.RawMessage{[]byte(`1`), []byte(`"a"`), []byte(`1e999`)}}
	want := Job{"q", Payload{"C", []interface{}{1.0, "a", json.Number("1e999")}}}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := d.Job(); !reflect.DeepEqual(*got, want) {
				t.Errorf("got %+v, want %+v", *got, want)
			}
		})
	}
	wg.Wait()
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name     string
		option   time.Duration
		outer    time.Duration
		after    time.Duration
		explains bool
	}{
		{"of the class", time.Second, time.Minute, time.Second, true},
		{"of the caller", time.Minute, time.Second, time.Second, false},
		{"none", 0, time.Hour, time.Hour, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRegistry()
				r.register("C", wait, []Option{Timeout(tt.option)})
				d, err := prepared(t, r, `{"class":"C","args":[]}`)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), tt.outer)
				defer cancel()
				start := time.Now()
				err = d.perform(ctx)
				if time.Since(start) != tt.after {
					t.Errorf("ran %s, want %s", time.Since(start), tt.after)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if got := strings.Contains(err.Error(), "C ran longer than its timeout of 1s"); got != tt.explains {
					t.Errorf("text %q", err)
				}
			})
		})
	}
}
