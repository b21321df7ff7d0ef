// Package fleet keeps this process in the fleet of all processes that work for the same Redis: its
// lease, and the registration, heartbeats and status of its workers. It also works for the fleet: it
// finds processes that died and requeues their jobs, and removes old workers and failures.
package fleet
