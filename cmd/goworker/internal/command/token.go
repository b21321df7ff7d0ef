package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/lmstfywire"
	"github.com/goworker/goworker/internal/tokens"
)

// token is the group of commands about tokens.
func (p *program) token() *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "Make, list, rotate and revoke tokens",
		Long: "token looks after the tokens of HTTP clients. Redis keeps their digests: a token is shown when it is made, and never again.\n" +
			"Servers that run hear of each change within a second.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command token %s; there are create, list, rotate, revoke and import", args[0])}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(p.tokenCreate(), p.tokenList(), p.tokenRotate(), p.tokenRevoke(), p.tokenImport())
	return c
}

// book gives f the tokens of the default pool's Redis.
func (p *program) book(c *cobra.Command, f func(ctx context.Context, b *tokens.Book) error) error {
	s, _, err := p.settings(c, false)
	if err != nil {
		return err
	}
	of, err := client(s, s.Redis, s.ResqueNamespace)
	if err != nil {
		return err
	}
	defer of.Close()
	var n neighbor.Neighbor
	if err := goworker.Beside(&n, of); err != nil {
		return err
	}
	return f(c.Context(), &tokens.Book{Do: n.Do, Clock: clock.System, Who: "goworker token by " + whoami()})
}

// whoami names who runs the command, for the audit.
func whoami() string {
	name := "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	return name + "@" + host
}

func (p *program) tokenCreate() *cobra.Command {
	var r tokens.Record
	var own string
	var within time.Duration
	c := &cobra.Command{
		Use: "create NAMESPACE", Short: "Make a token and print it", Args: arguments(1, "one namespace"),
		Example: "  goworker token create shop --description 'the web shop'\n  goworker token create shop --scopes publish --queues 'mail,img-*' --expires 720h",
		RunE: func(c *cobra.Command, args []string) error {
			r.Namespace = args[0]
			if within < 0 {
				return usageError{errors.New("--expires is the past; it takes a time such as 720h, or 0 for never")}
			}
			if within > 0 {
				r.Expires = time.Now().Add(within).UnixMilli()
			}
			return p.book(c, func(ctx context.Context, b *tokens.Book) error {
				made, e, err := b.Create(ctx, r, own)
				if err != nil {
					return err
				}
				fmt.Fprintln(c.OutOrStdout(), made)
				fmt.Fprintf(c.ErrOrStderr(), "Keep it: it is not shown again. Its id is %s.\n", e.ID())
				return nil
			})
		},
	}
	flags(c, where)
	f := c.Flags()
	f.StringVarP(&r.Description, "description", "d", "", "what the token is for")
	f.StringVar(&r.Pool, "pool", "", "the pool of its namespace")
	f.StringSliceVar(&r.Scopes, "scopes", nil, "what it may: publish, consume, ack, peek, admin-queue; all, if none is given")
	f.StringSliceVar(&r.Queues, "queues", nil, "names and patterns of the queues it reaches; all, if none is given")
	f.DurationVar(&within, "expires", 0, "how long it is valid, as in 720h; 0 is for ever")
	f.StringVar(&own, "token", "", "a token of your own, of 20 characters or more")
	return c
}

