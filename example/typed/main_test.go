package main

import (
	"errors"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

func TestTyped(t *testing.T) {
	d := goworker.New(goworker.WorkerSettings{})
	register(d)
	mail := func(to string) *goworkertest.Result {
		return goworkertest.Work(t, d, goworker.NewJob("mail", "SendMail", Mail{to, "Welcome"}, []string{"terms.pdf"}))
	}
	mail("ann@example.com").RequireDone(t)
	mail("").RequireFailed(t, nil)

	result := goworkertest.Work(t, d, goworker.NewJob("images", "Thumbnail", "cat.png", 320, 240))
	if size := goworkertest.ValueOf[Size](t, result); size != (Size{320, 240}) {
		t.Errorf("the thumbnail has %v", size)
	}
	result = goworkertest.WorkPayload(t, d, "images", `{"class":"Thumbnail","args":["cat.png","wide",240]}`)
	if misfit := new(goworker.ArgumentError); !errors.As(result.Err, &misfit) {
		t.Errorf("a width that is no number: %s", result)
	}
}
