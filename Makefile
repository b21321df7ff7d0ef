# Everything starts from nothing but Go, on Debian and its like as root or with
# sudo: what a target needs, it installs.

URI ?= embedded:
FUZZTIME ?= 30s
STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = go run golang.org/x/vuln/cmd/govulncheck@v1.1.4

REDIS_SERVER ?= redis-server
SUDO = $(if $(filter-out 0,$(shell id -u)),sudo)
PROMTOOL = $(CURDIR)/metrics/promtool/.debian/promtool
NODE_MODULES = test/interop/node_modules/.package-lock.json
BENCH_MODULES = bench/node/node_modules/.package-lock.json

# The Go that builds a release. Another one writes other bytes.
RELEASE_GO = go1.26.8

# The command, the builder of releases, the benchmarks, chaos and the checks of deploy are modules of their own, so that what they need is no
# dependency of the module.
MODULES = . cmd/goworker metrics tracing test/openapi test/chaos bench $(HUGE)

# These take long to compile. The runner's tests type-check the first, and make test-operate the others.
HUGE = bench/contender/machinery test/deploy release test/operate/rolling

# The packages that have benchmarks.
BENCHMARKS = $(shell grep -rl --include='*_test.go' --exclude-dir=bench --exclude-dir=chaos --exclude-dir=metrics --exclude-dir=tracing --exclude-dir=release --exclude-dir=node_modules '^func Benchmark' . | xargs -n1 dirname | sort -u)

# The examples, and the packages whose tests mostly run the compiler.
COMPILING = ./example/... ./test/docs ./test/examples ./test/programs/... ./test/readme ./test/repository

# The package whose tests run and kill programs. The race detector doubles what these compute.
CRASHING = ./test/crash

# The packages whose tests mostly render pages and files, which the race detector makes five times as slow. What is shared between readers of
# the dashboard is in packages of its own, which it watches.
RENDERING = ./dashboard ./dashboard/internal/pages/... ./deploy/generate

# The packages in which it can find little.
SEQUENTIAL = $(shell test/sequential.sh)

# What make test-operate runs: an operator's tools on large and broken fleets, in terminals, and beside an older release. Most of its tests wait,
# so six of a package run at a time. What mostly compiles, releases and images, runs meanwhile and gives way to them.
OPERATE = ./test/operate/...

# What make test-browser runs: people's ways through the dashboard, in a browser. Each has a fleet of its own.
BROWSER = ./test/browser/...

PLAIN = $(COMPILING) $(CRASHING) $(RENDERING) $(SEQUENTIAL)

# The packages whose tests with the race detector take longest.
LONGEST = ./test/topology . ./test/daemon ./test/recurring ./test/isolated ./test/jobs ./test/client ./httpapi ./internal/await

# Most of the time of make test is the compiler's, which is faster with more memory. What is tested gets Go's default.
# What go test vets, make check has vetted. A program with the race detector sleeps for a second as it exits, unless GORACE
# says otherwise.
COMPILE = GOGC=off GOMEMLIMIT=768MiB
GOTEST = $(COMPILE) GORACE=atexit_sleep_ms=0 go test -exec='env -u GOGC -u GOMEMLIMIT' -vet=off -count=1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo dev pictures test test-acl chaos chaos-mutations lmstfy mutations deps check check-bench benchmarks test-plain test-race test-operate test-browser browser promtool test-long release release-prepare release-verify lint vuln fuzz bench bench-huge bench-scale bench-core bench-check bench-record

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## see a worker at work, without Redis; URI=redis://… shows it on yours
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && go -C cmd/goworker build -o "$$tools/goworker" . && go run ./example/demo -uri='$(URI)' -command="$$tools/goworker"

dev: ## play with a worker, sample load and a live status, on a Redis of its own
	@go -C cmd/goworker run . dev --redis-server='$(REDIS_SERVER)'

# Go's cache of results does not notice when a program that a test builds changes, hence -count=1.
# Chaos and the killing of programs wait more than they compute. All else runs meanwhile and gives way to them. With -k
# one red test in test-plain does not hide those of test-race.
test: deps check ## run all tests, on real Redis servers and against node-resque
	{ (cd test/chaos && $(GOTEST) -timeout=30m .) && $(GOTEST) $(CRASHING); } & killing=$$!; \
		nice $(MAKE) --no-print-directory -k test-plain test-race; others=$$?; \
		wait $$killing && exit $$others

# With benchmarks, go test runs one package after the other: those of SEQUENTIAL are quick.
test-plain: # what make test tests beside chaos, without the race detector
	$(GOTEST) -p=3 $(RENDERING) $(COMPILING)
	$(GOTEST) -bench=. -benchtime=1x $(SEQUENTIAL)
	cd cmd/goworker && $(GOTEST) ./...
	cd metrics && $(GOTEST) $$(go list ./... | grep -v /promtool)
	cd test/openapi && $(GOTEST) ./...
	$(MAKE) --no-print-directory check-bench

