# Everything starts from nothing but Go, on Debian and its like as root or with
# sudo: what a target needs, it installs.

URI ?= embedded:
FUZZTIME ?= 30s
STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

REDIS_SERVER ?= redis-server
SUDO = $(if $(filter-out 0,$(shell id -u)),sudo)
NODE_MODULES = test/interop/node_modules/.package-lock.json
BENCH_MODULES = bench/node/node_modules/.package-lock.json

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test deps check check-bench lint fuzz bench bench-core

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## see a worker at work, without Redis; URI=redis://… shows it on yours
	@go run ./example/demo -uri='$(URI)'

# Go's cache of results does not notice when a program that a test builds changes.
test: deps check check-bench ## run all tests, on real Redis servers and against node-resque
	go test -race -count=1 ./...

deps: $(NODE_MODULES) ## install what the tests need: redis-server, a C compiler, node-resque
	@$(call install,command -v $(REDIS_SERVER),redis-server)
	@$(call install,command -v cc,gcc libc6-dev)

check: ## look for mistakes, quickly: gofmt and go vet
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted; run gofmt -w on:" $$unformatted; exit 1; fi
	go vet ./...

# The benchmark is a module of its own, which brings what it compares us with.
check-bench: deps
	cd bench && go vet ./... && go build ./... && go test -short ./...

lint: check ## look for mistakes, thoroughly: staticcheck and untidy modules besides
	$(STATICCHECK) ./...
	cd bench && $(STATICCHECK) ./...
	go mod tidy -diff

fuzz: ## feed each parser with random bytes for FUZZTIME (30s)
	@grep -roE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz\w+' . | sed -E 's|/[^/]*:func | |' | sort | \
	while read -r package target; do \
		echo "$$target in $$package"; \
		go test -run='^$$' -fuzz="^$$target$$" -fuzztime=$(FUZZTIME) "$$package" </dev/null || exit 1; \
	done

bench: deps $(BENCH_MODULES) ## compare with all peers, in 25 minutes; writes bench/results/all.json, docs/benchmarks*
	cd bench && go run ./runner

bench-core: deps ## compare with benmanns/goworker; writes bench/results/core.json
	cd bench && go run ./runner -core

%/node_modules/.package-lock.json: %/package-lock.json
	@$(call install,command -v npm,nodejs npm)
	cd $* && npm ci --no-audit --no-fund
	@touch $@

# install: unless a command succeeds, install packages. A redis-server that the
# system then starts is none of the tests' business: they start their own.
install = $(1) >/dev/null || { $(SUDO) apt-get update && \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(2); }
