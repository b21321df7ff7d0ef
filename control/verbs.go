package control

// The verbs of Inspect, which change nothing.
const (
	Ping = "ping" // answers
)
