#!/bin/sh
# Things broken on purpose, for each of which a test must fall. A test that passes all the same
# proves nothing. mutate.sh says what the arguments are.
set -u
. "$(dirname "$0")/mutate.sh"

# try NAME PACKAGE TESTS FILE SED [FILE SED]...: TESTS is a regular expression of names.
try() {
	of=$1 package=$2 tests=$3
	shift 3
	mutate "$of" "$@" && builds . go test -c -o "$copy/mutated.test" "$package" || return 0
	shrink=
	grep -qF rapid.shrinktime "$copy/mutated.test" && shrink=-rapid.shrinktime=1s
	if in_copy "$package" "$copy/mutated.test" -test.count=1 -test.timeout=3m -test.run "^($tests)\$" $shrink; then
		fault "NOT FOUND: $tests of $package pass all the same"
		return 0
	fi
	by=$(sed -n -E 's/^ *--- FAIL: ([^ /]+).*/\1/p; s/^\t+(Test[^ /]+)[^ ]* \([0-9.ms]+\)$/\1/p' "$log" | sort -u | head -n 4 | tr '\n' ' ')
	if [ -n "$by" ]; then
		echo "$name: found by ${by% } of $package"
	else
		fault "no test fell, but the program did:"
		tail -n 20 "$log"
	fi
}

scripts=internal/resque/scripts
# The record in Redis misses the jobs that a process has reserved.
try inflight ./internal/resque 'TestReserve|TestStates' \
	$scripts/exchange.lua "s/^  if count > 0 then redis.call('HSET', record.*//" \
	$scripts/briefqueues.lua "s/^if filled > 0 then call('HSET', record.*//"
# A commit of an epoch that is over, or of a process that was found dead, is heeded.
try commit-epoch ./internal/resque TestCommitRefusedAsAWhole \
	$scripts/commit.lua 's/^  if epoch ~= ARGV\[2\] then/  if not epoch then/'
try commit-zombie ./internal/resque TestCommitRefusedAsAWhole \
	$scripts/commit.lua 's/^  if epoch ~= \(ARGV\[2\]\) then \(.*\)$/  if not strict and epoch ~= \1 then \2\n  strict = false/'
# Reapers trust the leases of others although the fleet was silent for a while.
try gap ./internal/resque TestDead \
	$scripts/renew.lua "s/ or now - last > tonumber(ARGV\[3\])//; s/, 'PX', ARGV\[3\])/)/"
# What an exchange without an answer handed in is not handed in again.
try outcome ./internal/inflight TestRecord \
	internal/inflight/commit.go 's/^\tr.pending, r.sent, r.spending = append(r.sent, r.pending...), nil, 0$/\tr.sent, r.spending = nil, 0/'
# A unique job that ended keeps its lock.
try lock ./test/jobs TestUniqueUntilDone \
	internal/feature/unique/unique.go '/deps.Store.Released(/d'
# A job from a lane that ended keeps its slot.
try slot ./internal/resque TestTakeKeepsLimits \
	internal/resque/leaving.go '/^\t\tl.slot = l.effects/d'
# Two processes fire one tick.
try tick ./internal/resque TestEveryTickIsFiredOnce \
	$scripts/tick.lua '/^if tick ~= ARGV\[2\]/d'
# Large whole numbers lose their last digits.
try argument ./internal/args TestFunction \
	internal/args/decode.go 's/^\tn, err := strconv.ParseInt(string(raw), 10, 64)$/\tf, err := strconv.ParseFloat(string(raw), 64)\n\tn := int64(f)/'
# Workers are registered and send no heartbeats: Ruby would remove them.
try heartbeat ./internal/resque TestHeartbeat \
	$scripts/beat.lua "s/redis.pcall('HSET', KEYS\[1\], unpack(ARGV, 2))/0/"
# The fields of a failure record stand in another order than Ruby's.
try failure-fields ./internal/payload 'TestFailureEqualsRuby|TestFailureEncode' \
	internal/payload/failure.go 's/,"exception":/,"?":/; s/,"error":/,"exception":/; s/,"?":/,"error":/
		s/withoutMarkup.Replace(f.Exception)/?/; s/f\.Error)$/withoutMarkup.Replace(f.Exception))/; s/?)$/f.Error)/'
# The last failure stands first.
try failure-list ./internal/resque 'TestCommit.*' \
	internal/resque/commit.go 's/effect("RPUSH", listKey(list), record)/effect("LPUSH", listKey(list), record)/'
