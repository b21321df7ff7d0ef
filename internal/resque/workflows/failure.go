package workflows

import (
	"encoding/json"
	"errors"
	"strings"
)

// MaxResult is how many bytes of JSON a result has at most that a step passes on.
const MaxResult = 1 << 20

// StepFailure says how a step ended that is not done. Error handlers get it behind their arguments, and the document of a
// failed workflow has it.
type StepFailure struct {
	Step      int    `json:"step"`
	ID        string `json:"id"`
	Name      string `json:"name,omitempty"`
	Class     string `json:"class"`
	Queue     string `json:"queue"`
	Exception string `json:"exception"`
	Error     string `json:"error"`
	Attempt   int    `json:"attempt"`
	State     string `json:"state"` // failed, discarded, expired, cancelled, lost or removed
}

// FailureOf reads the JSON of a failure. What is missing or of another form is zero.
func FailureOf(text string) (f StepFailure, ok bool) {
	err := json.Unmarshal([]byte(text), &f)
	misfit := new(json.UnmarshalTypeError)
	return f, strings.HasPrefix(text, "{") && (err == nil || errors.As(err, &misfit))
}

// JSON returns the failure as Redis has it. It has no line break.
func (f StepFailure) JSON() []byte {
	text, _ := json.Marshal(f) // a struct of texts and numbers has JSON
	return text
}