# Most of these tests wait, so four packages run at a time, and those that take longest begin.
test-race: # what make test tests with the race detector
	cd tracing && $(GOTEST) -race ./...
	$(GOTEST) -race -p=4 $(LONGEST) $$(go list ./... | grep -vxF "$$(go list $(PLAIN) $(OPERATE) $(BROWSER))")

test-operate: deps ## run the tests of the operator's tools: thousands of workers, a million jobs, planted faults, terminals, the files of deploy
	@$(call install,command -v tmux,tmux)
	@$(call install,command -v systemd-analyze,systemd)
	@older=$$(cat test/operate/mixed/RELEASE); git cat-file -e $$older^{commit} 2>/dev/null || git fetch -q --depth=1 origin $$older 2>/dev/null || \
		echo "make: NOT TESTED: test/operate/mixed runs the release $$older beside this one, but this clone has no such commit and cannot fetch it; git fetch --unshallow gets it" >&2
	$(MAKE) --no-print-directory promtool
	@export PROMTOOL="$$(command -v promtool || echo '$(PROMTOOL)')"; \
	{ (cd release && nice env $(GOTEST) -short ./...) && (cd test/deploy && nice env $(GOTEST) .); } & building=$$!; \
		{ $(GOTEST) -p=3 -parallel=6 $(OPERATE) && (cd metrics && $(GOTEST) ./promtool) && (cd test/operate/rolling && $(GOTEST) ./...); }; others=$$?; \
		wait $$building && exit $$others

test-browser: browser ## walk through the dashboard with Chromium, and look at every page for barriers
	$(GOTEST) -parallel=3 $(BROWSER)

pictures: browser ## make the pictures of docs/pictures anew
	@$(call install,command -v cwebp && command -v convert,webp imagemagick)
	PICTURES='$(CURDIR)/docs/pictures' $(GOTEST) -run=TestPictures ./test/browser
	cd docs/pictures && for p in *.png; do \
		convert "$$p" -dither None -colors 256 "png8:$$p" && cwebp -quiet -lossless -m 6 "$$p" -o "$${p%.png}.webp" && rm "$$p" || exit 1; done

browser: deps test/browser/node_modules/.package-lock.json # what drives a browser
	@$(call install,command -v chromium,chromium fonts-dejavu-core)

test-long: deps ## run what make test leaves out: the race detector everywhere, a million jobs in a process, a foreign release, the other benchmarks
	$(GOTEST) -race -p=4 $(PLAIN)
	$(GOTEST) -run=TestMemoryIsFlat ./test/crash -crash.jobs=1000000
	cd release && $(GOTEST) ./...
	$(MAKE) --no-print-directory benchmarks

# Each runs once, so that none rots. Benchmarks heed no -timeout.
benchmarks: ## run each benchmark once, in some packages
	timeout 600 env $(GOTEST) -run='^$$' -bench=. -benchtime=1x $(BENCHMARKS)

test-acl: deps ## run them as a Redis user with the permissions of docs/redis.md and no others
	REDISTEST_ACL=1 go test -race -count=1 . ./control ./health ./internal/... ./test/daemon ./test/jobs

chaos: deps ## attack processes and servers, count every job; DURATION=1h, KILLS=1000 JOBS=1000000, CHAOS='-faults=F4'
	cd test/chaos && go run . $(if $(KILLS)$(JOBS),-faults=kill -workers=10) $(KILLS:%=-kills=%) $(JOBS:%=-jobs=%) \
		$(DURATION:%=-duration=%) $(CHAOS)

chaos-mutations: deps ## take protections out of a copy, one at a time, and expect chaos to find each; 7 minutes
	test/chaos/mutations.sh $(MUTATIONS)

lmstfy: deps ## hold the HTTP API to lmstfy itself: its answers and its client's tests; needs the network, 2 minutes
	test/lmstfy.sh

mutations: deps ## break things on purpose in a copy, one at a time, and expect a test to fall for each; 40 minutes
	test/mutations.sh $(MUTATIONS)

