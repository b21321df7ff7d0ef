package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/configfile"
	"github.com/goworker/goworker/internal/document"
	"github.com/goworker/goworker/internal/setting"
)

// workerFile is what config check and config print ask of the configuration file of a worker.
type workerFile struct {
	sections []string
	files    fileChecks
}

// usualSections are those of goworker's own packages: a program claims them if it uses these.
var usualSections = []string{"metrics", "webhooks"}

// settingTable returns the settings of a worker.
func settingTable() (table setting.Table) {
	goworker.Configure(goworker.New(goworker.WorkerSettings{}), func(seat setting.Seat) setting.File {
		table = seat.Table
		return nil
	})
	return table
}

// reader returns what reads the file.
func (w workerFile) reader(getenv func(string) string, lenient bool) configfile.Reader {
	r := configfile.Reader{Table: settingTable(), Getenv: getenv, Lenient: lenient, Sections: make(map[string]func(document.Node))}
	for _, name := range append(usualSections, w.sections...) {
		r.Sections[name] = func(document.Node) {} // what is in it only the program knows
	}
	return r
}

// check prints all mistakes of a file.
func (w workerFile) check(p *program, out, errs io.Writer, path string) error {
	none := func(string) string { return "" } // the file is to be right by itself
	r := w.reader(none, false)
	file, err := r.Load(path)
	var wrong *document.Error
	if err != nil && !errors.As(err, &wrong) {
		return usageError{err}
	}
	var mistakes []document.Mistake
	if wrong != nil {
		mistakes = wrong.Mistakes
	}
	for _, flag := range []string{"uri-file", "password-file", "control-key-file"} {
		if text, ok := file.Texts[flag]; ok && !setting.Exists(text.Value) {
			fmt.Fprintf(errs, "%s: there is no file %s here\n", text.From, view.Text(text.Value))
		}
	}
	delete(file.Texts, "uri-file") // whose content is not a matter of this file
	_, stop, err := r.Table.Resolve(setting.Sources{Getenv: none, File: file.Texts})
	if err != nil && wrong == nil {
		for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "goworker: "), "\n") {
			mistakes = append(mistakes, document.ParseMistake(path, line))
		}
	}
	if err == nil {
		at := document.Mistake{File: path}
		if text, ok := file.Texts["shutdown-timeout"]; ok {
			at = document.ParseMistake(path, text.From+": ")
		}
		w.files.stop = stop
		found, err := w.files.run()
		if err != nil {
			return err
		}
		for _, f := range found {
			if f.State == checks.Found {
				of := document.Mistake{File: f.Subject["file"], Text: f.Sentence}
				if strings.Contains(f.Sentence, "a stop takes") { // and this file says how long
					of = at
					of.Text = f.Sentence
				}
				mistakes = append(mistakes, of)
			}
		}
	}
	for _, warning := range file.Warnings {
		fmt.Fprintln(errs, view.Text(warning))
	}
	for _, m := range mistakes {
		text := view.Text(m.String())
		if p.shared.json {
			text = view.Object{{Key: "file", Value: m.File}, {Key: "line", Value: m.Line}, {Key: "column", Value: m.Column}, {Key: "text", Value: m.Text}}.Line()
		}
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	if len(mistakes) > 0 {
		return exitError{exitUsage, errors.New(view.Plural(int64(len(mistakes)), "mistake"))}
	}
	if p.shared.json {
		return nil
	}
	_, err = fmt.Fprintf(out, "%s is right: it has %s.\n", view.Text(path), view.Plural(int64(len(file.Texts)+len(file.Classes)+len(file.Sections)), "setting"))
	return err
}

// print prints the settings that hold with a file in this environment, and where each is from.
func (w workerFile) print(p *program, out, errs io.Writer, path string) error {
	r := w.reader(p.getenv, true)
	file, err := r.Load(path)
	if err != nil {
		return usageError{err}
	}
	all, _, err := r.Table.Resolve(setting.Sources{Getenv: p.getenv, File: file.Texts})
	if err != nil {
		return usageError{err}
	}
	table := view.Table{Columns: []view.Column{{Head: "SETTING"}, {Head: "VALUE"}, {Head: "FROM"}}}
	row := func(name, value, from string) {
		if p.shared.json {
			fmt.Fprintln(out, view.Object{{Key: "setting", Value: name}, {Key: "value", Value: value}, {Key: "from", Value: from}}.Line())
			return
		}
		table.Rows = append(table.Rows, []string{view.Text(name), view.Text(value), view.Text(from)})
	}
	for _, s := range all {
		if s.Flag == "name" && s.Origin.Level == setting.FromDefault {
			s.Value = "(the program's)"
		}
		if s.Flag != "" {
			row(s.Flag, s.Value, s.Origin.String())
		}
	}
	for _, name := range sortedKeys(file.Classes) {
		c := file.Classes[name]
		for i, value := range c.Texts() {
			if value != "" {
				row("classes."+name+"."+setting.ClassOptions[i], value, c.Place)
			}
		}
	}
	for _, name := range sortedKeys(file.Sections) {
		row(name, "(a section of the program)", file.Sections[name])
	}
	for _, warning := range file.Warnings {
		fmt.Fprintln(errs, view.Text(warning))
	}
	_, err = io.WriteString(out, table.Draw(0))
	return err
}

// getenv returns a variable of the command's environment.
func (p *program) getenv(name string) string {
	value, _ := p.lookup(name)
	return value
}

// flags are those of the check of a file.
func (w *workerFile) flags(c *cobra.Command, all bool) {
	f := c.Flags()
	f.StringSliceVar(&w.sections, "sections", nil, "the sections that the program claims")
	if all {
		f.StringArrayVar(&w.files.manifests, "manifest", nil, "a manifest of Kubernetes that must leave a stop its time")
		f.StringArrayVar(&w.files.units, "unit", nil, "a unit of systemd that must leave a stop its time")
	}
}