# The process of an isolated job outlives its limits.
try child ./test/isolated TestKilledAtTheLimit \
	internal/isolate/run.go 's/_ = syscall.Kill(-c.cmd.Process.Pid, s)/if s != syscall.SIGKILL { & }/'
# What the process of an isolated job has started outlives it.
try child-group ./test/isolated TestKilledAtTheLimit \
	internal/isolate/run.go 's/syscall.Kill(-c.cmd.Process.Pid, s)/syscall.Kill(c.cmd.Process.Pid, s)/'
# What was forgotten of a job comes back with its end.
try document-forgotten ./internal/feature/results TestDocuments \
	internal/feature/results/result.lua '/if not was then return end/d'
# A note that comes late says that an ended job runs.
try document-late ./internal/feature/results TestDocuments \
	$scripts/note.lua "s/call('HEXISTS', KEYS\[1\], ARGV\[at\]) == 1 and //"
# What is kept of an ended job stays as long as that of a job that waits.
try document-ttl ./internal/feature/results TestDocuments \
	internal/feature/results/result.lua "s/^ *call('PEXPIRE', doc, ttl.*//; s/ call('PEXPIRE', keys\[2\], ttl) end/ end/"
# All tries of a job are kept.
try document-tries ./internal/feature/results TestDocuments \
	internal/feature/results/result.lua "/call('HDEL', doc, 't' .. tries - 20)/d"
# A cancel changes how a job has ended.
try document-cancel ./internal/feature/results TestDocuments \
	$scripts/parts/cancelling.lua "s/ then return {'over', state} end/ then state = 'pending' end/"
# A cancelled job that goes back says that it waits.
try document-cancelled ./internal/feature/results TestDocuments \
	internal/feature/results/result.lua "s/was == 'cancelled' and not over and 'was' or 'state'/'state'/"
# A cancel that is taken back late has an ended job go on.
try document-lift ./internal/feature/results TestDocuments \
	internal/feature/results/result.lua "/^ *if over then call('HDEL', doc, 'was') end/d"
workflow=internal/resque/workflows/scripts/parts/workflow.lua
# A step that has ended ends once more: its letter is not looked at.
try workflow-letter ./internal/feature/workflow TestWorkflows \
	internal/resque/workflows/scripts/verbs/arrive.lua "s/^  if not ends and .* then return end -- late$//"
# A cancelled workflow goes on.
try workflow-halted ./internal/feature/workflow TestWorkflows \
	$workflow "s/w.halted = state == 'cancelled' or/w.halted =/"
# A paused workflow goes on.
try workflow-paused ./internal/feature/workflow TestWorkflows \
	$workflow "s/ or not w.halted and field(w, 'paused') == '1'//"
# A join that has sent what it sends sends it again.
try workflow-final ./internal/feature/workflow TestWorkflows \
	$workflow "s/^    J.kind, J.changed = 'z', true$/    J.changed = true/"
# What comes behind a failure is sent.
try workflow-bad ./internal/feature/workflow TestWorkflows \
	$workflow "s/^    if J.bad > 0 then return 'n' end$//"
# A failure that a group bears counts for what is around it.
try workflow-borne ./internal/feature/workflow TestWorkflows \
	$workflow "s/elseif how == 'badly' and borne == '-' or/elseif how == 'badly' or/"
# Of the error handlers only the innermost one is called.
try workflow-handlers ./internal/feature/workflow TestWorkflows \
	$workflow "s/for _, h in ipairs(handlers) do handler(w, h) end/handler(w, handlers[1])/"
# A handler of completion is not called.
try workflow-complete ./internal/feature/workflow TestWorkflows \
	$workflow "s/^      handler(w, J.over)$//"
# A failure in a cancelled workflow calls handlers.
try workflow-cancelled ./internal/feature/workflow TestWorkflows \
	$workflow "s/if w.state ~= 'cancelled' and w.state ~= 'expired' then/do/"
# A workflow whose last failure has succeeded after all stays failed.
try workflow-again ./internal/feature/workflow TestWorkflows \
	$workflow "s/ if w.state == 'failed' and number(w, 'bad') == 0 then/ if false then/"
