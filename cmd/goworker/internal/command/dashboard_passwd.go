package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/goworker/goworker/dashboard"
)

// leastPassword is how many bytes a password has.
const leastPassword = 8

// passwd prints a line for the file of --basic-auth-file.
func (p *program) passwd() *cobra.Command {
	var role string
	var queues []string
	c := p.long(&cobra.Command{
		Use: "passwd NAME", Short: "Print a line for the file of --basic-auth-file", Args: arguments(1, "the name of one user"),
		Long: "passwd asks for a password, or reads it from its input, and prints the user's line. The line has a hash of the password. A dashboard that runs reads the file again when\n" +
			"it has changed.",
		Example: "  goworker dashboard passwd ann --role operator >> users\n  goworker dashboard passwd bob --queues 'mail*,img' < password >> users",
	}, func(_ context.Context, o *operator, args []string) error {
		as, err := dashboard.ParseRole(role)
		if err != nil {
			return usageError{fmt.Errorf("--role: %w", err)}
		}
		user := dashboard.User{Name: args[0], Role: as, Queues: queues}
		password, err := o.password(user.Name)
		if err != nil {
			return err
		}
		line, err := dashboard.UserLine(user, password)
		if err != nil {
			return usageError{err}
		}
		_, err = fmt.Fprintln(o.out, line)
		return err
	})
	c.Flags().StringVar(&role, "role", "viewer", "what the user may do: viewer, operator or admin")
	c.Flags().StringSliceVar(&queues, "queues", nil, "names and patterns of the queues that the user sees (default all)")
	return c
}

// password asks for a new password twice, or reads one line of the input.
func (o *operator) password(name string) (string, error) {
	var password string
	if f, ok := o.stdin.(*os.File); ok && term.IsTerminal(f.Fd()) {
		ask := func(text string) (string, error) {
			fmt.Fprint(o.errs, text)
			typed, err := term.ReadPassword(f.Fd())
			fmt.Fprintln(o.errs)
			return string(typed), err
		}
		var err error
		if password, err = ask("Password of " + name + ": "); err != nil {
			return "", err
		}
		again, err := ask("Once more: ")
		if err != nil {
			return "", err
		}
		if again != password {
			return "", usageError{errors.New("the two passwords differ")}
		}
	} else {
		line, err := bufio.NewReader(io.LimitReader(o.stdin, 4096)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		password = strings.TrimRight(line, "\r\n")
	}
	if len(password) < leastPassword {
		return "", usagef("the password has %d bytes; give it at least %d", len(password), leastPassword)
	}
	return password, nil
}
