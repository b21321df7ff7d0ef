package queues

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseQueues(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lists   []string
		known   []string
		want    []Queue
		dynamic bool
		order   string
		label   string
	}{
		"static, unknown ones too": {
			lists: []string{"nope,high"}, known: []string{"high"},
			want: []Queue{{"nope", 1}, {"high", 1}}, order: Strict, label: "nope,high",
		},
		"trimmed, empty parts skipped, duplicates dropped": {
			lists: []string{" a, x ,,a", "", "x,b"},
			want:  []Queue{{"a", 1}, {"x", 1}, {"b", 1}}, order: Strict, label: "a,x,b",
		},
		"weights": {
			lists: []string{"high=20, low = 1"},
			want:  []Queue{{"high", 20}, {"low", 1}}, order: Weighted, label: "high,low",
		},
		"the first weight counts": {
			lists: []string{"a=2,a=3"},
			want:  []Queue{{"a", 2}}, order: Weighted, label: "a",
		},
		"a name with an equals sign": {
			lists: []string{"a=b=2"},
			want:  []Queue{{"a=b", 2}}, order: Weighted, label: "a=b",
		},
		"an expanded list of old": {
			lists: []string{"high", "high", "low"},
			want:  []Queue{{"high", 1}, {"low", 1}}, order: Strict, label: "high,low",
		},
		"literal before a star": {
			lists: []string{"critical,*"}, known: []string{"b", "critical", "a"},
			want:    []Queue{{"critical", 1}, {"a", 1}, {"b", 1}},
			dynamic: true, order: Strict, label: "critical,*",
		},
		"a star sorts bytewise and skips dots": {
			lists: []string{"*"}, known: []string{"a/b", "2", "Zed", ".hidden", "a-b", "10", "a.b"},
			want:    []Queue{{"10", 1}, {"2", 1}, {"Zed", 1}, {"a-b", 1}, {"a.b", 1}, {"a/b", 1}},
			dynamic: true, order: Strict, label: "*",
		},
		"exclusion behind": {
			lists: []string{"*,!file_*"}, known: []string{"file_a", "x"},
			want: []Queue{{"x", 1}}, dynamic: true, order: Strict, label: "*",
		},
		"exclusion in front": {
			lists: []string{"! file_*", "*"}, known: []string{"file_a", "x"},
			want: []Queue{{"x", 1}}, dynamic: true, order: Strict, label: "*",
		},
		"an exclusion makes literals depend on what is known": {
			lists: []string{"nope,high,!low"}, known: []string{"low", "high"},
			want: []Queue{{"high", 1}}, dynamic: true, order: Strict, label: "nope,high",
		},
		"an excluded literal": {
			lists: []string{"low,high,!low"}, known: []string{"low", "high"},
			want: []Queue{{"high", 1}}, dynamic: true, order: Strict, label: "low,high",
		},
		"braces match themselves": {
			lists: []string{"{a}", "a"}, known: []string{"a", "{a}"},
			want: []Queue{{"{a}", 1}, {"a", 1}}, dynamic: true, order: Strict, label: "{a},a",
		},
		"a pattern's weight is each match's": {
			lists: []string{"mail_*=3,*"}, known: []string{"other", "mail_b", "mail_a"},
			want:    []Queue{{"mail_a", 3}, {"mail_b", 3}, {"other", 1}},
			dynamic: true, order: Weighted, label: "mail_*,*",
		},
		"nothing known yet": {
			lists: []string{"*"}, dynamic: true, order: Strict, label: "*",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, err := Parse(tt.lists)
			if err != nil {
				t.Fatal(err)
			}
			known := slices.Clone(tt.known)
			if diff := cmp.Diff(tt.want, q.Resolve(known), cmp.AllowUnexported(Queue{})); diff != "" {
				t.Errorf("resolve (-want +got):\n%s", diff)
			}
			if !slices.Equal(known, tt.known) {
				t.Errorf("resolve changed its argument to %q", known)
			}
			if q.Dynamic() != tt.dynamic || q.Order() != tt.order || q.Label() != tt.label {
				t.Errorf("dynamic %v, order %q, label %q; want %v, %q, %q", q.Dynamic(), q.Order(), q.Label(), tt.dynamic, tt.order, tt.label)
			}
		})
	}
}

func TestParseQueuesErrors(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"":            "you must specify at least one queue",
		" , ,":        "you must specify at least one queue",
		"!low":        "you must specify at least one queue",
		"!":           "stands alone",
		"a,!":         "stands alone",
		"a=":          "the weight must be a numeric value",
		"a=x":         "the weight must be a numeric value",
		"a=1.5":       "the weight must be a numeric value",
		"a=0":         "the weight must be a numeric value",
		"a=-1":        "the weight must be a numeric value",
		"a=1000001":   "the weight must be a numeric value",
		"a=1e3":       "the weight must be a numeric value",
		"=3":          "no name",
		"high=2,low=": `"low="`,
	} {
		if _, err := Parse([]string{list}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) says %v, want something with %q", list, err, want)
		}
	}
}

func TestLabelIsCutAtAComma(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	var lists []string
	for i := range 30 {
		lists = append(lists, long+string(rune('a'+i)))
	}
	q, err := Parse(lists)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := q.Label(), strings.Join(lists[:10], ","); got != want {
		t.Errorf("label is %q, want %q", got, want)
	}
	huge := strings.Repeat("y", 2*maxLabel)
	if q, err = Parse([]string{huge, "z"}); err != nil || q.Label() != huge {
		t.Errorf("label of a huge name is %q (%v)", q.Label(), err)
	}
}

func FuzzParseQueues(f *testing.F) {
	f.Add("high=2,low", "high,low")
	f.Add("critical,*,!file_*", "a,file_b,.c")
	f.Add(`[a-z]*,?,\*,{a,b}`, "*,ä,{a,b}")
	f.Fuzz(func(t *testing.T, list, knownList string) {
		q, err := Parse([]string{list})
		if err != nil {
			return
		}
		label := q.Label()
		if label == "" || strings.HasPrefix(label, "!") || len(label) > maxLabel && len(q.Patterns) > 1 && strings.Contains(label, ",") {
			t.Errorf("label %q", label)
		}
		known := strings.Split(knownList, ",")
		seen := map[string]bool{}
		for _, queue := range q.Resolve(known) {
			if seen[queue.Name] || queue.Name == "" && !slices.Contains(known, "") || queue.weight < 1 || queue.weight > maxWeight {
				t.Errorf("queue %+v (seen: %v)", queue, seen[queue.Name])
			}
			if q.Dynamic() && (!slices.Contains(known, queue.Name) || q.Excludes(queue.Name)) {
				t.Errorf("queue %q should not be worked", queue.Name)
			}
			seen[queue.Name] = true
		}
	})
}
