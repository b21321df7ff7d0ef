package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/goworker/goworker/webhook"
)

// A receiver reads no more than a delivery has, and checks the signature over the bytes that came.
func ExampleVerify() {
	key := []byte("0123456789abcdef0123456789abcdef")
	receive := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.MostBody))
		if err != nil {
			return
		}
		if err := webhook.Verify(r.Header.Get(webhook.SignatureHeader), body, key, 5*time.Minute); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}

	r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(`{"id":"x"}`))
	r.Header.Set(webhook.SignatureHeader, "t=1700000000,v1=1d3a1a80c8ad0d56d3cc81d488b5779dbdd6367281fd813d1d9b8d7a5cd0204b")
	answer := httptest.NewRecorder()
	receive(answer, r)
	fmt.Print(answer.Code, " ", answer.Body)
	// Output: 401 goworker: the delivery was signed too long ago, or its sender's clock is wrong
}
