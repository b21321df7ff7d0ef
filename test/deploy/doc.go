// Package deploy runs what the folder deploy holds, without a network: units by systemd's own checks, manifests by Kubernetes' own
// types, the lines of the Dockerfile one by one, and the commands of the other files.
package deploy
