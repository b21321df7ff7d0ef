package dashboard

import (
	"context"
	"slices"

	"github.com/goworker/goworker/dashboard/internal/pages/classes"
	"github.com/goworker/goworker/dashboard/internal/pages/clients"
	"github.com/goworker/goworker/dashboard/internal/pages/delayed"
	"github.com/goworker/goworker/dashboard/internal/pages/failures"
	"github.com/goworker/goworker/dashboard/internal/pages/jobs"
	"github.com/goworker/goworker/dashboard/internal/pages/limits"
	"github.com/goworker/goworker/dashboard/internal/pages/machines"
	"github.com/goworker/goworker/dashboard/internal/pages/operations"
	"github.com/goworker/goworker/dashboard/internal/pages/overview"
	"github.com/goworker/goworker/dashboard/internal/pages/queues"
	"github.com/goworker/goworker/dashboard/internal/pages/running"
	"github.com/goworker/goworker/dashboard/internal/pages/schedule"
	"github.com/goworker/goworker/dashboard/internal/pages/search"
	"github.com/goworker/goworker/dashboard/internal/pages/store"
	"github.com/goworker/goworker/dashboard/internal/pages/tail"
	"github.com/goworker/goworker/dashboard/internal/pages/workflows"
	"github.com/goworker/goworker/dashboard/internal/site"
)

// pages are all pages. A package of pages is one line here, and one in actions.
func pages() []*site.Page {
	return slices.Concat(
		overview.Pages(),
		queues.Pages(),
		running.Pages(),
		failures.Pages(),
		delayed.Pages(),
		schedule.Pages(),
		jobs.Pages(),
		search.Pages(),
		machines.Pages(),
		tail.Pages(),
		clients.Pages(),
		store.Pages(),
		operations.Pages(),
		workflows.Pages(),
		classes.Pages(),
		limits.Pages(),
	)
}

func actions() []*site.Action {
	return slices.Concat(
		overview.Actions(),
		queues.Actions(),
		running.Actions(),
		failures.Actions(),
		delayed.Actions(),
		schedule.Actions(),
		jobs.Actions(),
		machines.Actions(),
		clients.Actions(),
		store.Actions(),
		operations.Actions(),
		workflows.Actions(),
		classes.Actions(),
		limits.Actions(),
	)
}

// palette finds what a user may want to jump to.
func palette(ctx context.Context, a *site.Ask, q string) ([]site.Found, error) {
	return search.Palette(ctx, a, q)
}