# A step of a halted workflow that runs by now is dropped.
try workflow-back ./internal/feature/workflow TestWorkflows \
	internal/resque/workflows/scripts/verbs/arrive.lua "s/if to == 'x' and not w.halted then back(made, w, job, args)/if to == 'x' and not w.halted then return/"
# Joins that waited for the sweep wait for ever.
try workflow-held ./internal/feature/workflow TestWorkflows \
	$workflow "/put(w, 'held', format(/d"
# A handler is called once, whatever was retried.
try workflow-armed ./internal/feature/workflow TestWorkflows \
	internal/resque/workflows/scripts/retry.lua "s/if n and f.letter(w, n) == 'o' and .* then/if false then/"
# The joins of a cancelled workflow that was paused are left.
try workflow-sweep ./internal/feature/workflow TestWorkflows \
	internal/sweep/look.go 's/(w.Halted || w.Sends() \&\& !w.Paused)/w.Sends() \&\& !w.Paused/'
groups=internal/resque/groups/scripts
# A group of jobs grows beyond its number.
try group-count ./internal/feature/aggregate TestGroups \
	$groups/verbs/gather.lua 's/if length > args\[4\] + 0 or bytes/if bytes/'
# A group grows beyond its bytes.
try group-bytes ./internal/feature/aggregate TestGroups \
	$groups/verbs/gather.lua 's/ or g.bytes + #item + 1 > room) then/) then/'
# A group that began before Redis's clock went back goes on.
try group-clock ./internal/feature/aggregate TestGroups \
	$groups/verbs/gather.lua 's/(g.last > now or /(/'
# A group that an operator took out of the index is never looked at.
try group-index ./internal/feature/aggregate TestGroups \
	internal/resque/recover.go 's/s.groups(), "NX", 0, id/s.groups(), "XX", 0, id/'
# What a commit knows of a group outlives the group's flush.
try group-known ./internal/feature/aggregate TestGroups \
	$groups/verbs/gather.lua '/known\[keys\[1\]\] = nil/d'
# An item whose group is full is refused once it is in the group, where no job can be made of that.
try group-refused ./internal/feature/aggregate TestGroups \
	$groups/verbs/gather.lua 's/pcall(flush, keys, args)/flush(keys, args)/'
# A group is flushed whenever a process looks.
try group-early ./internal/feature/aggregate TestGroups \
	$groups/flush.lua 's/^  if ARGV.* at > now and .* then$/  if false then/'
# A group that came from the future waits until its time.
try group-future ./internal/feature/aggregate TestGroups \
	$groups/flush.lua 's/ and g.began <= now then$/ then/'
# Each flush makes a job of the group once more.
try group-twice ./internal/feature/aggregate TestGroups \
	$groups/parts/group.lua "/^  call('DEL', list)$/d"
# A group becomes a job although no item has come for a while only when its whole time is over.
try group-quiet ./internal/feature/aggregate TestGroups \
	$groups/parts/group.lua 's/return g.quiet > 0 and .* or at$/return at/'
# The job of a group is gathered.
try group-whole ./internal/feature/aggregate TestGroups \
	internal/feature/aggregate/item.go 's/^func (of \*Of) whole(.*{$/&\n\tif len(j.Args) >= 0 {\n\t\treturn false\n\t}/'
# A run that has lost its job writes how far it is.
try cursor-fence ./internal/feature/cursor TestModel \
	$scripts/cursor.lua "s/^  if call('HEXISTS', KEYS\[1\], ticket) == 1 then$/  if true then/"
# A write that was overtaken takes a cursor back.
try cursor-version ./internal/resque TestCursors \
	$scripts/cursor.lua "s/ or known\[1\] ~= run or (tonumber.* < version then$/ or true then/"
# A run cannot replace what an earlier run wrote.
try cursor-run ./internal/feature/cursor TestModel \
	$scripts/cursor.lua "s/ or known\[1\] ~= run or / or /"
# A run that has lost its job reads, and does a block once more.
try cursor-recall ./internal/resque TestCursors \
	$scripts/recall.lua '/HEXISTS/d'
# A job may give any number of names to Once.
try cursor-full ./internal/resque TestCursors \
	$scripts/cursor.lua "s/call('HLEN', key) >= ARGV\[2\] + 0/false/"
# A job that is done leaves its cursor.
try cursor-done ./internal/feature/cursor TestModel \
	internal/feature/cursor/cursor.lua "s/call('DEL', keys\[1\]) //"
