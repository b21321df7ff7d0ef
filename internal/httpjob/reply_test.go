package httpjob_test

import (
	"testing"

	"github.com/goworker/goworker/internal/httpjob"
)

func TestIsReply(t *testing.T) {
	t.Parallel()
	for queue, want := range map[string]bool{
		"01M80NTA9RZYBB7STPTR000000": true, "shop.01M80NTA9RZYBB7STPTR000000": true, "shop.101M80NTA9RZYBB7STPTR000000": true,
		"tenant.01ARZ3NDEKTSV4RRFFQ69G5FAV": false, "mail": false, "": false, "01M80NTA9RZYBB7STPTR000000.x": false,
		"shop." + httpjob.NewID(1795319212344, 0): true, "shop." + httpjob.NewID(1795319212344, 1): false,
	} {
		if httpjob.IsReply(queue) != want {
			t.Errorf("IsReply(%q) is not %v", queue, want)
		}
	}
}
