package tracing

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/logging"
)

// typeOf names the type of an error, as failure records do where the program names none.
func typeOf(err error) string { return failure.Exception(err, func(error) string { return "" }) }

// textOf is the error's text. The program's own Error may panic.
func textOf(err error) string { return fmt.Sprint(err) }

func shorten(text string) string {
	return logging.Shorten(strings.ToValidUTF8(text, "\uFFFD"), mostText)
}

// stackOf returns where a panic was, "" for any other error.
func stackOf(err error) string {
	var p *goworker.PanicError
	if !errors.As(err, &p) {
		return ""
	}
	return string(p.Stack)
}
