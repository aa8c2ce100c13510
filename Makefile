# Every verb sets up what it needs; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv --no-config
# The workspace members, in an order that needs none before its own.
MEMBERS := proto libs/spec libs/protofiles libs/chassis libs/kafka libs/client libs/eventlog libs/election libs/fleet libs/access libs/daggersql services/api-gateway services/scheduler services/health-monitor services/portal services/telemetry services/runtime cli devstack
STAMPS := $(VENV)/.stamps
export PATH := $(CURDIR)/$(BIN):$(PATH)
export LC_ALL := C.UTF-8

.PHONY: help
help: ## List the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}'

# What no package brings: all that is missing is named before anything is downloaded.
define NEEDS
missing=(); \
[[ "$$PWD" != *[\#?:\\]* ]] || missing+=("a checkout without #, ?, : and backslashes in its path, which no quoting carries to all that builds it: move $$PWD"); \
command -v git >/dev/null || missing+=("git (Debian: apt-get install git)"); \
if ! command -v $(PYTHON) >/dev/null; then missing+=("Python 3.11 or newer (Debian: apt-get install python3 python3-venv), or set PYTHON=/path/to/python3"); \
elif ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then missing+=("Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version): install it, or set PYTHON=/path/to/python3"); \
elif ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then missing+=("Python's venv module (Debian: apt-get install python3-venv)"); fi; \
[ ! -e /etc/debian_version ] || [ -e "$${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" ] || missing+=("the authorities of TLS (Debian: apt-get install ca-certificates), or set SSL_CERT_FILE"); \
[ $${#missing[@]} -eq 0 ] || { printf 'missing: %s\n' "$${missing[@]}"; exit 1; }
endef

# A step and how long it took; what its program says is shown only when it fails.
define STEP
SECONDS=0; echo "… $(1)"; said=$$(mktemp); \
if { $(2); } >"$$said" 2>&1; then rm -f "$$said"; echo "✓ $(1) $$SECONDS s"; \
else code=$$?; cat "$$said" >&2; rm -f "$$said"; exit $$code; fi
endef

$(STAMPS)/uv: requirements-uv.lock
	@$(NEEDS)
	@$(BIN)/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv $(VENV) # one that was interrupted has no pip yet
	@$(call STEP,installing uv,$(BIN)/python -m pip --quiet --disable-pip-version-check install --require-hashes -r requirements-uv.lock)
	@mkdir -p $(STAMPS) && touch $@

# The lock pins every version with its hash; members are installed from this tree, without their dependencies.
$(STAMPS)/venv: $(STAMPS)/uv requirements.lock pyproject.toml $(addsuffix /pyproject.toml,$(MEMBERS)) proto/hatch_build.py $(wildcard proto/daggers/v1/*.proto)
	@$(call STEP,installing the locked dependencies,$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock)
	@$(call STEP,installing the members of this tree,$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation $(addprefix -e ./,$(MEMBERS)))
	@$(UV) cache prune --quiet || true # each install leaves 2 GB of pyspark there when a registry's answers cannot be cached
	@touch $@

.PHONY: venv
venv: $(STAMPS)/venv ## Install Python dependencies and the workspace into .venv

WEB := services/portal/web
# What the pages are made of: $(WEB)/src/gen is made of proto/ itself.
$(STAMPS)/web: $(STAMPS)/venv $(wildcard $(WEB)/*.*) $(shell find $(WEB)/src -type f -not -path '*/gen/*' 2>/dev/null)
	@$(call STEP,building the pages,$(BIN)/python $(WEB)/build.py)
	@touch $@

.PHONY: web
web: $(STAMPS)/web ## Build the pages of the portal, with a Node of its own

.PHONY: tools
tools: $(STAMPS)/venv
	@$(BIN)/daggers local setup

# Pages are built beside the tools: each waits for registries where the other computes.
.PHONY: setup
setup: $(STAMPS)/venv ## Install everything the embedded stack needs (Kafka, InfluxDB, Java), once
	@$(MAKE) --no-print-directory --jobs 2 $(STAMPS)/web tools

# Before anything is installed: how long it takes on two cores.
.PHONY: demo-announced
demo-announced:
	@if [ -e $(STAMPS)/web ]; then echo "make demo: about 2 minutes on two cores"; \
	else echo "make demo: about 5 minutes on two cores the first time, and 2 from then on; what is installed is kept in $(VENV)"; fi

.PHONY: demo
demo: demo-announced setup ## Two daggers over realistic events for DEMO_SECONDS (60), then an independent recount
	@$(BIN)/daggers demo

.PHONY: lint
lint: $(STAMPS)/venv ## Lint, formatting, types (Python, TypeScript), import contracts, schema, Dockerfile, declared dependencies
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy libs/*/src services/*/src cli/src devstack/src
	@$(BIN)/python $(WEB)/build.py check
	@$(BIN)/lint-imports --no-logo --config pyproject.toml
	@$(BIN)/buf breaking proto --against $(BASELINE)
	@$(SCHEMA) | cmp -s - $(BASELINE) || { echo "$(BASELINE) is not the schema that proto/ has: run make proto-baseline"; exit 1; }
	@$(BIN)/hadolint deploy/compose/Dockerfile
	@for member in $(filter-out proto,$(MEMBERS)); do \
	    (cd $$member && deptry --no-ansi --ignore DEP002 --known-first-party daggers src >$(CURDIR)/$(VENV)/deptry.log 2>&1) \
	        || { echo "$$member imports what its pyproject.toml does not declare:"; cat $(VENV)/deptry.log; exit 1; }; done

# The schema as it was promised: what breaks it is refused, what is added stands in it from then on.
BASELINE := proto/baseline.yaml
SCHEMA := $(BIN)/buf build proto --exclude-source-info --output -\#format=yaml
.PHONY: proto-baseline
proto-baseline: $(STAMPS)/venv ## Write what was added to proto/ into its baseline; a breaking change is refused
	@$(BIN)/buf breaking proto --against $(BASELINE)
	@$(SCHEMA) >$(BASELINE).new && mv $(BASELINE).new $(BASELINE)

.PHONY: format
format: $(STAMPS)/venv ## Format the code and apply safe lint fixes
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

.PHONY: test-unit
test-unit: $(STAMPS)/venv ## Unit tests only (no stack)
	@$(BIN)/python $(WEB)/build.py test
	@$(BIN)/pytest -q -m "not integration"

.PHONY: opensearch
opensearch: $(STAMPS)/venv ## Install the OpenSearch that tests of the sink elasticsearch start, once
	@$(BIN)/python -m tests.searchservers opensearch

.PHONY: redis
redis: $(STAMPS)/venv ## Install the Redis that tests of the sink redis start, once, where the machine has none
	@$(BIN)/python -m tests.redis

.PHONY: postgres
postgres: $(STAMPS)/venv ## Install the PostgreSQL that tests of the sink postgres start, once, where the machine has none
	@$(BIN)/python -m tests.postgres

.PHONY: kubernetes
kubernetes: $(STAMPS)/venv ## Build the Kubernetes (API server, etcd) that slow tests start, once, in about ten minutes
	@$(BIN)/python -m tests.kubernetes

.PHONY: alertmanager
alertmanager: $(STAMPS)/venv ## Build the Alertmanager that a slow test compares routes with, once, in about five minutes
	@$(BIN)/python -m tests.alertmanager

.PHONY: yarn
yarn: $(STAMPS)/venv ## Install the HDFS and YARN that slow tests start, once
	@$(BIN)/python -m tests.yarn

WORKERS ?= 2
.PHONY: test
test: lint setup opensearch redis postgres ## Everything CI runs: lint, types, contracts, unit and integration tests on the real stack
	@$(BIN)/python $(WEB)/build.py test
	@$(BIN)/pytest -q -m "not long" --numprocesses $(WORKERS) --dist worksteal --durations 30

PART ?= all
.PHONY: test-long
test-long: setup opensearch redis postgres kubernetes alertmanager yarn ## What is slow and seldom fails, and properties with examples of their own; PART=NAME: one part of it
	@$(BIN)/pytest -v --part "$(PART)" --hypothesis-profile explore \
	    --numprocesses $(WORKERS) --dist worksteal --durations 30

WHAT ?= demo test
WHO ?= person root
.PHONY: fresh
fresh: ## As root: WHAT="demo test" in a Debian with nothing but what the README names, WHO="person root"; needs debootstrap
	@$(PYTHON) tests/fresh.py --what $(WHAT) --who $(WHO)

SEEDS ?= 200
FIRST ?= 1
.PHONY: simulate
simulate: $(STAMPS)/venv ## Live through SEEDS=N seeds from FIRST=K in the deterministic simulator
	@$(BIN)/python -m tests.simulation.run $(SEEDS) $(FIRST)

SPARK_CLUSTER := .cache/spark-cluster
.PHONY: spark-cluster spark-cluster-down
spark-cluster: MINUTES = 60
spark-cluster: setup ## A Spark master and two workers of one core on loopback, for MINUTES=m (60), to try daggers on
	@$(BIN)/python -m devstack.sparkcluster up $(SPARK_CLUSTER) --minutes $(MINUTES)
spark-cluster-down: $(STAMPS)/venv ## Stop what make spark-cluster has started
	@$(BIN)/python -m devstack.sparkcluster down $(SPARK_CLUSTER)

MINUTES ?= 2
SEED ?= 1
.PHONY: chaos
chaos: setup ## Real faults on a real stack for MINUTES=m from SEED=s, with HOSTS=2 on two hosts, recounted exactly
	@$(BIN)/python -m tests.chaos.run $(MINUTES) $(SEED) $(HOSTS)

EDITS ?= 60
.PHONY: plan-truth
plan-truth: setup ## What plans of EDITS=N generated edits promise from SEED=s, beside what then happens on a real stack
	@$(BIN)/python -m tests.plantruth.run $(EDITS) $(SEED)

.PHONY: cutover
cutover: EDITS = 20
cutover: setup ## Edit a dagger under load from SEED=s, EDITS=n times: no window is missing or doubled, and rows go on coming
	@DAGGERS_SCHEDULER_CUTOVER=true $(BIN)/python -m tests.cutover.run $(EDITS) $(SEED)

CASES ?= tests/conformance
.PHONY: conformance
conformance: $(STAMPS)/venv ## Run the conformance cases of a directory (CASES=DIR; default: the public corpus)
	@$(BIN)/python -m tests.conformance $(CASES)

# Interrupted rather than killed when it takes too long, so that it takes its stack down.
BENCH := timeout --signal=INT --kill-after=90
BENCHES ?=
.PHONY: bench
bench: setup ## Run each bench of docs/performance.md once, into .cache/bench (BENCHES="seed idle": these); each within 25 minutes
	@$(BIN)/python bench/publish.py run $(BENCHES)

.PHONY: bench-doc
bench-doc: $(STAMPS)/venv ## Write what benches printed last into docs/performance.md
	@$(BIN)/python bench/publish.py write

.PHONY: bench-flink
bench-flink: setup ## The seed query beside Flink in one run; Flink is built in a throw-away environment
	@$(BENCH) 3000 $(BIN)/python bench/seed.py --flink

.PHONY: bench-fleet
bench-fleet: setup ## 10,000 daggers over 40 simulated hosts: what scheduler, monitor and gateway take for them
	@$(BENCH) 900 $(BIN)/python bench/publish.py run fleetsize

DAGGERS ?= 200
TOPICS ?= 40
TEAMS ?= 1
FAULTS ?= 0
.PHONY: bench-density
bench-density: MINUTES = 10
bench-density: setup ## Light daggers of shared drivers: cores, memory, how late windows are, each counted anew (DAGGERS, TOPICS, TEAMS, MINUTES, FAULTS)
	@$(BENCH) 7200 $(BIN)/python bench/density.py --daggers $(DAGGERS) --topics $(TOPICS) --teams $(TEAMS) --minutes $(MINUTES) --faults $(FAULTS)

.PHONY: bench-alerts
bench-alerts: setup ## Alerts: CPU of rules, window to receiver, 10,000 at once, a start, a simulation; fails where a bar is missed
	@$(BENCH) 1500 $(BIN)/python bench/alerts.py

.PHONY: bench-sinks
bench-sinks: $(STAMPS)/venv ## What sinks cost beside a bare loop with the same library; fails where one costs too much
	@$(BENCH) 1500 $(BIN)/python bench/sinks.py

.PHONY: bench-preview
bench-preview: setup ## Previews: columns and first row, 50 warm and 5 cold
	@$(BENCH) 1200 $(BIN)/python bench/preview.py

.PHONY: bench-portal
bench-portal: setup ## The pages in a real browser: loads, weights, keystrokes, frames, watchers; fails where a bar is missed
	@$(BENCH) 600 $(BIN)/python bench/screens.py
	@$(BENCH) 1500 $(BIN)/python bench/pages.py

.PHONY: portal-pictures
portal-pictures: setup ## Take pictures of every page, light and dark, of a demo that it runs, into docs/portal
	@$(BIN)/python -m tests.portal.pictures

.PHONY: portal-states
portal-states: setup ## Picture every page in every state, wide and on a phone, light and dark, into .cache/portal-states
	@rm -rf .cache/portal-states && mkdir -p .cache/portal-states
	@$(BIN)/pytest -q -m "" tests/portal --pictures .cache/portal-states

.PHONY: message-pictures
message-pictures: $(STAMPS)/venv ## Picture every kind of message as each receiver shows it, into .cache/message-pictures
	@$(BIN)/python -m tests.messages.pictures

.PHONY: functions-doc
functions-doc: $(STAMPS)/venv ## Write docs/functions.md from what the functions say of themselves
	@$(BIN)/python -m daggersql.functions.reference > docs/functions.md

.PHONY: receivers-doc
receivers-doc: $(STAMPS)/venv ## Write docs/receivers.md from what the kinds of receivers say of themselves
	@$(BIN)/python -m health_monitor.reference > docs/receivers.md

.PHONY: access-doc
access-doc: $(STAMPS)/venv ## Write who may call which method, in libs/access/tests/matrix.md
	@$(BIN)/python -m libs.access.tests.matrix

.PHONY: sinks-doc
sinks-doc: $(STAMPS)/venv ## Write docs/sinks.md from what the kinds of sinks say of themselves
	@$(BIN)/python -m daggerspec.reference > docs/sinks.md

.PHONY: commands-doc
commands-doc: $(STAMPS)/venv ## Write docs/commands.md from what the command says of itself
	@$(BIN)/python -m cli.reference > docs/commands.md

.PHONY: settings-doc
settings-doc: $(STAMPS)/venv ## Write docs/settings.md from what the settings of each service say of themselves
	@$(BIN)/python -m tests.documents.settings > docs/settings.md

# What calls a gateway from elsewhere: the stubs, the client, and the little that both need.
CLIENT := proto libs/spec libs/chassis libs/client
DIST ?= dist
.PHONY: wheels
wheels: $(STAMPS)/venv ## Build the stubs and the client as wheels that install by themselves, into DIST (dist)
	@rm -f $(DIST)/*.whl
	@for member in $(CLIENT); do $(UV) build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir $(DIST) ./$$member; done
	@ls $(DIST)/*.whl

VERSION ?=
IMAGE ?= daggers
.PHONY: release
release: $(STAMPS)/venv ## VERSION=X.Y.Z: set it, give it its section in CHANGELOG.md, build wheels and, with Docker, the image
	@$(BIN)/python deploy/release.py $(VERSION)
	@$(MAKE) --no-print-directory wheels DIST=$(DIST)
	@if docker info >/dev/null 2>&1; then \
	    docker build --file deploy/compose/Dockerfile --tag $(IMAGE):$(VERSION) .; \
	else echo "no image was built: Docker is not here, or does not answer"; fi
	@echo "$(VERSION) is ready: read dist/release-$(VERSION).md, commit, and tag"

.PHONY: decisions-index
decisions-index: $(STAMPS)/venv ## Write docs/decisions/README.md from the titles and the status of decisions
	@$(BIN)/python -m tests.documents.decisions > docs/decisions/README.md

.PHONY: names-count
names-count: $(STAMPS)/venv ## Count names and docstrings that say nothing, into tests/documents/names.json; they may only fall
	@$(BIN)/python -m tests.documents.name_counts

.PHONY: metrics-doc
metrics-doc: $(STAMPS)/venv ## Write docs/metrics.md from what the services say of their metrics
	@$(BIN)/python -m tests.documents.metrics > docs/metrics.md

# What is installed by itself; the first line says which version.
WHEELS := requirements-uv.lock $(wildcard devstack/src/devstack/tools/*.lock bench/flink_peer/*.lock)
.PHONY: lock
lock: $(STAMPS)/uv ## Resolve every dependency anew into requirements.lock (versions and hashes, no addresses)
	@$(BIN)/uv lock --quiet --upgrade
	@$(BIN)/uv export --quiet --all-packages --all-groups --no-emit-workspace --no-header --no-annotate --output-file requirements.lock >/dev/null
	@for lock in $(WHEELS); do head -1 $$lock | cut -d' ' -f1 | $(UV) pip compile --quiet --no-deps --generate-hashes \
	    --no-header --no-annotate --no-emit-index-url --output-file $$lock - >/dev/null; done

.PHONY: clean
clean: ## Remove what builds and tests made, but not the tools and the environment
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
