// Package site is what all pages of the dashboard share: how a page is loaded, rendered as HTML or JSON and kept live, how an
// action is permitted and done, and how links are made. A page is a Page and its template; an action is an Action. Neither knows
// the others.
package site

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/mask"
)

// face names the dashboard in the audit.
const face = "dashboard"

// Page is one page. Its loader fills one struct, which is rendered by the template or encoded as JSON.
type Page struct {
	Path  string // as http.ServeMux reads it, below the prefix: "/queues/{queue}"
	Tab   string // the tab of the rail that is current
	Title string // "" if Load's data says it: see Titled

	// Whole pages say things of the whole fleet: users who see some queues only do not find them.
	Whole bool
	Role  guard.Role // that looking takes

	// Still pages are not kept live.
	Still bool

	// Load reads what the page shows. Strings that come from jobs are masked by it.
	Load func(ctx context.Context, a *Ask) (any, error)

	// Write answers by itself, without Load and Template, with what is too long to be in memory. An error before its first byte
	// becomes the page of a problem; after it the connection is cut.
	Write func(ctx context.Context, a *Ask, w http.ResponseWriter) error

	// Data is a nil pointer of the type that Load returns, and Params the parameters of the address: openapi.json says both.
	Data   any
	Params []string

	// Template is the name of the file in Files that defines "body", and behind it the names of files with parts that it uses.
	Template string
	Files    fs.FS
}

// Titled is data that says the title of its page.
type Titled interface{ PageTitle() string }

// Action is a change that a user makes, by a form or over JSON. Both call the same function.
type Action struct {
	Name string // as User.Can gets it, and docs/dashboard.md lists it: "queue.pause"
	Path string // "/queues/{queue}/pause"
	Role guard.Role

	// Whole actions concern the whole fleet: users who see some queues only may not do them. Others look at the queues of
	// what they change.
	Whole bool

	// Quiet actions change nothing that the audit records.
	Quiet bool

	// On says what the action concerns, where the path's queue, class, id and process do not. nil: they do.
	On func(a *Ask) guard.Target

	Do func(ctx context.Context, a *Ask) (Outcome, error)

	// Template is the file in Files that defines "body": the action answers with that page of its Outcome's Data, and not with the page that
	// the user was on. "": it does not.
	Template string
	Files    fs.FS
}

// Outcome is what an action did.
type Outcome struct {
	Said      string   `json:"said"`                // one sentence for people
	Done      int64    `json:"done"`                // things that were changed
	Missing   int64    `json:"missing,omitempty"`   // things that were no longer there
	Refused   []string `json:"refused,omitempty"`   // why others were not changed
	Operation string   `json:"operation,omitempty"` // the id of the operation that does it, or did
	Undo      bool     `json:"undo,omitempty"`      // the operation can be taken back
	Back      *Back    `json:"back,omitempty"`      // what else takes it back
	Status    int      `json:"-"`                   // 0: 200
	Data      any      `json:"data,omitempty"`      // what else it answers
	To        string   `json:"-"`                   // the page to show, below the prefix; "": the one that the user was on

	// File is what a browser saves; it stays on its page then. An answer in JSON has it in Data.
	File *File `json:"-"`
}

// File is a file for the user.
type File struct {
	Name string // letters, digits, dots and hyphens
	Type string // for Content-Type
	Body []byte
}

// Back is an action that takes another one back.
type Back struct {
	Action string            `json:"action"`
	Path   string            `json:"path"` // below the prefix
	Fields map[string]string `json:"fields"`
}

// Config is what all fleets of a dashboard share.
type Config struct {
	Name       string // of the environment: "production"
	Masks      *mask.Masker
	ReadOnly   bool
	Location   *time.Location
	Columns    []string // see Options.Columns of package dashboard
	Links      []Link
	Extra      []Extra
	FailureURL string
	Schedule   string // the path of a schedule.yml to compare with
	Palette    func(ctx context.Context, a *Ask, q string) ([]Found, error)
	Fleets     []string // the names of all fleets, for the switch in the rail
	Limits     Limits
	Log        *slog.Logger
}

// Limits bound what a user does: those of guard.Guard.
type Limits interface {
	// Reveal counts that a user has masked arguments shown, and returns false, with how long to wait, where that was too often.
	Reveal(u guard.User) (wait time.Duration, ok bool)
	// Search begins a search, which ends with release. It returns false where the user has enough that run.
	Search(u guard.User) (release func(), ok bool)
}

// Link is a link beside each job, class and process; {id}, {class}, {queue}, {process} and {host} in it are filled in.
type Link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Extra is a tab that the program adds.
type Extra struct {
	Name string
	Path string // below the prefix, without slashes
}

// Found is a row of the palette.
type Found struct {
	Kind string `json:"kind"` // the heading it stands under
	Name string `json:"name"`
	Icon string `json:"icon,omitempty"`
	URL  string `json:"url"`
	End  string `json:"end,omitempty"`
}
