// Package machines is the pages of what works: processes, the workers of all programs, and one of each.
package machines

import (
	"embed"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
)

//go:embed *.html
var files embed.FS

// rows is how many processes, workers or queues a page lists.
const rows = 50

// Pages are the pages of processes and workers.
func Pages() []*site.Page {
	return []*site.Page{
		{
			Path: "/processes", Tab: "machines", Title: "Processes", Whole: true, Load: load, Data: (*List)(nil), Params: []string{"by", "q", "after"},
			Template: "processes.html lists.html", Files: files,
		},
		{
			Path: "/processes/{process}", Tab: "machines", Whole: true, Load: loadProcess, Data: (*Page)(nil), Params: []string{"ask", "answer"},
			Template: "process.html dialogs.html answer.html", Files: files,
		},
		{Path: "/workers/{id}", Tab: "machines", Whole: true, Load: loadWorker, Data: (*WorkerPage)(nil), Template: "worker.html", Files: files},
	}
}

// Actions are what is done with processes and workers.
func Actions() []*site.Action {
	all := []*site.Action{
		{Name: "worker.remove", Path: "/workers/{id}/remove", Role: guard.Admin, Whole: true, Do: removeWorker},
		{Name: "worker.remove", Path: "/workers/remove", Role: guard.Admin, Whole: true, Do: removeWorkers},
	}
	for _, v := range verbs {
		all = append(all, &site.Action{Name: "process." + v.name, Path: "/processes/{process}/" + v.name, Role: v.role, Whole: true, Do: v.one})
		if v.several {
			all = append(all, &site.Action{Name: "process." + v.name, Path: "/processes/" + v.name, Role: v.role, Whole: true, Do: v.selected})
		}
	}
	return all
}
