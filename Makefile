# Everything a developer types. A machine with Python 3.11 and nothing else is enough; uv is used where it is there.
.DEFAULT_GOAL := help
SHELL := /bin/sh

# Tests that start no server compute, and the others mostly wait: they run beside each other, in three groups.
PURE := tests/unit tests/simulation
WHOLE := tests/acceptance tests/browser tests/chaos tests/security

VENV := .venv
TSC := .cache/typescript/node_modules/.bin/tsc
INSTALL_TSC := (command -v npm && npm install --silent --fetch-retries=1 --fetch-timeout=30000 --prefix .cache/typescript typescript@7.0.2) >/dev/null 2>&1
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
UV := $(shell command -v uv 2>/dev/null)
ifdef UV
CREATE = $(UV) venv --quiet --python $(PYTHON) $(VENV)
INSTALL = VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet
else
CREATE = $(PYTHON) -m venv $(VENV)
INSTALL = $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check
endif

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: $(VENV)/.installed ## start everything with the demo's jobs: ARGS="--port 0"
	@exec $(BIN)/waterclock up --demo $(ARGS)

.PHONY: test
test: $(VENV)/.installed-dev ## every test, about 10 minutes: ARGS="tests/unit -k name"
ifdef ARGS
	@exec $(BIN)/python -m pytest $(ARGS)
else
	@mkdir -p .cache; \
	nice $(BIN)/python -m pytest -o cache_dir=.cache/pure-tests $(PURE) >.cache/pure-tests.log 2>&1 & pure=$$!; \
	$(BIN)/python -m pytest -o cache_dir=.cache/whole-tests $(WHOLE) >.cache/whole-tests.log 2>&1 & whole=$$!; \
	$(BIN)/python -m pytest $(PURE:%=--ignore=%) $(WHOLE:%=--ignore=%); parts=$$?; \
	wait $$whole; whole=$$?; cat .cache/whole-tests.log; \
	wait $$pure; pure=$$?; cat .cache/pure-tests.log; exit $$((parts || whole || pure))
endif

.PHONY: check
check: $(VENV)/.installed-dev ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if test -x $(TSC) || $(INSTALL_TSC); then $(TSC) -p api/waterclock/api/console/browser && echo "the console's types hold"; \
	else echo "the console's types are not checked: npm, or what it installs, is not there"; fi

.PHONY: fmt
fmt: $(VENV)/.installed-dev ## format, and fix what lint can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: $(VENV)/.installed-dev ## all benchmarks, about an hour
	@exec $(BIN)/python -m bench $(ARGS)

.PHONY: bench-quick
bench-quick: $(VENV)/.installed-dev ## the benchmarks in about 12 minutes
	@exec $(BIN)/python -m bench --quick $(ARGS)

.PHONY: chaos
chaos: $(VENV)/.installed-dev ## the long form of the fault suite, about 17 minutes (needs Debian's strace and libfaketime)
	@WATERCLOCK_CHAOS=long exec $(BIN)/python -m pytest tests/chaos $(ARGS)

.PHONY: soak
soak: $(VENV)/.installed-dev ## a steady load with random kills: MINUTES=30 RATE=1000
	@exec $(BIN)/python -m bench.soak --minutes $(or $(MINUTES),30) --rate $(or $(RATE),1000) $(ARGS)

.PHONY: cluster
cluster: .env deploy/tls/ca/ca.crt ## the same components as containers: 3 NATS nodes, Postgres, S3, two of each (needs Docker)
	@exec docker compose up --build $(ARGS)

.env: | $(VENV)/.installed-dev
	@(umask 077; PYTHON=$(BIN)/python deploy/make-env > $@)

deploy/tls/ca/ca.crt:
	@deploy/make-certificates

.PHONY: pin-images
pin-images: .env ## the cluster's images by digest, into .env (needs Docker and the network)
	@pinned=$$(deploy/pin-images) && sed -i '/_IMAGE=/d' .env && echo "$$pinned" >> .env && echo "$$pinned"

.PHONY: lock
lock: ## pin the dependencies anew (needs uv): ARGS="--upgrade"
	$(or $(UV),$(BIN)/uv) pip compile $(LOCK) --group build -o requirements.lock pyproject.toml $(ARGS)
	$(or $(UV),$(BIN)/uv) pip compile $(LOCK) --group build --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml $(ARGS)

LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

.PHONY: sbom
sbom: $(VENV)/.installed ## what an installation is made of, as CycloneDX: sbom.json
	@$(BIN)/python deploy/sbom.py > sbom.json
	@echo "sbom.json: $$(grep -c '"bom-ref"' sbom.json) packages"

.PHONY: audit-deps
audit-deps: .cache/pip-audit/bin/pip-audit ## known vulnerabilities of what is pinned (asks PyPI)
	.cache/pip-audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements.lock $(ARGS)

.cache/pip-audit/bin/pip-audit: | $(BIN)/python
	@$(PYTHON) -m venv .cache/pip-audit
	@.cache/pip-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit

.PHONY: clean
clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "waterclock needs Python 3.11 or later; none was found (set PYTHON=…)" >&2; exit 1; }
	@echo "creating $(VENV) with $$($(PYTHON) --version)"
	@$(CREATE)

# What runs waterclock, and nothing else: `make run` should not wait for linters. The locks name everything, so pip looks
# for nothing itself: it would take a newer `coverage` for `coverage[toml]` than the one that is pinned, and refuse it.
$(VENV)/.installed: requirements.lock pyproject.toml | $(BIN)/python
	@echo "installing waterclock"
	@$(INSTALL) --no-deps --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	@echo "installing what the tests need"
	@$(INSTALL) --no-deps --require-hashes -r requirements-dev.lock
	@touch $@