# What a run has not written yet is lost with its end.
try cursor-end ./internal/feature/cursor TestModel \
	internal/feature/cursor/cursor.lua '/^  for i = 2, #args, 2 do/d'
# A cursor stays for ever.
try cursor-ttl ./test/jobs TestCursorOfSnoozes \
	$scripts/cursor.lua '/PEXPIRE/d' internal/feature/cursor/cursor.lua '/PEXPIRE/d'
# A stop loses what the last second said.
try cursor-stop ./test/jobs TestCursorBeforeAnEnd \
	internal/feature/cursor/run.go 's/^\tdirect := r.writer != nil \&\& r.run.Err() != nil$/\tdirect := false/'
# Once returns before its result is written.
try once-write ./internal/feature/cursor TestModel \
	internal/feature/cursor/once.go 's/^	if err != nil || r.writer == nil {$/	if true {/'
# A block runs again in the next run.
try once-recall ./internal/feature/cursor TestModel \
	internal/feature/cursor/once.go 's/^	case value != nil:$/	case false:/; s/return value, value != nil, err/return nil, false, err/'
leases=internal/resque/leases/scripts
# A turn that Redis hears late gives jobs to a server that has asked for them again.
try lease-stale ./internal/resque/leases 'TestModel|TestServed' \
	$leases/turn.lua "s/ then return {'stale'} end/ then end/"
# An acknowledgement ends the job of another consumer.
try lease-named ./internal/resque/leases 'TestTurnAcks|TestModel' \
	$leases/turn.lua "s/lease and named ~= '' and named ~= lease and 'changed'/lease and false/"
# An acknowledged job leaves its lease.
try lease-ghost ./internal/resque/leases 'TestTurnAcks|TestModel' \
	$leases/turn.lua "/call('ZREM', LEASES, unpack(done))/d"
# A job whose end has effects ends without them.
try lease-effects ./internal/resque/leases 'TestTurnAcks|TestModel' \
	$leases/turn.lua "s/till, jobs\[4 \* i - 1\] = till .. '.5', -q/till, jobs[4 * i - 1] = till, q/"
# A job that was acknowledged after it went back runs again.
try lease-late ./internal/resque/leases 'TestLateAck|TestModel' \
	$leases/turn.lua "s/ then to = -1$/ then to = ask/"
# A late acknowledgement ends another job of the same id.
try lease-bytes ./internal/resque/leases 'TestLateAck|TestModel' \
	$leases/turn.lua 's/local same = mark and .*/local same = mark/'
# Two jobs of one id: one overwrites the other.
try lease-twins ./internal/resque/leases 'TestTurnIDs|TestModel' \
	$leases/turn.lua 's/while other or taken\[place\] do/while false do/'
# An expired job reaches a consumer.
try lease-expired ./internal/resque/leases 'TestTurnExpired|TestModel' \
	$leases/turn.lua 's/ <= now then to = 0$/ <= 0 then to = 0/'
# Redis's clock jumps ahead, and all leases end at once.
try lease-jump ./internal/resque/leases TestJump \
	$leases/expired.lua "s/now - jump)/now)/"
# A touched job forgets that its end has effects.
try lease-touch ./internal/resque/leases 'TestTouch|TestModel' \
	$leases/touch.lua "/^if string.sub(was, -2)/d"
# Jobs whose leases were removed are never given back.
try lease-adopt ./internal/resque/leases TestLostKeys \
	internal/resque/leases/sweep.go 's/err == nil \&\& missing > 0/err == nil \&\& missing < 0/'
# A job whose answer was lost stays with nobody, and uses up a try.
try lease-unseen ./internal/gateway 'TestLostAnswer|TestLostAnswerOfRedis' \
	internal/gateway/turn.go 's/heard := last == lost/heard := false/'
# A queue takes more jobs than its quota.
try lease-quota ./internal/resque/leases 'TestPublish|TestPublishRefused' \
	$leases/publish.lua 's/if most > 0 and length + n > most then/if false then/'
# A worker does not know that a job has tries.
try tries-worker ./test/jobs TestTriesInWorker \
	internal/feature/retry/retry.go 's/if tries := p.Tries(); tries > 1 {/if tries := p.Tries(); tries > 99 {/'
# A worker runs a job that a client has acknowledged after it went back.
try tries-late ./test/jobs TestLateAck \
	internal/feature/tries/tries.go 's/if !late {/if late || !late {/'
