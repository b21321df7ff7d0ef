package setting

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// URI returns the URI of Redis from the environment. REDIS_PROVIDER names the variable that holds it, as
// Heroku's add-ons set it; otherwise REDIS_URL holds it.
func URI(getenv func(string) string) string {
	if name := getenv("REDIS_PROVIDER"); name != "" {
		if uri := getenv(name); uri != "" {
			return uri
		}
	}
	return getenv("REDIS_URL")
}

// Dynamic returns "true" if DYNAMIC_SCHEDULE is one of the words that Ruby takes for on, and "" if it is not set.
func Dynamic(getenv func(string) string) string {
	if getenv("DYNAMIC_SCHEDULE") == "" {
		return ""
	}
	on := slices.Contains([]string{"1", "t", "T", "true", "TRUE", "on", "ON"}, getenv("DYNAMIC_SCHEDULE"))
	return strconv.FormatBool(on)
}

// Hostname returns the name of this machine in worker ids: the given one, or the system's. Resque splits
// the ids at colons, so the name must not contain any.
func Hostname(given string) (name string, err error) {
	if name = given; name == "" {
		if name, err = os.Hostname(); err != nil || name == "" {
			return "", fmt.Errorf("the name of this machine is unknown (%v); set Hostname or the flag -hostname", err)
		}
	}
	if err := CheckHostname(name); err != nil {
		return "", fmt.Errorf("Hostname is %q: %w; set Hostname or the flag -hostname", name, err)
	}
	return name, nil
}

// CheckHostname says what is wrong with the name of a machine.
func CheckHostname(name string) error {
	if strings.ContainsAny(name, ": \t\r\n") {
		return errors.New("worker ids begin with it, so it must contain neither a colon nor a blank")
	}
	return nil
}

// Exists reports whether there is a file.
func Exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
