// Package queues knows the list of queues that a daemon works: its grammar of names, patterns,
// weights and exclusions, and in what order the poller asks them, and for how many jobs.
package queues