# No daemon ends leases.
try lease-daemon ./test/jobs TestDaemonEndsLeases \
	internal/leased/sweep.go 's/^\tcase leads:$/\tcase !leads \&\& leads:/; s/^\tcase due.Leases <= -overdue:$/\tcase !leads \&\& leads:/'
# No leader looks for jobs whose leases another program has removed.
try lease-look ./internal/leased TestLeaderLooks \
	internal/leased/sweep.go 's/if leads && changed && s.plan/if false \&\& s.plan/'
# Marks of jobs that went back stay for ever.
try lease-trim ./internal/leased TestTrims \
	internal/leased/sweep.go 's/s.cursor, _, err = s.store.Trim(c, s.cursor)/_ = s.cursor/'
# The lock of a job that a client has is taken for lost.
try lease-unique ./test/jobs TestLeasedUnique \
	internal/resque/unique_holder.go 's/a.Key(s.KeyOfLeased())/a.Key(s.KeyOfLeased() + "x")/'
# A step that a client has is taken for lost.
try lease-step ./internal/sweep TestFoundEverywhere \
	internal/sweep/search.go 's/s.scan("0", s.store.ScanLeased), //'
# A client with a loop searches a queue all the time.
try search-rest ./internal/gateway TestSearchesRest \
	internal/gateway/search.go 's/if s.under\[queue\] || now.Before(s.rest\[queue\]) {/if s.under[queue] {/'
# A second acknowledgement of a fresh job takes the dead letter of an earlier one of its id.
try own-id ./internal/gateway TestOwnID \
	internal/gateway/publish.go 's/g.store.Free(place), g.store.Forget(place)/g.store.Free(place)/'
# A token reaches another namespace.
try namespace ./httpapi TestV2OtherPlaces \
	httpapi/guard.go 's/return x.Namespace + "." + name/return "shop." + name/'
gateway=internal/gateway
# An acknowledgement that was done by a turn whose answer was lost is answered as unknown.
try http-lost-ack ./internal/gateway 'TestLostAnswer|TestLostAnswers' \
	$gateway/turn.go 's/call.heard = call.heard || heard/call.heard = false/'
# A client that never reads its answer gets the same job for ever.
try http-unread ./internal/gateway TestReleases \
	$gateway/reserve.go 's/if r.of\[place\] <= mostReleases {/if true {/'
# A cancelled job is given to a client.
try http-unwanted ./internal/gateway TestUnwanted \
	$gateway/deal.go '/^\t\tg.without(unwanted)$/d'
# A publish that another server is about to take is refused.
try http-elsewhere ./internal/gateway TestPublishElsewhere \
	$gateway/publisher.go 's/^\t\t\terr = elsewhere(out.Errors)$/\t\t\terr = nil/'
# A queue is searched as often as a client asks.
try http-search ./internal/gateway TestSearchesRest \
	$gateway/search.go 's/if s.under\[queue\] || now.Before(s.rest\[queue\]) {/if s.under[queue] {/'
# A job that ended here is searched for.
try http-ended ./internal/gateway TestFindAndCancel \
	$gateway/search.go 's/if g.search.has(queue, id, g.n.Clock.Now()) {/if false {/'
# A repetition with an idempotency key makes the jobs once more.
try http-once ./internal/resque/leases TestOnceMakesJobsOnce \
	internal/resque/leases/idempotency.go 's/resque.Guard("GET", key, "")/resque.Command("GET", key)/'
# A repetition is answered before the replicas have what the first one wrote.
try http-replay ./internal/resque/leases TestOnceReplicated \
	internal/resque/leases/idempotency.go 's/return ids, s.AwaitReplicas(.*/return ids, nil/'
# A repetition is refused where the jobs of the first one fill the queue.
try http-full ./httpapi TestV2ReplayInAFullQueue \
	$gateway/publish.go 's/^\tif once.Key == "" {$/\tif true {/'
# Redis's clock seems to jump when a machine has slept.
try http-slept ./internal/leased TestJumps \
	internal/leased/jump.go 's/max(now.monotonic-j.local.monotonic, now.wall-j.local.wall)/now.monotonic-j.local.monotonic/'
# A worker runs a job that its client has acknowledged late.
try http-tries-late ./test/jobs TestLateAck \
	internal/feature/tries/tries.go 's/what == leases.Late$/false/'
