package tracing

import "go.opentelemetry.io/otel/attribute"

// schema is the version of OpenTelemetry's conventions that the attributes are named by.
const schema = "https://opentelemetry.io/schemas/1.37.0"

// OpenTelemetry's attributes.
const (
	messagingSystem = attribute.Key("messaging.system")
	operationName   = attribute.Key("messaging.operation.name")
	operationType   = attribute.Key("messaging.operation.type")
	destination     = attribute.Key("messaging.destination.name")
	messageID       = attribute.Key("messaging.message.id")
	batchCount      = attribute.Key("messaging.batch.message_count")
	clientID        = attribute.Key("messaging.client.id")
	serverAddress   = attribute.Key("server.address")
	serverPort      = attribute.Key("server.port")
	errorType       = attribute.Key("error.type")
	exceptionType   = attribute.Key("exception.type")
	exceptionText   = attribute.Key("exception.message")
	exceptionStack  = attribute.Key("exception.stacktrace")
)

// The attributes of goworker.
const (
	class        = attribute.Key("goworker.class")
	attempt      = attribute.Key("goworker.attempt")   // which run; the first is 1
	outcomeOf    = attribute.Key("goworker.outcome")   // what became of the run, in the word of the events: done, failed, retried, …
	recovered    = attribute.Key("goworker.recovered") // in how many dead processes the job was found
	failureID    = attribute.Key("goworker.failure")   // the id of the failure record
	nextRun      = attribute.Key("goworker.next_run")  // when the job runs again, RFC 3339
	workflowID   = attribute.Key("goworker.workflow.id")
	workflowStep = attribute.Key("goworker.workflow.step")
	duplicates   = attribute.Key("goworker.duplicates") // jobs that were not enqueued, because others hold their locks
	buffered     = attribute.Key("goworker.buffered")   // jobs that wait in the program's memory, because Redis is away

	// linkOf says what a link leads to.
	linkOf = attribute.Key("goworker.link")
)

// The values of linkOf.
const (
	linkEnqueued = "enqueued" // what enqueued the job
	linkFirst    = "first"    // the job's first run
	linkPrevious = "previous" // the run before this one
	linkFollows  = "follows"  // a step of the workflow that the job follows
)

// mostText is how many bytes of an error's text, and of a stack, a span has at most.
const mostText = 4 << 10
