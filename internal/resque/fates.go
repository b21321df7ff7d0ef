package resque

import "strings"

// Fate says what becomes of a key when a fleet goes back to Ruby.
type Fate string

const (
	FateRuby     Fate = "Ruby's"   // Ruby reads it as it is
	FateMoved    Fate = "moved"    // its jobs go into keys that Ruby reads
	FateReleased Fate = "released" // it is a lock, which Ruby would not release
	FateRemoved  Fate = "removed"  // it holds no job, and says nothing to Ruby
	FateKept     Fate = "kept"     // it stays
)

// KeyFate is what becomes of the keys that one method of Store names.
type KeyFate struct {
	Builder string // the method of Store
	Key     string // without the namespace; names that differ are in angle brackets
	Fate    Fate
	Why     string // a sentence for people
}

// Fates has a row for each method of Store that names keys. It decides what a drain does with
// the keys that it finds, and the page on leaving shows it.
var Fates = []KeyFate{
	{"inflight", "go:inflight:<p>", FateMoved, "The jobs of dead processes go to the heads of their queues, in their order. A live process keeps its own."},
	{"process", "go:process:<p>", FateRemoved, "It goes with the last job of a dead process."},
	{"registered", "go:process-more:<p>", FateRemoved, "What the program of a process has registered. It goes with the process, or a day later."},
	{"processes", "go:processes", FateRemoved, "Dead processes leave it when their jobs are back."},
	{"lane", "go:lane:<lane>", FateMoved, "The jobs go to the head of their queue, in the order of their lane."},
	{"turns", "go:lanes:<lanes>", FateRemoved, "Without jobs in lanes no lane has a turn."},
	{"lanes", "go:lanes", FateRemoved, "No queue is sorted any more."},
	{"ownQueue", "go:queue:<queue>", FateMoved, "The jobs go, as JSON, to the tail of the queue of that name behind msgpack:, which Ruby reads."},
	{"ownQueues", "go:queues", FateRemoved, "It has the names of these queues. Each that has jobs gets into queues."},
	{"KeyOfSchedule", "go:schedule", FateMoved, "The jobs go to resque-scheduler's schedule. Those that are due go to their queues."},
	{"kept", "go:kept:<queue>", FateMoved, "Payloads that are jobs go to the tail of their queue. Others stay and are listed."},
	{"KeyOfHints", "go:precise", FateRemoved, "Ruby's scheduler moves a job at its full second."},
	{"KeyOfLock", "go:unique:<digest>", FateReleased, "A job that Ruby runs never gives its lock back."},
	{"refusals", "go:unique:<digest>:refused", FateRemoved, "How many jobs the lock has refused. It goes by itself."},
	{"lockRest", "go:unique-rest", FateRemoved, "It says that no process looks for holders now."},
	{"limits", "go:limits", FateRemoved, "Ruby knows no limits. Each process of goworker writes its own numbers at its start."},
	{"slots", "go:slots:<limit>", FateRemoved, "No job runs under a limit."},
	{"tokens", "go:rate:<limit>", FateRemoved, "No job starts under a limit."},
	{"clock", "go:clock", FateRemoved, "It is the time of limits."},
	{"ticks", "go:ticks", FateRemoved, "Later a schedule begins as a new one, and makes up for no tick that Ruby fired."},
	{"recovered", "go:recovered", FateRemoved, "Ruby counts no deaths of processes."},
	{"pulse", "go:pulse", FateRemoved, "No process renews a lease."},
	{"probe", "go:probe:<p>", FateRemoved, "A process tried its permissions on it."},
	{"sentries", "go:sentries:<digest>", FateRemoved, "Which processes of goworker Redis notifies of pushes. It goes half a minute after the last of them."},
	{"reaped", "go:reaped:<p>", FateKept, "A process that stood still learns from it that its jobs are elsewhere. It goes after a day."},
	{"paused", "go:paused", FateKept, "An operator paused these queues. Ruby works them: stop its workers, or set pause-all-workers."},
	{"pausedSchedules", "go:paused-schedules", FateKept, "An operator paused these schedules. Ruby fires them: take them out of its file."},
	{"TallyKey", "go:tally", FateRemoved, "What processes have counted and no row has yet. It goes a day after the last process."},
	{"FoldedKey", "go:folded", FateRemoved, "Which of these counts the rows have. Without processes that count it says nothing."},
	{"MinuteKey", "go:m:<n>", FateKept, "A minute of the history. It goes after two hours."},
	{"TenMinutesKey", "go:x:<n>", FateKept, "Ten minutes of the history. They go after two days."},
	{"HourKey", "go:h:<n>", FateKept, "An hour of the history. It goes after two weeks."},
	{"DayKey", "go:d:<n>", FateKept, "A day of the history. It goes after 90 days."},
	{"LogKey", "go:log", FateKept, "Which processes came, left and were lost. It is bounded."},
	{"stats", "go:stats", FateKept, "Totals that nothing else has."},
	{"KeyOfTaken", "go:taken", FateRemoved, "How many jobs goworker took from each queue, for the ages of queues. Ruby counts none."},
	{"KeyOfDepths", "go:depths", FateRemoved, "How long the jobs of queues wait, as the keeper has found out."},
	{"NoticeKey", "go:notice", FateRemoved, "What has changed for processes. It goes 25 hours after the last change."},
	{"CommandsKey", "go:control", FateRemoved, "Commands of operators to processes. It goes an hour after the last one."},
	{"ReplyKey", "go:reply:<id>", FateRemoved, "What processes answered to a command. It goes after a minute."},
	{"ReplySizeKey", "go:reply:<id>:n", FateRemoved, "How many bytes these answers have. It goes with them."},
	{"RulesKey", "go:rules", FateKept, "What operators set for processes until they take it back. Ruby obeys none of it."},
	{"EndsKey", "go:events", FateRemoved, "How jobs ended badly, for programs that listen. It goes ten minutes after the last event."},
	{"PacksKey", "go:events-all", FateRemoved, "What else happened to jobs, for programs that listen. It goes ten minutes after the last event."},
	{"HookKey", "go:webhook:<name>", FateRemoved, "What a webhook has not delivered yet. It goes 25 hours after its last deliverer."},
	{"HookStateKey", "go:webhook:<name>:state", FateRemoved, "What the deliverers of a webhook share. It goes with the stream."},
	{"audit", "go:audit", FateKept, "What operators changed, and why. It is bounded."},
	{"OperationKey", "go:operation:<id>", FateKept, "What an operation did, for its undo. It goes after seven days."},
	{"OperationsKey", "go:operations", FateKept, "The operations that are listed. It goes with the last of them."},
	{"OperatingKey", "go:operating", FateRemoved, "Which operations a program runs. End them before."},
	{"BinKey", "go:bin:<id>:<place>", FateKept, "Jobs that an operator removed. They go after a day: undo the operation before if they are to run."},
	{"KeyOfCancelled", "go:cancelled", FateKept, "A program or an operator cancelled these jobs. Ruby runs them: remove them before. It goes after a week."},
	{"ImportedKey", "go:imported", FateRemoved, "It holds no job: only which page of an import from lmstfy came last. End imports before."},
	{"KeyOfLeased", "go:leased", FateMoved, "The jobs that clients hold over HTTP go to the heads of their queues. A client that ends one later finds no lease."},
	{"KeyOfLeases", "go:leases", FateRemoved, "It goes with the jobs of go:leased."},
	{"ReturnedKey", "go:returned", FateRemoved, "It says which jobs came back from clients, so that a late acknowledgement spares the second run. Ruby does not ask."},
	{"OnceKey", "go:idem:<digest>", FateRemoved, "It says which jobs a publish with an idempotency key made, for a day. Ruby does not ask."},
	{"TokensKey", "go:http:tokens", FateKept, "Who may use the HTTP API: digests of tokens, and no token. Remove it when no server is to come back."},
	{"RateKey", "go:http:rate:<digest>:<kind>", FateRemoved, "It counts a token's requests over HTTP. It goes with its window."},
	{"RestKey", "go:http:rest:<queue>", FateRemoved, "Servers of HTTP do not search the queue for a while. It goes by itself."},
	{"ServedKey", "go:served:<t>", FateRemoved, "What a server of HTTP was given last. It goes a day after the server's start by itself."},
	{"TakersKey", "go:takers", FateRemoved, "The servers that take jobs for clients. A live one is named: stop it before."},
	{"TakerKey", "go:taker:<t>", FateRemoved, "What a server says of itself. It goes some seconds after the server's end by itself."},
	{"JumpKey", "go:jump", FateRemoved, "How far Redis's clock jumped ahead. It goes by itself."},
	{"KeyOfResult", "go:result:<id>", FateKept, "What became of a job. It goes when its time is over; a job that Ruby runs writes no end into it."},
	{"KeyOfProgress", "go:progress:<id>", FateKept, "How far a job was. It goes with its document."},
	{"KeyOfJobLogs", "go:logs:<id>", FateKept, "The captured log lines of a job. They go with its document."},
	{"KeyOfCursor", "go:cursor:<id>", FateKept, "How far a long job is. Ruby does not read it, and runs the job from its beginning. It goes a week after its last use."},
	{"WorkflowKey", "go:wf:<id>", FateKept, "The steps of a workflow that wait are in it, and Ruby does not send them. Let workflows end before, or cancel them."},
	{"LettersKey", "go:wf-steps:<id>", FateKept, "How far the steps of a workflow are. It goes with the workflow."},
	{"IndexKey", "go:workflows", FateKept, "The workflows that are there. They are listed by it."},
	{"HaltedKey", "go:halted", FateKept, "Steps of these workflows do not run. Ruby runs those that are in queues: remove them before."},
	{"StalledKey", "go:stalled", FateKept, "Workflows that stand still because jobs of theirs are lost."},
	{"GroupKey", "go:group:<id>", FateMoved, "A job is made of the group, at the tail of its queue. Ruby's class gets the key and a list."},
	{"GroupsKey", "go:groups", FateRemoved, "Without groups no time is to be kept."},
	{"LockKey", "go:wf-lock:<name>", FateKept, "It holds nothing up once its workflow has ended."},
	{"own", "go:<name>", FateKept, "A key of a feature that this version does not know. It is listed."},

	{"KeyOfRubys", "queue:<queue>", FateRuby, "The jobs that wait. Fields beside class and args stay, and Ruby passes over them."},
	{"KeyOfQueues", "queues", FateRuby, "Each queue that gets a job is in it."},
	{"KeyOfSeconds", "delayed_queue_schedule", FateRuby, "It gets the seconds of the jobs that are moved."},
	{"KeyOfSecond", "delayed:<second>", FateRuby, "It gets the jobs of go:schedule."},
	{"KeyOfJobSeconds", "timestamps:<item>", FateRuby, "Resque.remove_delayed finds the job by it."},
	{"KeyOfFailures", "failed", FateRuby, "Failures are Ruby's records."},
	{"failed", "failed", FateRuby, "Failures are Ruby's records."},
	{"KeyOfFailureLists", "failed_queues", FateRuby, "The names of the failure lists, where each queue has one."},
	{"workers", "workers", FateRuby, "Workers of dead processes are removed."},
	{"worker", "worker:<id>", FateRuby, "Those of dead processes are removed."},
	{"started", "worker:<id>:started", FateRuby, "Those of dead processes are removed."},
	{"heartbeats", "workers:heartbeat", FateRuby, "Those of dead processes are removed."},
	{"workerStat", "stat:<total>:<id>", FateRuby, "Those of dead processes are removed."},
	{"stat", "stat:<total>", FateRuby, "The totals go on."},
	{"pruneLock", "pruning_dead_workers_in_progress", FateRuby, "It expires."},
	{"pauseAll", "pause-all-workers", FateRuby, "Ruby's workers obey it."},
	{"phpStatus", "job:<id>:status", FateRuby, "php-resque reads it."},
	{"retryCount", "resque-retry:<key>", FateRuby, "resque-retry goes on counting."},
	{"retryFailure", "failure-resque-retry:<key>", FateRuby, "resque-retry goes on."},
	{"lastEnqueuedAt", "delayed:last_enqueued_at", FateRuby, "resque-scheduler's page shows it."},
	{"persistentSchedules", "persistent_schedules", FateRuby, "A resque-scheduler with DYNAMIC_SCHEDULE fires them."},
	{"schedulesChanged", "schedules_changed", FateRuby, "resque-scheduler reads which schedules have changed."},
	{"MasterLock", "<namespace>resque_scheduler_master_lock", FateRuby, "The lock of a dead process is released, so that resque-scheduler begins at once."},
}

// OwnKey is one of our keys.
type OwnKey struct {
	Name string  // with the namespace
	Part string  // what stands in it for the angle brackets
	Is   KeyFate // the row that it belongs to
}

// ownKey returns what a key of goworker is. The row with the longest beginning and end wins.
func (s Store) ownKey(name string) OwnKey {
	k, longest := OwnKey{Name: name}, -1
	for _, row := range Fates {
		start, rest, open := strings.Cut(s.ns+row.Key, "<")
		part, ok := strings.CutPrefix(name, start)
		_, end, _ := strings.Cut(rest, ">")
		if strings.Contains(end, "<") {
			end = ""
		}
		part, ends := strings.CutSuffix(part, end)
		if ok && ends && (open || part == "") && strings.HasPrefix(row.Key, "go:") && len(start)+len(end) > longest {
			k.Part, k.Is, longest = part, row, len(start)+len(end)
		}
	}
	return k
}
