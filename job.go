package goworker

// Job is one unit of work: the queue it lies in and what Resque stores there.
// Literals without field names, Job{"mail", Payload{"SendEmail", args}}, stay
// valid: neither this type nor Payload will ever get another field. What else is
// known about a running job (its id, attempt, raw bytes) is in its Delivery.
type Job struct {
	// Queue is the queue's name without namespace and "queue:" prefix.
	Queue string
	// Payload is what is stored in the queue.
	Payload Payload
}

// Payload is the content of a job as Resque writes it, {"class":…,"args":[…]}.
type Payload struct {
	// Class names the handler. Ruby's workers take it for a Ruby class name.
	Class string `json:"class"`
	// Args are the arguments in order. In a job that was received, they hold
	// what encoding/json makes of JSON: string, bool, nil, []interface{},
	// map[string]interface{}, and float64 or, with UseNumber, json.Number.
	Args []interface{} `json:"args"`
}
