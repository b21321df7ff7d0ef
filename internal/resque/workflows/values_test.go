package workflows

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// The results of what is added to a batch are a list in the order of the pieces. Numbers in a row are one item.
func TestListOfBatch(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	p := batch("w")
	p.Fields[5] = stepOf{1, "low", "0 0 - - - 1 -", ""}.template("w", "s v c[*] 0 0")
	w.start(p)
	for i, piece := range []struct{ adder, list, want string }{
		{"a", "2+2", "2+2"}, {"a", "4", "2+3"}, {"b", "5[6,7]", "2+3,5[6,7]"}, {"a", "8,10+2", "2+3,5[6,7],8,10+2"}, {"a", "12+2,14[]", "2+3,5[6,7],8,10+4,14[]"},
		{"a", "15c[16]", "2+3,5[6,7],8,10+4,14[],15c[16]"},
	} {
		a := client("w")
		a.Name = piece.adder
		have, err := w.s.Reserve(w.c, a, 1, 0, 0)
		w.must(err)
		members := members("w", have.First, 1)
		members.Fields = []any{"list", piece.list}
		_, err = w.s.Add(w.c, a, have, Added{Count: have.Count + 1, Hash: fmt.Sprint(i)}, members)
		w.must(err)
		w.same("list", piece.want, w.field("w", "list"))
	}
	for n := 2; n < 8; n++ {
		w.do("HSET", w.s.WorkflowKey("w").String(), fmt.Sprint("r", n), n)
		w.end(fmt.Sprint("C", n), Done, "")
	}
	_, err := w.s.Close(w.c, "w")
	w.must(err)
	w.same("callback", `[[{"result":2},{"result":3},{"result":4},{"result":[6,7]},`+
		`{"result":null},{"result":null},{"result":null},{"result":null},{"result":null},{"result":[]},{"result":[{"result":null}]}]]`, w.end("C1", Done, ""))
	w.state("w", "done")
}

// Values go in before the token of an external step, which stays the last argument.
func TestValuesBeforeToken(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{`"token"`: `[7,"token"]`, `1,"token"`: `[1,7,"token"]`} {
		w := newWire(t)
		at := stepOf{1, "low", "0 - - - - 1 -", args}
		record := at.template("w", "y v 0 0 0")
		words := strings.SplitN(record, " ", 8)
		cut, err := strconv.Atoi(words[5])
		w.must(err)
		cut -= len(`"token"`)
		if args[0] == '1' {
			cut--
		}
		w.start(&Plan{ID: "w", Letters: []byte("sw"), Fields: []any{
			"j0", "1 0 0 j 0 0 - - - -", "j1", "1 0 0 j 1 1 - - - -", "k1", "other 1000 0 - - - - 1 -",
			"s1", fmt.Sprintf("y v 0 0 0 %d %s %s", cut, words[6], words[7]),
		}, Jobs: []Job{stepOf{0, "low", "1 - - - - n low", ""}.job("w")}})
		w.end("C0", Done, "7")
		_, got := w.job("C1")
		w.same("arguments", want, got)
	}
}
