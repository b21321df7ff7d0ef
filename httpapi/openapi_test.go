package httpapi_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/httpapi"
)

// TestOpenAPIHasEveryRoute compares the calls that are served with those that the document describes, and their problems
// with the table. The module test/openapi checks what they answer.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      map[string]map[string]struct{ OperationID, Summary string }
		Components struct {
			Schemas map[string]struct {
				Properties struct{ Type struct{ Enum []string } }
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var described, served [][2]string
	ids := make(map[string]bool)
	for path, calls := range doc.Paths {
		for method, call := range calls {
			described = append(described, [2]string{strings.ToUpper(method), path})
			if ids[call.OperationID] || call.OperationID == "" || call.Summary == "" {
				t.Errorf("%s %s has the id %q and the summary %q", method, path, call.OperationID, call.Summary)
			}
			ids[call.OperationID] = true
		}
	}
	served = httpapi.Routes()
	for _, call := range served {
		if !slices.Contains(described, call) {
			t.Errorf("%v is served and not described", call)
		}
	}
	for _, call := range described {
		if !slices.Contains(served, call) {
			t.Errorf("%v is described and not served", call)
		}
	}
	types := httpapi.ProblemTypes()
	for _, link := range doc.Components.Schemas["Problem"].Properties.Type.Enum {
		_, name, _ := strings.Cut(link, "#")
		if types[name] == 0 {
			t.Errorf("the document has the problem %s, which the table lacks", name)
		}
		delete(types, name)
	}
	if len(types) > 0 {
		t.Errorf("the document lacks the problems %v", types)
	}
}
