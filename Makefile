# Every target sets itself up: a Python >= 3.11 with pip (or uv) is all that a fresh machine needs.
#   PYTHON=python3.13   the interpreter for .venv        WORKERS=3   parallel test processes
#   ARGS="..."          passed on to pytest, `windlass demo` or the benchmark

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
PYTHON  ?=
# More than the cores of a small machine: tests with real processes wait for leases more than they
# work. With four, two cores are so busy that tests of real time come near their limits.
WORKERS ?= 3
ARGS    ?=
SOURCES := $(wildcard src tests tools bench examples)

# Tests start hundreds of programs. Those need not compile the package anew, each for itself, even
# where the shell forbids bytecode beside the sources.
quick test test-all test-system test-faults: export PYTHONDONTWRITEBYTECODE :=
quick test test-all test-system test-faults: export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode

.DEFAULT_GOAL := help
.PHONY: help venv check format faces sql docs quick test test-all test-system test-faults demo bench \
	bench-peers clean

help: ## Print this help
	@echo "Windlass: durable jobs for Python. Usage: make <target> [ARGS=...] [PYTHON=...]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP) ## Create .venv with the package, its extras and the test tools, at the pinned versions

$(STAMP): pyproject.toml constraints.txt tools/make_venv.sh
	@PYTHON="$(PYTHON)" sh tools/make_venv.sh $(VENV)
	@touch $@

check: $(STAMP) ## Lint, formatting, types, layers and sizes
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(filter-out examples,$(SOURCES))
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/check_sizes.py src
	$(BIN)/python tools/check_sql.py src
	$(BIN)/python tools/make_docs.py --check
	$(BIN)/python tools/check_links.py README.md CONTRIBUTING.md CHANGELOG.md bench docs
	$(BIN)/python tools/make_site.py --check
	$(BIN)/python tools/make_faces.py --check
	$(BIN)/python tools/make_sql.py --check

format: $(STAMP) ## Format the code and mend what the linter can mend by itself
	$(BIN)/ruff check --fix-only $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

faces: $(STAMP) ## Write the blocking and async methods of every verb from its one flow
	$(BIN)/python tools/make_faces.py

sql: $(STAMP) ## Write the PostgreSQL functions that hold the rules of a run's life
	$(BIN)/python tools/make_sql.py

docs: $(STAMP) ## Build the docs as a site in build/site/html; a broken link or anchor fails
	$(BIN)/python tools/make_site.py

quick: $(STAMP) ## Run the rules, the conformance suite and the application on SQLite (under a minute)
	$(BIN)/python -m pytest tests/domain tests/conformance tests/app tests/testing --sqlite-only \
		-n $(WORKERS) --dist worksteal $(ARGS)

test: $(STAMP) ## Run the tests on SQLite and on a private PostgreSQL
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

test-all: $(STAMP) ## Run all tests, the long forms too
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "long or not long" --timeout 900 $(ARGS)

test-system: $(STAMP) ## Run the conformance suite on the system's PostgreSQL
	WINDLASS_TEST_PG_BIN=system $(BIN)/python -m pytest tests/conformance tests/transactions \
		-n $(WORKERS) --dist worksteal $(ARGS)

test-faults: $(STAMP) ## Run the long forms of tests alone, most of them of faults (minutes)
	$(BIN)/python -m pytest -m long --timeout 900 $(ARGS)

demo: $(STAMP) ## Run the demonstration
	$(BIN)/windlass demo $(ARGS)

bench: $(STAMP) ## Run the benchmarks
	$(BIN)/python -m bench $(ARGS)

bench-peers: $(STAMP) ## Race Windlass against its peers: installs each, tables the figures (minutes)
	$(BIN)/python -m bench.peers $(ARGS)

clean: ## Remove the environment, caches and what was built
	rm -rf $(VENV) .bench build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