deps: $(NODE_MODULES) ## install what the tests need: redis-server, nginx, a C compiler, node-resque; curl, Ruby, PHP, Python for the docs
	@$(call install,command -v $(REDIS_SERVER),redis-server)
	@$(call install,PATH="$$PATH:/usr/sbin" command -v nginx,nginx-light)
	@$(call install,command -v cc,gcc libc6-dev)
	@$(call install,command -v curl,curl ca-certificates)
	@$(call install,{ ruby -e 'require "redis-namespace"' && php -r 'exit((int) !extension_loaded("redis"));' && /usr/bin/python3 -c 'import redis; import msgpack' && ruby -e 'require "msgpack"' && php -r 'exit((int) !extension_loaded("msgpack"));'; } 2>/dev/null,ruby ruby-redis-namespace ruby-msgpack php-cli php-redis php-msgpack python3-redis python3-msgpack)

check: ## look for mistakes, quickly: gofmt and go vet
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted; run gofmt -w on:" $$unformatted; exit 1; fi
	@$(call each,$(COMPILE) go vet ./...,$(filter-out $(HUGE),$(MODULES)))

check-bench: deps ## run the tests of the benchmarks
	cd bench && $(GOTEST) -short ./...

lint: check ## look for mistakes, thoroughly: staticcheck and untidy modules besides
	@$(call each,go vet ./...,$(HUGE))
	@$(call each,$(STATICCHECK) -checks=inherit$(comma)-SA1019 ./...)
	@$(STATICCHECK) -tests=false -checks=SA1019 $$(go list ./... | grep -v /test/)
	@$(call each,go mod tidy -diff)

vuln: ## ask the Go vulnerability database about all that is linked; needs the network
	@$(call each,$(GOVULNCHECK) -test ./...)

fuzz: ## feed each parser with random bytes for FUZZTIME (30s)
	@grep -roE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz\w+' . | sed -E 's|/[^/]*:func | |' | sort | \
	while read -r package target; do \
		echo "$$target in $$package"; \
		go test -run='^$$' -fuzz="^$$target$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=1s "$$package" </dev/null || exit 1; \
	done

bench: deps $(BENCH_MODULES) ## compare with all peers, in 50 minutes; writes bench/results/all.json, docs/benchmarks*
	cd bench && go run ./runner

bench-huge: deps ## weigh and move among ten million delayed jobs, which need 2 GiB; adds their rows
	cd bench && go run ./runner -only=ten-million -contenders=ours

bench-scale: deps ## measure what grows with the number of processes, up to 1,000, in eight minutes; fills docs/scale.md
	cd bench && go run ./runner -only=scale -contenders=ours

bench-core: deps ## compare with benmanns/goworker; writes bench/results/core.json
	cd bench && go run ./runner -core

bench-check: ## count the instructions of the hot path: fails where one is 3 % above the recorded count
	@$(call install,command -v valgrind,valgrind)
	cd bench && go run ./counts

bench-record: ## record them; writes bench/counts/counts.json
	@$(call install,command -v valgrind,valgrind)
	cd bench && go run ./counts -record

# docs/internals/releasing.md is the checklist that these are steps of.
release: ## build the archives of VERSION (v1.2.3) for all platforms into dist, with SBOMs and SHA256SUMS
	cd release && go run . check -version='$(VERSION)' && GOTOOLCHAIN=$(RELEASE_GO) go run . build -version='$(VERSION)'

release-prepare: ## write VERSION into CHANGELOG.md and the go.mod files
	cd release && go run . prepare -version='$(VERSION)'

release-verify: ## build the archives of VERSION again, from an empty build cache, and compare them with those in dist
	cd release && GOTOOLCHAIN=$(RELEASE_GO) go run . verify -version='$(VERSION)'

# Debian's package would start a server, so it is unpacked and not installed.
promtool: ## get promtool, which checks the rules and metrics for Prometheus
	@command -v promtool >/dev/null || [ -x $(PROMTOOL) ] || $(MAKE) --no-print-directory $(PROMTOOL)

$(PROMTOOL):
	@mkdir -p $(@D) && cd $(@D) && { apt-get download -qq prometheus || { $(SUDO) apt-get update -qq && apt-get download -qq prometheus; }; } && \
		dpkg -x prometheus_*.deb . && mv usr/bin/promtool . && rm -r etc usr var lib prometheus_*.deb 2>/dev/null; [ -x promtool ]

%/node_modules/.package-lock.json: %/package-lock.json
	@$(call install,command -v npm,nodejs npm)
	cd $* && npm ci --no-audit --no-fund
	@touch $@

# Tests, chaos and benchmarks hold the old names too, so that they go on to work; all else uses the new ones.
comma = ,

# each: a command in each module, or in those given; all of them, though one fails.
each = failed=; for module in $(or $(2),$(MODULES)); do echo "$$module: $(1)"; (cd $$module && $(1)) || failed=1; done; [ -z "$$failed" ]

# install: unless a command succeeds, install packages. A redis-server that the
# system then starts is none of the tests' business: they start their own.
install = $(1) >/dev/null || { $(SUDO) apt-get update && \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(2); }
