package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	ours   = "ours"
	lmstfy = "lmstfy"

	lmstfyModule = "github.com/bitleak/lmstfy@v1.0.15"
)

// startLmstfy builds lmstfy's server from its published module and starts it.
func (s *setup) startLmstfy(ctx context.Context, store string) error {
	said, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", lmstfyModule).Output()
	if err != nil {
		return fmt.Errorf("%s cannot be downloaded: %w", lmstfyModule, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(said, &module); err != nil {
		return err
	}
	program := filepath.Join(s.dir, "lmstfy")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./server")
	build.Dir, build.Stderr = module.Dir, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building %s: %w", lmstfyModule, err)
	}
	admin, err := free()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.address)
	_, adminPort, _ := net.SplitHostPort(admin)
	config := fmt.Sprintf("Host = \"127.0.0.1\"\nPort = %s\nAdminPort = %s\nLogLevel = \"error\"\n[AdminRedis]\nAddr = %q\n[Pool.default]\nAddr = %q\n",
		port, adminPort, store, store)
	if err := os.WriteFile(s.dir+"/lmstfy.toml", []byte(config), 0o600); err != nil {
		return err
	}
	s.server = exec.CommandContext(ctx, program, "-c", "lmstfy.toml", "-p", "lmstfy.pid")
	s.server.Dir = s.dir
	if err := s.server.Start(); err != nil {
		return err
	}
	if err := eventually(func() error { return answers("http://" + admin + "/version") }); err != nil {
		return fmt.Errorf("lmstfy did not start: %w", err)
	}
	reply, err := http.Post("http://"+admin+"/token/"+namespace+"?description=bench", "", strings.NewReader(""))
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	var made struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(reply.Body).Decode(&made); err != nil || made.Token == "" {
		return errors.Join(errors.New("lmstfy made no token"), err)
	}
	s.token = made.Token
	return nil
}