# The mark of a job that went back outlives the job's end in a worker.
try http-tries-mark ./test/jobs TestLateAck \
	internal/feature/tries/tries.go 's/^\tif p.known && o.State.Over() {$/\tif false {/'
# A token that was revoked stays valid.
try http-revoked ./internal/tokens TestRevoke \
	internal/tokens/ring.go '/^\t\tif _, there := texts\[digest\]; !there {$/s/!there/there \&\& !there/'
# What waits under a revoked token goes on waiting.
try http-revoked-wait ./httpapi TestRevokedToken \
	httpapi/guard.go 's/^\tctx, end := x.token.While(ctx)$/\tend := func() {}/'
# An older look at the tokens undoes a newer one.
try http-overlap ./internal/tokens TestOverlap \
	internal/tokens/ring.go 's/^\tif number < r.read {$/\tif false {/'
# A token outlives its time.
try http-expires ./internal/tokens TestRotateAndExpire \
	internal/tokens/record.go 's/^func (r \*Record) Ended(now time.Time) bool { return /&false \&\& /'
# Redis is asked for each token that is guessed.
try http-guess ./internal/tokens TestGuessing \
	internal/tokens/ring.go 's/if r.misses++; r.misses > mostMisses {/if r.misses++; false {/'
# A request that got nothing uses up its token's rate.
try http-refund ./internal/tokens TestRates \
	internal/tokens/rate.go 's/^\t\t\tr.units++$/\t\t\tr.units += 0/'
# A token reaches the queues of others in its namespace.
try http-queues ./httpapi TestV2TokensSeeTheirQueues \
	httpapi/guard.go 's/x.token != nil && !x.token.Record().Sees(queue)/false/'
# A token does what its scopes do not say.
try http-scopes ./httpapi 'TestV2TokensSeeTheirQueues|TestWhoAsks' \
	httpapi/guard.go 's/if !record.Permits(need) {/if false {/'
# The namespace without a prefix reaches the queues of all others.
try http-bare ./httpapi 'TestWhoAsks|TestPools|TestBare' \
	httpapi/guard.go 's/if x.settings.Bare && (strings.Contains/if false \&\& (strings.Contains/'
# Operators' calls are open to the network.
try http-admin ./httpapi TestAdminIsGuarded \
	httpapi/server.go 's/if s.AdminListen == "" || isHere(s.AdminListen) ||/if true ||/'
operations=internal/resque/operations/scripts
# A step that was made is made again.
try operation-late ./internal/resque/operations TestStepsAreFenced \
	$operations/parts/step.lua "/^if has\[3\] ~= ARGV\[3\] then/d"
# A runner that has lost its operation goes on.
try operation-lost ./internal/resque/operations TestStepsAreFenced \
	$operations/parts/step.lua "s/if has\[1\] ~= ARGV\[2\] or not lease or lease + 0 < now then/if not lease then/"
# An operation that an operator stopped goes on.
try operation-stopped ./internal/resque/operations TestStepsAreFenced \
	$operations/parts/step.lua "/^if has\[2\] == 'stopped' then/d"
# As many operations run as are begun.
try operation-full ./internal/resque/operations TestStepsAreFenced \
	$operations/acquire.lua "/^if #others >= /d"
# What leaves its place is not in the bin.
try operation-bin ./inspect TestOperationsTakeBack \
	$operations/parts/step.lua "s/if to == '<' then redis.call('LPUSH', bin, string.sub(text, 2));/if to == '<' then/"
# The name of a queue goes though jobs came into it.
try operation-forget ./inspect TestOperationsForgetAQueueInUse \
	$operations/parts/clearing.lua 's/ and left == 0 then/ then/'
# Steps of workflows that come while their queue is cleared stay in the bin.
try operation-sift ./inspect TestOperationsClearStepsThatCome \
	inspect/operation_bin.go 's/^\treturn r.siftSteps(ctx)$/\treturn nil/'
# An operation on given jobs that was broken off says that all is done.
try operation-given ./inspect TestOperationsOnGivenJobsOfTheKilled \
	inspect/operation_run.go 's/; did < given {/; did > given {/'
# A job that is taken back keeps the later expiry.
try operation-expiry ./inspect TestOperationsTakeExpiryBack \
	inspect/operation_undo.go 's/to.As, _ = payload.SetFields/_, _ = payload.SetFields/'
