package goworker

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
		want    []weightedQueue
		dynamic bool
		order   string
		label   string
	}{
		"static, unknown ones too": {
			lists: []string{"nope,high"}, known: []string{"high"},
			want: []weightedQueue{{"nope", 1}, {"high", 1}}, order: OrderStrict, label: "nope,high",
		},
		"trimmed, empty parts skipped, duplicates dropped": {
			lists: []string{" a, x ,,a", "", "x,b"},
			want:  []weightedQueue{{"a", 1}, {"x", 1}, {"b", 1}}, order: OrderStrict, label: "a,x,b",
		},
		"weights": {
			lists: []string{"high=20, low = 1"},
			want:  []weightedQueue{{"high", 20}, {"low", 1}}, order: OrderWeighted, label: "high,low",
		},
		"the first weight counts": {
			lists: []string{"a=2,a=3"},
			want:  []weightedQueue{{"a", 2}}, order: OrderWeighted, label: "a",
		},
		"a name with an equals sign": {
			lists: []string{"a=b=2"},
			want:  []weightedQueue{{"a=b", 2}}, order: OrderWeighted, label: "a=b",
		},
		"an expanded list of old": {
			lists: []string{"high", "high", "low"},
			want:  []weightedQueue{{"high", 1}, {"low", 1}}, order: OrderStrict, label: "high,low",
		},
		"literal before a star": {
			lists: []string{"critical,*"}, known: []string{"b", "critical", "a"},
			want:    []weightedQueue{{"critical", 1}, {"a", 1}, {"b", 1}},
			dynamic: true, order: OrderStrict, label: "critical,*",
		},
		"a star sorts bytewise and skips dots": {
			lists: []string{"*"}, known: []string{"a/b", "2", "Zed", ".hidden", "a-b", "10", "a.b"},
			want:    []weightedQueue{{"10", 1}, {"2", 1}, {"Zed", 1}, {"a-b", 1}, {"a.b", 1}, {"a/b", 1}},
			dynamic: true, order: OrderStrict, label: "*",
		},
		"exclusion behind": {
			lists: []string{"*,!file_*"}, known: []string{"file_a", "x"},
			want: []weightedQueue{{"x", 1}}, dynamic: true, order: OrderStrict, label: "*",
		},
		"exclusion in front": {
			lists: []string{"! file_*", "*"}, known: []string{"file_a", "x"},
			want: []weightedQueue{{"x", 1}}, dynamic: true, order: OrderStrict, label: "*",
		},
		"an exclusion makes literals depend on what is known": {
			lists: []string{"nope,high,!low"}, known: []string{"low", "high"},
			want: []weightedQueue{{"high", 1}}, dynamic: true, order: OrderStrict, label: "nope,high",
		},
		"an excluded literal": {
			lists: []string{"low,high,!low"}, known: []string{"low", "high"},
			want: []weightedQueue{{"high", 1}}, dynamic: true, order: OrderStrict, label: "low,high",
		},
		"braces match themselves": {
			lists: []string{"{a}", "a"}, known: []string{"a", "{a}"},
			want: []weightedQueue{{"{a}", 1}, {"a", 1}}, dynamic: true, order: OrderStrict, label: "{a},a",
		},
		"a pattern's weight is each match's": {
			lists: []string{"mail_*=3,*"}, known: []string{"other", "mail_b", "mail_a"},
			want:    []weightedQueue{{"mail_a", 3}, {"mail_b", 3}, {"other", 1}},
			dynamic: true, order: OrderWeighted, label: "mail_*,*",
		},
		"nothing known yet": {
			lists: []string{"*"}, dynamic: true, order: OrderStrict, label: "*",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, err := parseQueues(tt.lists)
			if err != nil {
				t.Fatal(err)
			}
			known := slices.Clone(tt.known)
			if diff := cmp.Diff(tt.want, q.resolve(known), cmp.AllowUnexported(weightedQueue{})); diff != "" {
				t.Errorf("resolve (-want +got):\n%s", diff)
			}
			if !slices.Equal(known, tt.known) {
				t.Errorf("resolve changed its argument to %q", known)
			}
			if q.dynamic() != tt.dynamic || q.order() != tt.order || q.label() != tt.label {
				t.Errorf("dynamic %v, order %q, label %q; want %v, %q, %q", q.dynamic(), q.order(), q.label(), tt.dynamic, tt.order, tt.label)
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
		if _, err := parseQueues([]string{list}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseQueues(%q) says %v, want something with %q", list, err, want)
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
	q, err := parseQueues(lists)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := q.label(), strings.Join(lists[:10], ","); got != want {
		t.Errorf("label is %q, want %q", got, want)
	}
	huge := strings.Repeat("y", 2*maxLabel)
	if q, err = parseQueues([]string{huge, "z"}); err != nil || q.label() != huge {
		t.Errorf("label of a huge name is %q (%v)", q.label(), err)
	}
}

func FuzzParseQueues(f *testing.F) {
	f.Add("high=2,low", "high,low")
	f.Add("critical,*,!file_*", "a,file_b,.c")
	f.Add(`[a-z]*,?,\*,{a,b}`, "*,ä,{a,b}")
	f.Fuzz(func(t *testing.T, list, knownList string) {
		q, err := parseQueues([]string{list})
		if err != nil {
			return
		}
		label := q.label()
		if label == "" || strings.HasPrefix(label, "!") || len(label) > maxLabel && len(q.patterns) > 1 && strings.Contains(label, ",") {
			t.Errorf("label %q", label)
		}
		known := strings.Split(knownList, ",")
		seen := map[string]bool{}
		for _, queue := range q.resolve(known) {
			if seen[queue.name] || queue.name == "" && !slices.Contains(known, "") || queue.weight < 1 || queue.weight > maxWeight {
				t.Errorf("queue %+v (seen: %v)", queue, seen[queue.name])
			}
			if q.dynamic() && (!slices.Contains(known, queue.name) || q.excludes(queue.name)) {
				t.Errorf("queue %q should not be worked", queue.name)
			}
			seen[queue.name] = true
		}
	})
}
