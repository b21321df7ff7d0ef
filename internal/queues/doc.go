// Package queues knows the list of queues that a daemon works: its grammar of names, patterns,
// weights and exclusions, and in which order the poller asks the queues, each for how many jobs.
package queues
