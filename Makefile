# Builds, tests and installs this project. `make` without a target lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# The image that operators are made from, and the one with this repository's charts in it, which deploy runs.
BASE_IMG ?= chartwright:$(VERSION)
IMG ?= chartwright-charts:$(VERSION)
CONTAINER_TOOL ?= docker
PLATFORMS ?= linux/amd64,linux/arm64
# Bytes that BASE_IMG may take.
MAX_IMAGE := 22000000
# Where install-cli installs.
PREFIX ?= /usr/local
KUBECTL ?= kubectl
CARGO ?= cargo
# Arguments of the operator: make run ARGS="--leader-elect=false"
ARGS ?=
# off: make test leaves cargo-deny out.
DENY ?= on
# off: the tests leave out what needs prometheus and promtool.
PROMETHEUS ?= on
export PROMETHEUS
# off: the tests leave out what needs a browser. A path: the browser to use.
CHROMIUM ?= on
export CHROMIUM
# More than cores: most of the slow tests wait for an API server.
TEST_THREADS ?= $(shell echo $$(( 2 * $$(nproc) )))

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/chartwright
CARGO_DENY_VERSION := 0.20.2
# Use the installed tool if there is one, else the copy that we build.
CARGO_DENY := $(or $(shell command -v cargo-deny),$(CACHE)/tools/bin/cargo-deny)
MDBOOK_VERSION := 0.5.4
MDBOOK := $(or $(shell command -v mdbook),$(CACHE)/tools/bin/mdbook)
CARGO_FUZZ_VERSION := 0.13.2
CARGO_FUZZ := $(or $(shell command -v cargo-fuzz),$(CACHE)/tools/bin/cargo-fuzz)
CONTROL_PLANE := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok
# Every cargo call has the same flags, so that cargo builds the dependencies only once.
LOCKED := --locked

# A comma inside an argument of a make function.
, := ,

say = @printf '\033[1m==> %s\033[0m\n' "$(1)"

##@ Working on it

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: check-tools ## Build the debug binary, target/debug/chartwright (2 minutes the first time).
	$(CARGO) build $(LOCKED)

.PHONY: release
release: check-tools ## Build the release binary, target/release/chartwright (5 minutes the first time).
	$(CARGO) build $(LOCKED) --release

.PHONY: demo
demo: check-tools control-plane ## Show it on a local control plane until Ctrl-C; DEMO=once cleans up and ends.
	$(call say,building the operator (2 minutes the first time$(,) else seconds))
	$(CARGO) build $(LOCKED) --bin chartwright --example demo
	$(call say,starting the demo (a few seconds))
	DEMO="$(DEMO)" $(CARGO) run $(LOCKED) --quiet --example demo

.PHONY: cluster
cluster: check-tools control-plane ## Run a local Kubernetes control plane until Ctrl-C, to try operators on.
	$(call say,building what starts it (2 minutes the first time$(,) else seconds))
	$(CARGO) build $(LOCKED) --example demo
	DEMO=cluster $(CARGO) run $(LOCKED) --quiet --example demo

.PHONY: run
run: check-tools ## Run the operator against the cluster of KUBECONFIG, with watches.yaml of this folder.
	$(CARGO) run $(LOCKED) -- run --watches-file=./watches.yaml $(ARGS)

.PHONY: fmt
fmt: ## Format the code.
	$(CARGO) fmt --all

.PHONY: lint
lint: check-tools ## Check formatting and clippy's advice; a warning is an error.
	$(call say,formatting (seconds))
	$(CARGO) fmt --all --check
	$(call say,clippy (2 minutes the first time$(,) else seconds))
	$(CARGO) clippy $(LOCKED) --all-targets -- -D warnings

.PHONY: test
test: check-tools check-prometheus check-chromium ## Run all checks of CI: lint, control plane, all tests, cargo deny.
	@$(MAKE) -j 3 control-plane registry gitops tests-built $(if $(filter off,$(DENY)),,$(CARGO_DENY))
	$(call say,tests: unit$(,) integration on a real API server$(,) torture (8 minutes on 2 cores))
	KUBECTL=$$(command -v kubectl || echo "$$(tests/control-plane/build --print-dir kubectl)/kubectl") \
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test $(LOCKED)
	@if [ "$(DENY)" = off ]; then echo "cargo deny: left out (DENY=off)"; else $(MAKE) deny; fi