# The lock of such a job does not know it.
try operation-lock ./inspect TestOperationsTakeExpiryBack \
	internal/resque/scripts/parts/unscheduling.lua '/if lock then goesOn/d'
# An operation retries on while all fails again.
try operation-brake ./inspect TestOperationsBrake \
	inspect/operation_brake.go 's/float64(b.again) > b.Failed\*float64(b.done)/b.again < 0/'
# An undo takes back each job that is equal to one that was moved.
try operation-gone ./inspect TestOperationsTakeEqualJobsBack \
	inspect/operation_undo.go 's/away\[at\] = all\[:len(all)-1\]$/away[at] = all/'
# The audit grows for ever.
try audit-bound ./inspect TestAudit \
	$scripts/audit.lua "/redis.call('LTRIM', KEYS\[1\], 0, ARGV\[2\] - 1)/d"
# A change is made although it cannot be noted.
try audit-first ./inspect 'TestAudit|TestOperationsACL' \
	$scripts/audit.lua "s/redis.call('LTRIM'/redis.pcall('LTRIM'/"
# Two keepers fold the same packs.
try history-fold ./internal/record TestNothingIsLostOrCountedTwice \
	internal/resque/history/scripts/fold.lua "/then return 'changed' end/d"
# Packs are folded again.
try history-tally ./internal/record TestNothingIsLostOrCountedTwice \
	internal/resque/history/scripts/fold.lua "/redis.call('LTRIM', KEYS\[1\], ARGV\[3\], -1)/d"
# A process keeps though one before it may.
try duty-unread ./internal/duty TestKeeper \
	internal/duty/duty.go 's/ \&\& len(k.unread) == 0)$/)/'
# A process of an older release keeps the others from it.
try duty-older ./internal/duty TestKeeper \
	internal/duty/duty.go 's/duties >= k.least/duties >= 0/'
# What a process had for duties counts for another one that comes under its id.
try duty-dead ./internal/duty TestKeeper \
	internal/duty/duty.go '/delete(k.duties, id)/d'
# A command needs a signature, and any will do.
try control-signature ./control TestFull \
	internal/control/obey.go 's/^\tcase !k.verified(e):$/\tcase false \&\& !k.verified(e):/'
# A signature holds in each namespace of a Redis.
try control-namespace ./control TestFull \
	internal/resque/control/command.go '/h.Write(\[\]byte(s.Namespace()/d'
# A command that is copied is obeyed again.
try control-replay ./control TestFull \
	internal/control/obey.go 's/if !first \&\& !full {/if !first \&\& full {/'
# A process obeys what was announced before it was there.
try control-stale ./control TestFull \
	internal/control/obey.go 's/return since.IsZero() || c.At < since.UnixMilli()/return since.IsZero()/'
# A process obeys what is over.
try control-over ./control TestFull \
	internal/control/obey.go 's/ || until <= now || / || /'
# A signed command is valid for as long as its signer likes.
try control-long ./control TestFull \
	internal/control/obey.go 's/c.Lives() > control.FullLives || //'
# A process obeys what is meant for others.
try control-address ./control TestPing \
	internal/resque/control/command.go 's/if address == name {/if name != "" {/'
# The level on does what needs the level full.
try control-level ./control TestOwnVerbs \
	internal/control/obey.go 's/case v.Level == Full \&\& c.full != nil:/case v.Level > Full \&\& c.full != nil:/'
# The pause of a queue lasts until the keeper ends it.
try rule-pause-end ./internal/lanes TestPauseEndsAtItsTime \
	internal/lanes/lanes.go 's/return paused \&\& !l.classes.PauseOver(name)/return paused/'
# The keeper leaves rules that have ended.
try rule-keeper ./control TestTimedPause \
	internal/rule/keeper.go 's/^\t\tcase v.Ended(now):$/\t\tcase v.Ended(now) \&\& name == "":/'
# What a process of an older release writes over a rule stays.
try rule-restored ./control TestLimitSurvivesStarts \
	internal/rule/keeper.go 's/case kind == control.LimitRule \&\& numbers\[about\] != v.Value, /case /'
# The jobs of a paused class run.
try rule-class ./control TestPausedClass \
	internal/feature/limits/ruled.go '/^\t\tcase kind == control.ClassRule:$/,/^\t\t\truled\[about\]/s/ruled\[about\], ruledLimit/ruled[about][:0], ruledLimit/;s/case kind == control.ClassRule:/case kind == "":/'
