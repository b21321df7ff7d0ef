//go:build !linux

package main

import "os/exec"

// dieWithParent is Linux's; elsewhere a killed runner leaves its children behind.
func dieWithParent(*exec.Cmd) {}