func (p *program) tokenList() *cobra.Command {
	var pool string
	var asJSON bool
	c := &cobra.Command{
		Use: "list [NAMESPACE]", Short: "List tokens by their ids",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{errors.New("token list takes one namespace, or none for all")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return p.book(c, func(ctx context.Context, b *tokens.Book) error {
				all, err := b.List(ctx, pool, strings.Join(args, ""))
				if err != nil {
					return err
				}
				if asJSON {
					e := json.NewEncoder(c.OutOrStdout())
					for _, t := range all {
						if err := e.Encode(struct {
							ID string `json:"id"`
							tokens.Record
						}{t.ID(), t.Record}); err != nil {
							return err
						}
					}
					return nil
				}
				w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
				fmt.Fprintln(w, "ID\tNAMESPACE\tPOOL\tMAY\tQUEUES\tCREATED\tEXPIRES\tDESCRIPTION")
				for _, t := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.ID(), t.Namespace, t.Pool, or(strings.Join(t.Scopes, ","), "all"),
						or(strings.Join(t.Queues, ","), "all"), day(t.Created, "-"), day(t.Expires, "never"), t.Description)
				}
				return w.Flush()
			})
		},
	}
	flags(c, where)
	c.Flags().StringVar(&pool, "pool", "", "list those of this pool")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return c
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func day(ms int64, none string) string {
	if ms == 0 {
		return none
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04")
}

func (p *program) tokenRotate() *cobra.Command {
	var after time.Duration
	c := &cobra.Command{
		Use: "rotate ID", Short: "Make a new token in the place of one, which ends in an hour", Args: arguments(1, "the id of one token, as token list prints it"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.book(c, func(ctx context.Context, b *tokens.Book) error {
				old, err := b.Get(ctx, args[0])
				if err != nil {
					return aboutID(args[0], err)
				}
				made, fresh, err := b.Rotate(ctx, old, after)
				if err != nil {
					return err
				}
				fmt.Fprintln(c.OutOrStdout(), made)
				fmt.Fprintf(c.ErrOrStderr(), "Keep it: it is not shown again. Its id is %s; %s ends in %s.\n", fresh.ID(), old.ID(), after)
				return nil
			})
		},
	}
	flags(c, where)
	c.Flags().DurationVar(&after, "after", tokens.RotateAfter, "how long the old token stays valid")
	return c
}

func (p *program) tokenRevoke() *cobra.Command {
	c := &cobra.Command{
		Use: "revoke ID", Short: "End a token now", Args: arguments(1, "the id of one token, as token list prints it"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.book(c, func(ctx context.Context, b *tokens.Book) error {
				e, err := b.Get(ctx, args[0])
				if err == nil {
					err = b.Revoke(ctx, e)
				}
				if err != nil {
					return aboutID(args[0], err)
				}
				fmt.Fprintf(c.ErrOrStderr(), "%s of %s is revoked: servers refuse it within a second.\n", e.ID(), e.Namespace)
				return nil
			})
		},
	}
	flags(c, where)
	return c
}

// aboutID names the token of an error.
func aboutID(id string, err error) error { return fmt.Errorf("token %s: %w", id, err) }

// tokenImport stores digests of lmstfy's tokens.
func (p *program) tokenImport() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use: "import --from redis://…", Short: "Take over the tokens of lmstfy, and their limits", Args: noArguments,
		Long: "import reads the tokens of lmstfy's AdminRedis and stores their digests, so that its clients go on with the tokens they have.\n" +
			"lmstfy's Redis is not changed. Run again, it adds what is new.",
		RunE: func(c *cobra.Command, _ []string) error {
			if from == "" {
				return usageError{errors.New("token import takes --from: the URI of the Redis that [AdminRedis] of lmstfy's file names")}
			}
			s, _, err := p.settings(c, false)
			if err != nil {
				return err
			}
			source, err := client(s, from, "")
			if err != nil {
				return err
			}
			defer source.Close()
			var n neighbor.Neighbor
			if err := goworker.Beside(&n, source); err != nil {
				return err
			}
			var all []lmstfywire.Token
			err = n.Do(c.Context(), func(_ resque.Store, conn redis.Conn) (err error) {
				all, err = lmstfywire.Tokens(conn)
				return err
			})
			if err != nil {
				return err
			}
			return p.book(c, func(ctx context.Context, b *tokens.Book) error {
				taken, there := 0, 0
				for _, t := range all {
					r := tokens.Record{Namespace: t.Namespace, Pool: t.Pool, Description: t.Description}
					if t.Limits.Interval > 0 {
						r.Limits = &tokens.Limits{Read: t.Limits.Read, Write: t.Limits.Write, Interval: t.Limits.Interval}
					}
					switch err := b.Import(ctx, r, t.Token); {
					case errors.Is(err, tokens.ErrExists):
						there++
					case err != nil:
						return fmt.Errorf("%d of %d tokens were taken over; one of namespace %s, %q, could not be: %w", taken, len(all), t.Namespace, t.Description, err)
					default:
						taken++
					}
				}
				fmt.Fprintf(c.OutOrStdout(), "%d tokens were taken over, %d were there already.\n", taken, there)
				return nil
			})
		},
	}
	flags(c, where)
	c.Flags().StringVar(&from, "from", "", "the Redis of lmstfy's tokens, as in redis://:password@host:6379/0")
	return c
}