# Worker ids are registered before the record of the process covers them.
try fleet-cover ./internal/fleet TestWorkersAreCovered \
	internal/fleet/registrar.go 's/func(c redis.Conn) error { return r.base.Store.Cover(c, record, claim) }/func(redis.Conn) error { _ = claim; return nil }/'
# A part is started again once more than it may be.
try part-most ./internal/part TestRestarts \
	internal/part/restart.go 's/if len(r.past) >= r.Most {/if len(r.past) > r.Most {/'
# The wait before a part is started again does not grow.
try part-wait ./internal/part TestRestarts \
	internal/part/restart.go 's/if wait = 2 \* wait; wait >= r.Max/if wait = 1 * wait; wait >= r.Max/'
# Restarts of long ago count.
try part-within ./internal/part TestRestartsFarApart \
	internal/part/restart.go 's/now.Sub(r.past\[0\]) >= r.Within/now.Sub(r.past[0]) < 0/'
# A part fails for good, and the run goes on.
try part-ends ./test/daemon TestPartIsRestartedAndEndsTheDaemon \
	internal/part/crew.go 's/^\t\tc.abort(f)$/\t\t_ = f/'
# More workers are kept that do nothing.
try autoscale-gain ./internal/autoscale 'TestDegradingDatabase|TestSaturated' \
	internal/autoscale/rule.go 's/^\tkeeps    = 0.25/\tkeeps    = -9/'
# Trials that were of no use are made again and again.
try autoscale-rest ./internal/autoscale TestSaturated \
	internal/autoscale/rule.go 's/^\t\ts.refused++$/\t\ts.rest = o.At/'
# Trials that were compared with a few jobs count as others do.
try autoscale-hasty ./internal/autoscale 'TestFewJobsBefore|TestJobsInOrder' \
	internal/autoscale/rule.go 's/s.hasty = ran(t.usual) < enough/s.hasty = false/'
# Jobs that became longer ones of another class count against the number.
try autoscale-classes ./internal/autoscale TestJobsThatChange \
	internal/autoscale/rule.go 's/^\tfor class, w := range now {$/&\n\t\tif _, known := before[class]; !known {\n\t\t\texpected, took = expected+float64(mean(before))*float64(w.Runs), took+float64(w.Time)\n\t\t}/'
# Workers that became of no use are kept.
try autoscale-ease ./internal/autoscale TestDatabaseThatBecomesSlow \
	internal/autoscale/rule.go 's/case !b.Fast \&\& n > b.Min/case b.Fast \&\& n > b.Min/'
# A moment without work is enough for fewer.
try autoscale-calm ./internal/autoscale TestSawtooth \
	internal/autoscale/rule.go 's/^\tcalmFor   = 6 /\tcalmFor   = 0 /; s/^\tforgets  = 0.98/\tforgets  = 0/'
# Workers are added although the memory is used up.
try autoscale-memory ./internal/autoscale 'TestNoGrowth|TestBounds' \
	internal/autoscale/rule.go 's/case o.Memory >= mostMemory:/case o.Memory > 2:/'
# The number changes while the last change waits for Redis.
try autoscale-present ./internal/autoscale TestChangeUnderWay \
	internal/autoscale/scaler.go 's/if s.config.Present() != n {/if s.config.Present() > n {/'
# Renewals of an idle process read how long jobs wait.
try autoscale-reads ./internal/autoscale TestWaiting \
	internal/autoscale/scaler.go 's/if !asks || len(queues) == 0 {/if !asks \&\& len(queues) == 0 {/'
# Each look has the lease renewed.
try autoscale-idle ./test/daemon TestAutoscaleIdle \
	internal/autoscale/scaler.go 's/^\ts.config.Ask(func() {$/\tif w, ok := s.config.Lease.(interface{ Wake() }); ok {\n\t\tw.Wake()\n\t}\n&/'
# An operator's time for other bounds has no end.
try autoscale-lapse ./internal/autoscale TestBoundsOfOperators \
	internal/autoscale/scaler.go 's/if now, _ := s.Now(); now == made {/if now, _ := s.Now(); now != made {/'
# Numbers beyond the settings need no signature.
try autoscale-level ./test/daemon TestAutoscale \
	internal/autoscale/verb.go 's/case b.Max > usual \&\& c.Full() != nil:/case b.Max > most \&\& c.Full() != nil:/'
finish
