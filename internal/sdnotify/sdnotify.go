// Package sdnotify tells the service manager how this process is, by the protocol of sd_notify(3): one datagram a message, with
// lines NAME=value, to the socket that $NOTIFY_SOCKET names. systemd sets it for a unit of Type=notify. Without it nothing is sent.
package sdnotify

import (
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// variables are those by which a service manager addresses one process.
var variables = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}

// Without returns an environment for a child process, which must not speak for its parent.
func Without(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(variables, name)
	})
}

// sendWithin bounds a message: a manager that does not read must not hold up the process.
const sendWithin = time.Second

// environment returns the socket, "" if there is none, and within which time the manager wants a sign of life; 0: it wants none.
func environment(get func(string) string, pid int) (socket string, watchdog time.Duration) {
	if socket = get("NOTIFY_SOCKET"); !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return "", 0
	}
	if of := get("WATCHDOG_PID"); of != "" && of != strconv.Itoa(pid) {
		return socket, 0 // it watches the process that started this one
	}
	if us, err := strconv.ParseInt(get("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 {
		watchdog = time.Duration(us) * time.Microsecond
	}
	return socket, watchdog
}

// send sends one message. A name that begins with @ is one of Linux's abstract sockets. Each message has a connection of its own, so a
// manager that makes its socket again is found.
func send(c clock.Clock, socket string, lines ...string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(c.Now().Add(sendWithin)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(strings.Join(lines, "\n")))
	return err
}

// oneLine returns a text without what would begin another line of a message.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func ownEnvironment() (string, time.Duration) { return environment(os.Getenv, os.Getpid()) }