.PHONY: bench
bench: check-tools ## Run the benchmarks.
	$(CARGO) bench $(LOCKED) --bench render

# One chart: make bench-render CHART=dir [VALUES=file] [JSON=1] [RUNS=21]
.PHONY: bench-render
bench-render: check-tools ## Measure loading, parsing and rendering beside Helm's own engine; CHART=dir VALUES=file JSON=1.
	@printf '==> the oracle (2 minutes the first time), then a build with the release settings (5 minutes the first time)\n' >&2
	@export ORACLE HELM CHART="$(CHART)" VALUES="$(VALUES)" JSON="$(JSON)" RUNS="$(RUNS)"; \
	ORACLE=$$(tests/oracle/build); \
	HELM=$$(tests/control-plane/build --print-dir helm)/helm; \
	if ! [ -x "$$HELM" ]; then \
	  HELM=; echo "no helm binary (tests/control-plane/build helm makes one): processes are not compared" >&2; \
	fi; \
	$(CARGO) bench $(LOCKED) --bench render

# Beside the control plane's build, which leaves a core idle while it links.
.PHONY: tests-built
tests-built: lint
	$(call say,building the tests (5 minutes the first time$(,) else one))
	$(CARGO) test $(LOCKED) --no-run

# More custom resources, or another operator beside ours: make bench-operator N=10000 PEER="command line"
.PHONY: bench-operator
bench-operator: check-tools ## Measure what the operator costs beside a bare client; N=1000 IDLE=60 JSON=1 PEER=command.
	@$(MAKE) control-plane >&2
	@printf '==> a build with the release settings (5 minutes the first time), then 3 minutes of measuring\n' >&2
	@N="$(N)" IDLE="$(IDLE)" JSON="$(JSON)" PEER="$(PEER)" LOGS="$(LOGS)" $(CARGO) bench $(LOCKED) --bench operator

# One folder or file: make goldens FIXTURES=tests/fixtures/sprig
FIXTURES ?= tests/fixtures
.PHONY: goldens
goldens: ## Regenerate the results of the fixtures with the real Helm (the first run builds the oracle: 2 minutes).
	@oracle=$$(tests/oracle/build) && "$$oracle" goldens -version tests/fixtures/HELM_VERSION $(FIXTURES)

.PHONY: check-goldens
check-goldens: ## Fail if make goldens would change a file (half a minute; the oracle is built the first time).
	@oracle=$$(tests/oracle/build) && "$$oracle" goldens -check -version tests/fixtures/HELM_VERSION $(FIXTURES)

# The program checks these variables and reports a missing or wrong one.
CONFORMANCE := CHARTS ONLY FLIP SAMPLE ARGS
.PHONY: conformance
conformance: check-tools ## Compare with the real Helm on all charts below CHARTS; without CHARTS: what can be asked.
	@echo "building the oracle (2 minutes the first time) and our side, optimised (3 minutes the first time)" >&2
	@$(CARGO) build $(LOCKED) --quiet --profile conformance --example conformance
	@oracle=$$(tests/oracle/build) && \
	  $(foreach name,$(CONFORMANCE),$(name)="$($(name))") ORACLE="$$oracle" \
	  $(CARGO) run $(LOCKED) --quiet --profile conformance --example conformance

# The program checks these variables, too.
OPERATOR_CONFORMANCE := CHARTS ONLY SAMPLE JOBS TIMEOUT
.PHONY: conformance-operator
conformance-operator: check-tools ## Run the operator with all charts below CHARTS, on local control planes (10 s a chart).
	@$(MAKE) control-plane >&2
	@echo "building the operator and the program that tries it, optimised (3 minutes the first time)" >&2
	@$(CARGO) build $(LOCKED) --quiet --profile conformance --bin chartwright --example conformance-operator
	@$(foreach name,$(OPERATOR_CONFORMANCE),$(name)="$($(name))") \
	  $(CARGO) run $(LOCKED) --quiet --profile conformance --example conformance-operator

# How long each target of make fuzz runs.
SECONDS ?= 60

