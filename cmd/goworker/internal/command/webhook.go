package command

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/webhook"
)

// urlVariable is the variable of the environment with where deliveries go.
const urlVariable = "GOWORKER_WEBHOOK_URL"

// webhook is the noun of webhooks.
func (p *program) webhook() *cobra.Command {
	c := &cobra.Command{Use: "webhook", Short: "Send failures and notices of checks to a server or a program", Args: nounArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(p.webhookRun(), p.webhookForget())
	return c
}

// webhookRun delivers until it is stopped.
func (p *program) webhookRun() *cobra.Command {
	var s webhook.Settings
	var keyFile string
	c := p.change(&cobra.Command{
		Use: "run NAME", Short: "Deliver until a signal stops it", Args: arguments(1, "the name of a webhook"),
		Long: "run delivers failures of jobs and notices of the checks. Processes write failures while one is announced, and for 24 hours after the last deliverer.\n" +
			"Several deliverers of a name share the deliveries, and need the same flags. The kinds are " + strings.Join(webhook.Kinds(), ", ") + ".",
		Example: "  goworker webhook run ops --url https://ops.example.com/hook --key-file /etc/goworker/webhook.key\n  goworker webhook run chat --url 'exec:/usr/local/bin/tell-chat' --kind failed,poison,retried",
	}, func(ctx context.Context, o *operator, args []string) error {
		variable, _ := p.lookup(urlVariable)
		s.Name, s.URL = args[0], cmp.Or(s.URL, variable)
		var err error
		if s.Key, err = p.webhookKey(keyFile); err != nil {
			return err
		}
		s.Logger = slog.New(slog.NewTextHandler(o.errs, nil))
		if o.json {
			s.Logger = slog.New(slog.NewJSONHandler(o.errs, nil))
		}
		d, err := webhook.New(o, s)
		if err != nil {
			return usageError{err}
		}
		if s.Key == nil && !strings.HasPrefix(s.URL, "exec:") {
			o.note("the deliveries have no signature: give a key by --key-file or %s", webhook.KeyVariable)
		}
		return d.Run(ctx)
	})
	f := c.Flags()
	f.StringVar(&s.URL, "url", "", "where to: http://, https://, or exec: and a program ["+urlVariable+"]")
	f.StringVar(&keyFile, "key-file", "", "the file with the key of the signatures ["+webhook.KeyVariable+" has the key itself]")
	f.StringSliceVar(&s.Kinds, "kind", nil, "the ends of jobs to deliver (default failed,poison)")
	f.BoolVar(&s.Arguments, "arguments", false, "deliver the arguments of jobs too")
	f.BoolVar(&s.NoNotices, "no-notices", false, "run no checks and deliver no notices")
	return c
}

// webhookKey reads the key of the signatures; nil: there is none.
func (p *program) webhookKey(file string) ([]byte, error) {
	if file == "" {
		key, _ := p.lookup(webhook.KeyVariable)
		if key == "" {
			return nil, nil
		}
		return []byte(strings.TrimSpace(key)), nil
	}
	key, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("the key of the signatures cannot be read: %w", err)
	}
	if key = []byte(strings.TrimSpace(string(key))); len(key) == 0 {
		return nil, usagef("the file %s with the key of the signatures is empty", file)
	}
	return key, nil
}

// webhookForget ends a webhook.
func (p *program) webhookForget() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "forget NAME", Short: "Remove what a webhook has not delivered, and end its announcement", Args: arguments(1, "the name of a webhook"),
		Long: "forget removes the events of a webhook that wait in Redis. Processes write none until a deliverer runs again. Stop its deliverers before.",
	}, func(ctx context.Context, o *operator, args []string) error {
		name := args[0]
		if ok, err := o.confirm(ctx, plan{Sentence: "forget the webhook " + escaped(name) + " and what it has not delivered", Count: 1}); !ok {
			return err
		}
		return o.each(ctx, args, func(ctx context.Context, name string) (done, error) {
			was, err := webhook.Forget(ctx, o, name)
			if err == nil && !was {
				err = nothing("there is no webhook %s", name)
			}
			return done{view.Object{{Key: "webhook", Value: name}, {Key: "forgotten", Value: was}}, "the webhook " + escaped(name) + " is forgotten"}, err
		})
	})
}
