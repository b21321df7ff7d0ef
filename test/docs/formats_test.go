package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
)

// formats check the blocks that are not run.
var formats = map[string]func(t *testing.T, s *scene, text string) error{
	"yaml": checkYAML, "ini": checkINI, "dockerfile": checkDockerfile, "procfile": checkProcfile,
	"json": checkJSON, "acl": checkACL, "diff": checkDiff, "log": checkLog, "wire": checkJSON, "picture": checkPicture,
	"golang": checkForeignGo, "toml": checkTOML,
}

// manifest is what of a manifest of Kubernetes is checked here beside that it is YAML without doubled keys.
type manifest struct {
	Kind       string `yaml:"kind"`
	APIVersion string `yaml:"apiVersion"`
	Metadata   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
}

func checkYAML(_ *testing.T, _ *scene, text string) error {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var all map[string]any // refuses a key that is there twice
		if err := node.Decode(&all); err != nil {
			return err
		}
		if _, ok := all["apiVersion"]; !ok {
			continue
		}
		var m manifest
		if err := node.Decode(&m); err != nil {
			return err
		}
		if m.Kind == "" || m.APIVersion == "" || m.Metadata.Name == "" {
			return fmt.Errorf("a manifest without kind, apiVersion or name: %+v", m)
		}
	}
}

// unit are the settings of a unit of systemd that the docs use, by section.
var unit = map[string][]string{
	"Unit": {"Description", "Documentation", "After", "Wants", "StartLimitIntervalSec"},
	"Service": {
		"Type", "User", "DynamicUser", "Environment", "EnvironmentFile", "LoadCredential", "ExecStart", "ExecStartPre", "ExecStartPost", "ExecReload", "KillSignal", "KillMode",
		"TimeoutStopSec", "WatchdogSec", "Restart", "RestartSec", "MemoryMax", "SuccessExitStatus", "WorkingDirectory",
		// What takes rights away. The checks of deploy ask systemd itself.
		"CapabilityBoundingSet", "LockPersonality", "MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateDevices", "PrivateTmp", "PrivateUsers", "ProcSubset", "ProtectClock", "ProtectControlGroups",
		"ProtectHome", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectProc", "ProtectSystem", "RemoveIPC", "RestrictAddressFamilies",
		"RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "SystemCallArchitectures", "SystemCallErrorNumber", "SystemCallFilter", "UMask",
	},
	"Install": {"WantedBy"},
}

func checkINI(_ *testing.T, _ *scene, text string) error {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, _, pair := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
			if unit[section] == nil {
				return fmt.Errorf("no section %q is known", section)
			}
		case !pair:
			return fmt.Errorf("the line %q sets nothing", line)
		case section == "" && slices.Contains(unit["Service"], key): // one line of a unit
		case !slices.Contains(unit[section], key):
			return fmt.Errorf("a unit's section %s has no setting %q", section, key)
		}
	}
	return nil
}

func checkDockerfile(_ *testing.T, _ *scene, text string) error {
	instruction := regexp.MustCompile(`^(FROM|WORKDIR|COPY|RUN|ENV|USER|ENTRYPOINT|CMD|STOPSIGNAL|ARG|#)(\s|$)`)
	joined := strings.ReplaceAll(text, "\\\n", " ")
	if !regexp.MustCompile(`(?m)^FROM `).MatchString(joined) {
		return errors.New("it has no FROM")
	}
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if line != "" && !instruction.MatchString(line) {
			return fmt.Errorf("%q is no instruction of a Dockerfile", line)
		}
		for _, name := range []string{"ENTRYPOINT ", "CMD "} {
			if args, ok := strings.CutPrefix(line, name); ok {
				var list []string // a shell form would get the signals in place of the program
				if err := json.Unmarshal([]byte(args), &list); err != nil {
					return fmt.Errorf("%s is not in the form of a JSON array: %w", line, err)
				}
			}
		}
	}
	return nil
}

func checkProcfile(_ *testing.T, _ *scene, text string) error {
	for line := range strings.Lines(text) {
		if !regexp.MustCompile(`^[a-z]+: \S`).MatchString(line) {
			return fmt.Errorf("%q is no line of a Procfile", line)
		}
	}
	return nil
}

func checkJSON(_ *testing.T, _ *scene, text string) error {
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) {
			return fmt.Errorf("%q is no JSON", line)
		}
	}
	return nil
}

// checkACL gives the rules to the page's server, which refuses what it does not know.
func checkACL(t *testing.T, s *scene, text string) error {
	fields := strings.Fields(text)
	if len(fields) < 3 || fields[0] != "user" {
		return errors.New("a block of ACL begins with user and its name")
	}
	args := []any{"SETUSER"}
	for _, field := range fields[1:] {
		args = append(args, field)
	}
	s.server.Do(t, "ACL", args...)
	return nil
}

// checkTOML wants names with values, in sections. What reads the file is the check of its values.
func checkTOML(_ *testing.T, _ *scene, text string) error {
	for line := range strings.Lines(text) {
		if !regexp.MustCompile(`^(\s*|\[[\w.]+\]\s*|\w+ = ("[^"]*"|\d+|true|false)\s*)(#.*)?\n$`).MatchString(line) {
			return fmt.Errorf("%q is no line of TOML", line)
		}
	}
	return nil
}

func checkDiff(_ *testing.T, _ *scene, text string) error {
	for line := range strings.Lines(text) {
		if !strings.ContainsAny(line[:1], "+- @\n") {
			return fmt.Errorf("%q is no line of a diff", line)
		}
	}
	return nil
}

// sources are all Go sources but tests.
var sources = sync.OnceValue(func() string {
	var all strings.Builder
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "bench" || d.Name() == "chaos") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all.Write(text)
		}
		return nil
	})
	return all.String()
})

// checkLog looks for the message of each line in the code: LEVEL message key=value …
func checkLog(_ *testing.T, _ *scene, text string) error {
	for line := range strings.Lines(text) {
		m := regexp.MustCompile(`^(?:DEBUG|INFO|WARN|ERROR) (.*?)(?: \w+=.*)?\n$`).FindStringSubmatch(line)
		if m == nil || !strings.Contains(sources(), `"`+m[1]) {
			return fmt.Errorf("%q is no line that the code logs", line)
		}
	}
	return nil
}

// checkForeignGo wants Go as gofmt writes it, of a library that is not ours and is not compiled.
func checkForeignGo(_ *testing.T, _ *scene, text string) error {
	formatted, err := format.Source([]byte(text))
	if err == nil && string(formatted) != text {
		err = fmt.Errorf("gofmt writes it otherwise:\n%s", formatted)
	}
	return err
}

// checkPicture wants a drawing: nothing that a reader would type.
func checkPicture(_ *testing.T, _ *scene, text string) error {
	if !strings.ContainsAny(text, "─│┌└▶") {
		return errors.New("a picture draws lines")
	}
	return nil
}