# One target: make fuzz TARGET=yaml_read. fuzz/README.md says what to do about a finding.
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*/*.rs)))
NIGHTLY ?= nightly
FUZZ_LOGS := $(CURDIR)/target/fuzz
# Seconds on a clock for one input, so longer than a render may take of the processor.
FUZZ_LIMITS := -max_len=4096 -timeout=30 -rss_limit_mb=2048
.PHONY: fuzz
fuzz: check-fuzz-tools $(CARGO_FUZZ) fuzz/Cargo.lock ## Search each of fuzz/'s targets for panics and hangs for SECONDS (60), or one TARGET.
	$(call say,the seeds$(,) from tests/fixtures (2 minutes the first time$(,) else seconds))
	$(CARGO) run $(LOCKED) --quiet --example fuzz-seeds
	$(call say,the targets (12 minutes the first time$(,) 4 after a change))
	RUSTUP_TOOLCHAIN=$(NIGHTLY) $(CARGO_FUZZ) build --sanitizer none $(TARGET)
	$(call say,$(or $(TARGET),$(words $(FUZZ_TARGETS)) targets)$(,) $(SECONDS) seconds each; libFuzzer's logs are in target/fuzz)
	@mkdir -p $(FUZZ_LOGS); failed=; \
	for target in $(or $(TARGET),$(FUZZ_TARGETS)); do \
	  log=$(FUZZ_LOGS)/$$target.log; seeds=$(CURDIR)/fuzz/seeds; corpus=$(CURDIR)/fuzz/corpus/$$target; mkdir -p "$$corpus"; \
	  if RUSTUP_TOOLCHAIN=$(NIGHTLY) $(CARGO_FUZZ) run --sanitizer none $$target "$$corpus" "$$seeds/$$target" -- \
	    -dict="$$seeds/dictionary" -max_total_time=$(SECONDS) $(FUZZ_LIMITS) >"$$log" 2>&1; then \
	    printf '%-12s %s\n' $$target "$$(grep -a DONE "$$log")"; \
	  else \
	    echo "$$target failed: $$log"; failed="$$failed $$target"; \
	    grep -aE -A 1 'panicked at|ERROR|^[eE]rror|^.cargo fuzz' "$$log" || true; \
	  fi; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

.PHONY: check-fuzz-tools
check-fuzz-tools: check-tools
	@$(CARGO) +$(NIGHTLY) --version >/dev/null 2>&1 || { \
	  echo "missing: a nightly toolchain (rustup toolchain install nightly --profile minimal)" >&2; exit 1; }
	@command -v c++ >/dev/null || { \
	  echo "missing: c++ (a C++ compiler, for libFuzzer: your system's package build-essential, g++ or clang)" >&2; exit 1; }

# The versions of the main build; cargo adds those that only fuzz/ has.
fuzz/Cargo.lock: Cargo.lock
	cp Cargo.lock $@

$(CARGO_FUZZ):
	$(call say,installing cargo-fuzz $(CARGO_FUZZ_VERSION) into $(CACHE)/tools (about 2 minutes$(,) once))
	$(CARGO) install cargo-fuzz --version $(CARGO_FUZZ_VERSION) --locked --quiet --root $(CACHE)/tools

# The scenarios in the order that SEED makes, which a failure prints; one part: make torture ONLY=kill
TORTURE_TABLE := $(CURDIR)/target/torture.tsv
.PHONY: torture
torture: check-tools ## Kill the operator between any two writes and let any request fail (25 minutes); SEED=1 ONLY=kill.
	@$(MAKE) control-plane
	$(call say,SIGKILL between any two writes$(,) a fault at any request$(,) random histories on a model (25 minutes))
	@mkdir -p target; rm -f $(TORTURE_TABLE); seed=$(if $(filter command line,$(origin SEED)),$(SEED),1); \
	echo "seed $$seed: the same cases again with make torture SEED=$$seed"; \
	outcome=0; \
	TORTURE=all TORTURE_TABLE=$(TORTURE_TABLE) SEED=$$seed \
	  $(CARGO) test $(LOCKED) --test torture -- --nocapture --test-threads=4 $(ONLY) || outcome=$$?; \
	$(if $(ONLY),,$(CARGO) test $(LOCKED) --test integration -- --ignored --skip public_charts || outcome=$$?;) \
	echo; column -t -s "$$(printf '\t')" $(TORTURE_TABLE) || cat $(TORTURE_TABLE); exit $$outcome

.PHONY: deny
deny: $(CARGO_DENY) ## Check the dependencies' licenses, sources, bans and advisories.
	$(call say,cargo deny: licenses$(,) bans and sources (seconds))
	$(CARGO_DENY) --locked check --hide-inclusion-graph bans licenses sources
	$(call say,cargo deny: advisories (seconds; needs the advisory database from the network))
	@if $(CARGO_DENY) --locked fetch db >/dev/null 2>&1; then \
	  $(CARGO_DENY) --locked check advisories; \
	else \
	  echo "advisories: not checked, the advisory database can't be fetched from here"; \
	fi

$(CARGO_DENY):
	$(call say,installing cargo-deny $(CARGO_DENY_VERSION) into $(CACHE)/tools (about a minute$(,) once))
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	  $(CARGO) install cargo-deny --version $(CARGO_DENY_VERSION) --locked --quiet --root $(CACHE)/tools

.PHONY: docs
docs: $(MDBOOK) ## Build the documentation's site with mdBook, target/book/index.html (a second; 2 minutes the first time).
	$(call say,mdBook: docs into target/book (a second))
	$(MDBOOK) build docs

$(MDBOOK):
	$(call say,installing mdBook $(MDBOOK_VERSION) into $(CACHE)/tools (about 2 minutes$(,) once))
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	  $(CARGO) install mdbook --version $(MDBOOK_VERSION) --locked --quiet --root $(CACHE)/tools \
	  --no-default-features --features search

.PHONY: control-plane
control-plane: ## Find or build the local control plane's parts (8 minutes on 2 cores the first time, else a second).
	$(call say,control plane: $(CONTROL_PLANE) (8 minutes the first time$(,) else a second))
	tests/control-plane/build $(CONTROL_PLANE)

.PHONY: registry
registry: ## Build the OCI registry that tests fetch charts from (half a minute on 2 cores the first time, else a second).
	$(call say,the registry of the tests (half a minute the first time$(,) else a second))
	tests/control-plane/build registry

.PHONY: gitops
gitops: ## Build the program with the libraries of Argo CD and Flux (half a minute on 2 cores the first time, else a second).
	$(call say,the libraries of Argo CD and Flux for tests (half a minute the first time$(,) else a second))
	tests/control-plane/build gitops

.PHONY: clean
clean: ## Remove the build results; the cache of the control plane stays.
	$(CARGO) clean

##@ The program and its images

.PHONY: install-cli
install-cli: release ## Install the program, its manual pages and completions below PREFIX (default /usr/local).
	install -d $(DESTDIR)$(PREFIX)/bin
	install target/release/chartwright $(DESTDIR)$(PREFIX)/bin/
	@$(MAKE) share SHARE=$(DESTDIR)$(PREFIX)/share

# Writes the manual pages and shell completions: make share CLI=target/debug/chartwright SHARE=folder
CLI ?= target/release/chartwright
SHARE ?= target/share
.PHONY: share
share:
	install -d $(addprefix $(SHARE)/,man/man1 bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	$(CLI) man --out $(SHARE)/man/man1
	$(CLI) completion bash > $(SHARE)/bash-completion/completions/chartwright
	$(CLI) completion zsh > $(SHARE)/zsh/site-functions/_chartwright
	$(CLI) completion fish > $(SHARE)/fish/vendor_completions.d/chartwright.fish

COMMIT_ARG = --build-arg CHARTWRIGHT_COMMIT="$$(git rev-parse HEAD 2>/dev/null || echo unknown)"
.PHONY: image
image: ## Build BASE_IMG (chartwright:VERSION), which operators are made from, and IMG, with CONTAINER_TOOL (docker).
	$(CONTAINER_TOOL) build $(COMMIT_ARG) --target base -t $(BASE_IMG) .
	$(CONTAINER_TOOL) build $(COMMIT_ARG) -t $(IMG) .

.PHONY: image-size
image-size: ## Fail if BASE_IMG takes more than 22 MB.
	@size=$$($(CONTAINER_TOOL) image inspect --format '{{.Size}}' $(BASE_IMG)); \
	echo "$(BASE_IMG): $$size bytes, of at most $(MAX_IMAGE)"; \
	if [ "$$size" -gt $(MAX_IMAGE) ]; then echo "it is too large" >&2; exit 1; fi

# More than one platform, or the files aren't kept apart.
HOST_ARCH := $(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(shell uname -m)))
.PHONY: dist
dist: ## Build archives of the program for PLATFORMS, with checksums, into dist/, with CONTAINER_TOOL (docker with buildx).
	rm -rf dist
	$(CONTAINER_TOOL) buildx build $(COMMIT_ARG) --target binary --platform $(PLATFORMS) --output dist/bin .
	@$(MAKE) share CLI=dist/bin/linux_$(HOST_ARCH)/chartwright SHARE=dist/share
	cd dist; for built in bin/*; do \
	  name=chartwright-$(VERSION)-$${built#bin/}; mkdir -p $$name/bin; \
	  cp $$built/chartwright $$name/bin/; cp -r share ../LICENSE $$name/; \
	  tar -czf $$name.tar.gz --owner=0 --group=0 $$name; rm -r $$name; \
	done; rm -r bin share; sha256sum *.tar.gz > SHA256SUMS; cat SHA256SUMS

# The archives of make dist, and the place that has them.
DIST ?= dist
URL ?= https://github.com/$(or $(GITHUB_REPOSITORY),example/chartwright)
.PHONY: krew
krew: ## Write the manifest of the kubectl plugin for krew from the archives of make dist, with URL, to standard output.
	@text=$$(cat config/krew/chartwright.yaml); \
	for platform in linux_amd64 linux_arm64; do \
	  sum=$$(awk -v file="chartwright-$(VERSION)-$$platform.tar.gz" '$$2 == file { print $$1 }' $(DIST)/SHA256SUMS); \
	  if [ -z "$$sum" ]; then echo "$(DIST)/SHA256SUMS has no $$platform: run make dist" >&2; exit 1; fi; \
	  text=$$(printf '%s\n' "$$text" | sed "s/\$${SHA256_$$platform}/$$sum/"); \
	done; \
	printf '%s\n' "$$text" | sed -e '/^#/d' -e 's/$${VERSION}/$(VERSION)/g' -e 's|$${URL}|$(URL)|g'

.PHONY: release-notes
release-notes: ## Print the notes of VERSION from CHANGELOG.md.
	@awk -v version="$(VERSION)" '/^## / { on = index($$0, "[" version "]"); next } on { print; said = said $$0 } \
	  END { if (said == "") { print "CHANGELOG.md says nothing of " version > "/dev/stderr"; exit 1 } }' CHANGELOG.md

# The first check of the release workflow: make release-check TAG=v0.1.0
.PHONY: release-check
release-check:
	@if [ "$(TAG)" != "v$(VERSION)" ]; then echo "the tag is $(TAG), the version in Cargo.toml $(VERSION)" >&2; exit 1; fi
	@$(MAKE) release-notes > /dev/null

##@ Cluster

.PHONY: install
install: ## Install the CRDs into the cluster of KUBECONFIG.
	$(KUBECTL) apply --server-side --force-conflicts -k config/crd

.PHONY: uninstall
uninstall: delete-resources ## Remove the CRDs, and before that every custom resource (the operator must be running for that).
	$(KUBECTL) delete --ignore-not-found -k config/crd

.PHONY: deploy
deploy: ## Deploy CRDs, RBAC and the operator with the image IMG.
	$(KUBECTL) kustomize config/default | sed 's|image: chartwright-charts:.*|image: $(IMG)|' \
	  | $(KUBECTL) apply --server-side --force-conflicts -f -

.PHONY: undeploy
undeploy: delete-resources ## Remove every custom resource, then the operator and the CRDs.
	$(KUBECTL) delete --ignore-not-found -k config/default

# Each custom resource has the operator's finalizer: without the operator it would stay, and its CRD with it. A database takes
# a last backup before it goes, which takes its time.
RESOURCES := memcacheds.cache.example.com flighttickets.flights.com sampledbs.sample.example.com etcdclusters.etcd.example.com
.PHONY: delete-resources
delete-resources:
	@for resource in $(RESOURCES); do \
	  if $(KUBECTL) get crd $$resource >/dev/null 2>&1; then \
	    $(KUBECTL) delete $$resource --all --all-namespaces --timeout=300s; \
	  fi; \
	done

##@ Bundle and catalogue for OLM

# Names and tags of the images that bundle-build and catalog-build build.
BUNDLE_IMG ?= chartwright-bundle:v$(VERSION)
CATALOG_IMG ?= chartwright-catalog:v$(VERSION)
# candidate, fast, stable, or several with commas.
CHANNELS ?= candidate
# Such as --replaces 0.0.1.
BUNDLE_FLAGS ?=
OPM ?= opm
OLM := target/olm

.PHONY: bundle
bundle: check-tools ## Make the operator's bundle in target/olm/bundle, which runs the image IMG.
	KUBECTL=$(KUBECTL) $(CARGO) run $(LOCKED) --quiet -- generate bundle --version $(VERSION) --image $(IMG) --channels $(CHANNELS) \
	  --output-dir $(OLM)/bundle $(BUNDLE_FLAGS)

.PHONY: bundle-build
bundle-build: ## Build the bundle's image BUNDLE_IMG.
	$(CONTAINER_TOOL) build -f $(OLM)/bundle.Dockerfile -t $(BUNDLE_IMG) $(OLM)

.PHONY: catalog
catalog: check-tools ## Add BUNDLE_IMG, which has to be pushed, to a template, and have opm make target/olm/catalog of it.
	$(CARGO) run $(LOCKED) --quiet -- generate catalog --bundle-image $(BUNDLE_IMG) --channels $(CHANNELS) \
	  -o $(OLM)/catalog-template.yaml
	@mkdir -p $(OLM)/catalog
	$(OPM) alpha render-template semver -o yaml $(OLM)/catalog-template.yaml > $(OLM)/catalog.tmp
	@mv $(OLM)/catalog.tmp $(OLM)/catalog/catalog.yaml
	$(OPM) validate $(OLM)/catalog
	@[ -e $(OLM)/catalog.Dockerfile ] || $(OPM) generate dockerfile $(OLM)/catalog

.PHONY: catalog-build
catalog-build: ## Build the catalogue's image CATALOG_IMG.
	$(CONTAINER_TOOL) build -f $(OLM)/catalog.Dockerfile -t $(CATALOG_IMG) $(OLM)

##@ Help with the tools

.PHONY: check-tools
check-tools: ## List the missing tools and how to install them.
	@missing=0; \
	need() { \
	  if ! command -v "$$1" >/dev/null 2>&1; then echo "missing: $$1 ($$2)" >&2; missing=1; fi; \
	}; \
	need cargo "the Rust toolchain, 1.95 or later: https://rustup.rs"; \
	need cc "a C compiler, for aws-lc: your system's package build-essential, gcc or clang"; \
	need git "your system's package git"; \
	if command -v cargo >/dev/null 2>&1; then \
	  cargo fmt --version >/dev/null 2>&1 || { echo "missing: rustfmt (rustup component add rustfmt)" >&2; missing=1; }; \
	  cargo clippy --version >/dev/null 2>&1 || { echo "missing: clippy (rustup component add clippy)" >&2; missing=1; }; \
	fi; \
	if ! command -v go >/dev/null 2>&1 && [ -z "$${KUBEBUILDER_ASSETS:-}" ]; then \
	  cache=$$(tests/control-plane/build --print-dir); \
	  for part in $(CONTROL_PLANE); do \
	    if ! [ -x "$$cache/$$part" ] && ! command -v "$$part" >/dev/null 2>&1; then \
	      need go "1.26 or later, builds the local control plane once: https://go.dev/doc/install"; \
	      break; \
	    fi; \
	  done; \
	fi; \
	exit $$missing

.PHONY: check-prometheus
check-prometheus:
	@if [ "$(PROMETHEUS)" = off ]; then \
	  echo "prometheus and promtool: left out (PROMETHEUS=off), so the alerts are not tested"; exit 0; \
	fi; \
	for tool in prometheus promtool; do \
	  command -v $$tool >/dev/null 2>&1 || { \
	    echo "missing: $$tool (your system's package prometheus, or PROMETHEUS=off to leave the tests of the alerts out)" >&2; exit 1; }; \
	done

.PHONY: check-chromium
check-chromium:
	@if [ "$(CHROMIUM)" = off ]; then \
	  echo "chromium: left out (CHROMIUM=off), so the dashboard is not tested in a browser"; exit 0; \
	fi; \
	command -v "$(if $(filter on,$(CHROMIUM)),chromium,$(CHROMIUM))" >/dev/null 2>&1 || { \
	  echo "missing: chromium (your system's package chromium, or CHROMIUM=off to leave the tests of the dashboard in a browser out)" >&2; \
	  exit 1; }
