// Package systemd is a service manager for tests. It reads a unit of systemd and does with a program what the unit says.
//
// A directive is obeyed, or it is in the list of those that mean nothing to a test, or the unit is refused.
package systemd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Unit is a service as its files say.
type Unit struct {
	Exec        []string // the program and its arguments, with specifiers and variables
	Environment []string
	Credentials map[string]string // names to the paths of their files

	Restart      string // no, on-failure or always
	RestartAfter time.Duration
	Watchdog     time.Duration
	StartTimeout time.Duration
	StopTimeout  time.Duration
	Mixed        bool // KILL goes to the group, TERM to the program alone
	Signal       syscall.Signal
}

// meaningless are the directives that a test cannot see: what the machine must have before, and what the program may not do.
var meaningless = strings.Fields(`
	Unit.Description Unit.Documentation Unit.Wants Unit.After Unit.StartLimitIntervalSec Unit.StartLimitBurst
	Install.WantedBy
	Service.User Service.Group Service.DynamicUser Service.CapabilityBoundingSet Service.AmbientCapabilities Service.NoNewPrivileges
	Service.ProtectSystem Service.ProtectHome Service.ProtectProc Service.ProcSubset Service.PrivateTmp Service.PrivateDevices Service.PrivateUsers
	Service.ProtectClock Service.ProtectControlGroups Service.ProtectHostname Service.ProtectKernelLogs Service.ProtectKernelModules
	Service.ProtectKernelTunables Service.LockPersonality Service.MemoryDenyWriteExecute Service.RemoveIPC Service.RestrictAddressFamilies
	Service.RestrictNamespaces Service.RestrictRealtime Service.RestrictSUIDSGID Service.SystemCallArchitectures Service.SystemCallFilter
	Service.SystemCallErrorNumber Service.UMask Service.LimitNOFILE Service.MemoryMax Service.OOMPolicy Service.SyslogIdentifier
	Service.ExecReload`)

// Read reads a unit and then its drop-ins, as systemd lays them over it. Its error has all mistakes.
func Read(files ...string) (*Unit, error) {
	// The defaults are those of systemd.
	u := &Unit{Credentials: make(map[string]string), Restart: "no", RestartAfter: 100 * time.Millisecond,
		StartTimeout: 90 * time.Second, StopTimeout: 90 * time.Second, Signal: syscall.SIGTERM}
	var wrong []error
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		section := ""
		text := strings.ReplaceAll(string(data), "\\\n", " ")
		for n, line := range strings.Split(text, "\n") {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
				continue
			}
			if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
				section = line[1 : len(line)-1]
				continue
			}
			name, value, ok := strings.Cut(line, "=")
			if !ok {
				err = fmt.Errorf("%q is no directive", line)
			} else {
				err = u.set(section+"."+strings.TrimSpace(name), strings.TrimSpace(value))
			}
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s:%d: %w", filepath.Base(file), n+1, err))
			}
		}
	}
	if len(u.Exec) == 0 && len(wrong) == 0 {
		wrong = append(wrong, errors.New("the unit has no ExecStart"))
	}
	return u, errors.Join(wrong...)
}

func (u *Unit) set(name, value string) (err error) {
	only := func(allowed ...string) error {
		if !slices.Contains(allowed, value) {
			return fmt.Errorf("%s=%s: this manager knows only %q", name, value, allowed)
		}
		return nil
	}
	switch name {
	case "Service.Type":
		return only("notify")
	case "Service.NotifyAccess":
		return only("main")
	case "Service.ExecStart":
		words, err := split(value)
		if len(u.Exec) > 0 && len(words) > 0 {
			return errors.New("ExecStart is there already: a drop-in begins with an empty one")
		}
		u.Exec = words
		return err
	case "Service.Environment":
		words, err := split(value)
		if u.Environment = append(u.Environment, words...); value == "" {
			u.Environment = nil
		}
		return err
	case "Service.LoadCredential":
		id, path, ok := strings.Cut(value, ":")
		if u.Credentials[id] = path; !ok || !filepath.IsAbs(path) {
			return fmt.Errorf("LoadCredential=%s must be a name, a colon and an absolute path", value)
		}
	case "Service.Restart":
		u.Restart = value
		return only("no", "on-failure", "always")
	case "Service.KillMode":
		u.Mixed = value == "mixed"
		return only("mixed", "control-group")
	case "Service.KillSignal":
		return only("SIGTERM")
	case "Service.RestartSec":
		u.RestartAfter, err = span(value)
	case "Service.WatchdogSec":
		u.Watchdog, err = span(value)
	case "Service.TimeoutStartSec":
		u.StartTimeout, err = span(value)
	case "Service.TimeoutStopSec":
		u.StopTimeout, err = span(value)
	default:
		if !slices.Contains(meaningless, name) {
			return fmt.Errorf("%s is neither obeyed nor in the list of what means nothing here", name)
		}
	}
	return err
}

// span reads a time as systemd does: a number is seconds.
func span(value string) (time.Duration, error) {
	if strings.Trim(value, "0123456789") == "" {
		value += "s"
	}
	d, err := time.ParseDuration(strings.ReplaceAll(strings.ReplaceAll(value, "min", "m"), " ", ""))
	if err != nil {
		return 0, fmt.Errorf("%q is no time", value)
	}
	return d, nil
}

// split returns the words of a line, without their quotes.
func split(line string) (words []string, err error) {
	var word strings.Builder
	quote, inside := byte(0), false
	for i := range len(line) {
		switch c := line[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inside = c, true
		case c == '\\':
			return nil, fmt.Errorf("%s: this manager knows no escapes", line)
		case quote == 0 && (c == ' ' || c == '\t'):
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteByte(c)
			inside = true
		}
	}
	if inside {
		words = append(words, word.String())
	}
	if quote != 0 {
		err = fmt.Errorf("%s: a quote is not closed", line)
	}
	return words, err
}

// expand replaces the specifiers of a word, and then variables if it has an environment to take them from.
func expand(word, instance, credentials string, environment map[string]string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(word); i++ {
		switch {
		case word[i] == '%' && i+1 < len(word):
			i++
			switch word[i] {
			case '%':
				out.WriteByte('%')
			case 'i', 'I':
				out.WriteString(instance)
			case 'd':
				out.WriteString(credentials)
			default:
				return "", fmt.Errorf("%s: this manager does not know the specifier %%%c", word, word[i])
			}
		case environment != nil && strings.HasPrefix(word[i:], "${"):
			name, _, ok := strings.Cut(word[i+2:], "}")
			if !ok {
				return "", fmt.Errorf("%s: a brace is not closed", word)
			}
			out.WriteString(environment[name])
			i += len(name) + 2
		default:
			out.WriteByte(word[i])
		}
	}
	return out.String(), nil
}
