package command

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goworker/goworker/cmd/goworker/internal/shell"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
)

// escaped is a text out of Redis, or out of an error, as it is shown: harmless for a terminal, and not of any length.
func escaped(text string) string { return view.Text(logging.Shorten(text, logging.MaxText)) }

// list prints rows: as JSON an object a line at once, otherwise as a table when it ends.
type list struct {
	o     *operator
	table view.Table
	out   *bufio.Writer
	rows  int
	named bool // a row says in which of several Redises it is
}

// list begins a list with these columns.
func (o *operator) list(columns ...view.Column) *list {
	return &list{o: o, table: view.Table{Columns: columns}, out: bufio.NewWriter(o.out)}
}

// add adds a row: the object that --json prints, and the cells of the table, which add escapes.
func (l *list) add(object view.Object, cells ...string) {
	l.rows++
	if l.o.json {
		fmt.Fprintln(l.out, object.Line())
		return
	}
	if l.o.several() { // the last column says where the row is
		shard, _ := object.Get("shard").(string)
		l.named = l.named || shard != ""
		cells = append(cells, cmp.Or(l.o.places[shard], "several"))
	}
	for n, c := range cells {
		cells[n] = escaped(c)
	}
	l.table.Rows = append(l.table.Rows, cells)
}

// end prints what is not printed yet. Where there were no rows it says so on stderr, unless none is "".
func (l *list) end(none string) error {
	if l.named {
		head := ""
		if l.table.Columns[0].Head != "" {
			head = "REDIS"
		}
		l.table.Columns = append(l.table.Columns, view.Column{Head: head, Cut: true})
	} else if l.o.several() {
		for n, row := range l.table.Rows {
			l.table.Rows[n] = row[:len(row)-1]
		}
	}
	if !l.o.json && l.rows > 0 {
		io.WriteString(l.out, l.table.Draw(l.o.width))
	}
	if err := l.out.Flush(); err != nil {
		return err
	}
	if l.rows == 0 && !l.o.json && none != "" {
		l.o.note("%s", none)
	}
	return nil
}

// close is end after a question that may have failed: what it answered before is printed, and its error returned.
func (l *list) close(none string, err error) error {
	if err != nil {
		none = ""
	}
	return errors.Join(err, l.end(none))
}

// show prints one thing: as JSON an object, otherwise names and values below one another.
func (o *operator) show(object view.Object, pairs ...[2]string) error {
	if o.json {
		return o.print(object, "")
	}
	for n := range pairs {
		pairs[n][1] = view.Lines(pairs[n][1])
	}
	_, err := io.WriteString(o.out, view.Pairs(o.width, pairs...))
	return err
}

// print prints what a command did: an object, or a sentence. The sentence's names are escaped by the caller.
func (o *operator) print(object view.Object, sentence string) error {
	if o.json {
		sentence = object.Line()
	}
	_, err := fmt.Fprintln(o.out, sentence)
	return err
}

// note prints a line for the operator beside the output, to stderr.
func (o *operator) note(format string, args ...any) {
	fmt.Fprintln(o.errs, view.Lines(fmt.Sprintf(format, args...)))
}

// paste returns a line of our own command that is safe to paste: the verb, and names out of Redis. ok is false where a name does not
// print.
func (o *operator) paste(verb string, names ...string) (line string, ok bool) {
	if line, ok = shell.Own(verb, names...); !ok {
		return "", false
	}
	return o.aimed(line), true
}

// aimed is a printed command line that names the Redis which this one was given: without it the line would mean another one. The flags
// stand before the verb, where no name out of Redis is. A line that takes one Redis is not printed for several, nor one of redis-cli where
// the URI has parameters, which redis-cli does not read.
func (o *operator) aimed(line string) string {
	verb, own := strings.CutPrefix(line, "goworker ")
	if o.several() && (!own || strings.HasPrefix(verb, "drain-to-ruby")) {
		return ""
	}
	if !own {
		if aim := `-u "$REDIS_URL"`; strings.Contains(line, aim) {
			if strings.Contains(o.place.URI, "?") {
				return ""
			}
			return strings.Replace(line, aim, "-u "+o.address(o.place.URI), 1)
		}
		return line
	}
	aim := ""
	if o.context != "" {
		aim += "--context " + shell.Quote(o.context) + " "
	}
	for _, uri := range strings.Fields(o.uri) {
		aim += "-u " + o.address(uri) + " "
	}
	if o.namespace != "" {
		aim += "-n " + shell.Quote(o.namespace) + " "
	}
	return "goworker " + aim + verb
}

// address is a URI as a printed line has it: the variable that holds it, or the URI with *** for its password.
func (o *operator) address(uri string) string {
	if value, _ := o.p.lookup("REDIS_URL"); value == uri {
		return `"$REDIS_URL"`
	}
	return shell.Quote(conn.RedactURI(uri))
}
