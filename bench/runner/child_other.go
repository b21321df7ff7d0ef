//go:build !linux

package main

import "os/exec"

// startToDieWithParent starts a child. Only on Linux it dies with the runner; elsewhere a killed runner leaves it behind.
func startToDieWithParent(cmd *exec.Cmd) error { return cmd.Start() }
