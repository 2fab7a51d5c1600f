# One verb per line of `make help`. Each makes the environment it needs first; where that is done already it costs a tenth of a
# second and no network. VENV names another environment, PYTHON another interpreter: make test PYTHON=python3.13 VENV=.venv-3.13

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV ?= .venv
export VENV
PY := $(VENV)/bin/python
# The clean-up of what a test run leaves needs the paths; nothing else is ever removed.
CACHES := .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
# Two workers on two cores; more would fight with the servers that the tests start.
WORKERS ?= 2
# What `make run` asks: make run PROMPT="What time is it in Paris?"
PROMPT ?= What time is it in Tokyo?

.PHONY: help run test lint format types layers mutants contract generate clients conformance servers bench clean environment-run environment-dev buf model lock

help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 18

run: environment-run ## Start the service and run one real turn, live; no key needed (OPENAI_API_KEY or OPENAI_BASE_URL is used if set)
	@if [ -z "$${OPENAI_API_KEY:-}$${OPENAI_BASE_URL:-}" ]; then $(PY) scripts/fetch_model.py; fi
	@PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/turnwire run --config deploy/demo.toml $(ARGS) "$(PROMPT)"

test: environment-dev model ## Run all tests (ARGS="-k name" narrows)
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

lint: environment-dev ## Ruff: rules and format
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

format: environment-dev buf ## Write code and contract in the one format
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .
	@scripts/buf/buf format -w proto

types: environment-dev ## mypy strict and pyright over service, clients, tests and scripts
	@$(PY) -m mypy
	@$(PY) -m pyright --pythonpath $(PY)

layers: environment-dev ## The arrows between packages (end of pyproject.toml), by import-linter
	@$(VENV)/bin/lint-imports --no-cache

mutants: environment-dev ## Seed faults in the turn machine and the engine; their tests must notice each
	@$(PY) scripts/mutants.py $(ARGS)

contract: buf ## buf lint, format and breaking over proto/
	@scripts/buf/buf lint proto
	@scripts/buf/buf format --diff --exit-code proto
	@scripts/buf/buf breaking proto --against proto/turnwire-v1.binpb

generate: environment-dev buf ## Write what is generated: the code and the page of the contract, the tables of docs/providers.md
	@$(PY) scripts/generate.py
	@$(PY) scripts/generate_clients.py
	@$(PY) scripts/contract_docs.py
	@$(PY) scripts/contract_golden.py
	@$(PY) scripts/profile_docs.py

clients: environment-dev buf ## Build the clients of all languages and play their conformance set (ARGS="--only Go")
	@PYTHONPATH=service:clients/python $(PY) scripts/clients/main.py $(ARGS)

conformance: environment-dev ## The official MCP suite, client and server scenarios one by one in both eras, 17 minutes
	@$(PY) scripts/conformance.py $(ARGS)
	@$(PY) scripts/conformance_server.py

servers: environment-dev ## Install the suite and the MCP servers of others that tests use into the user's cache (250 MB, once)
	@$(PY) scripts/conformance.py --install

bench: environment-dev ## Measure the service beside its floors, 4 minutes (ARGS="--quick", ARGS="--harness")
	@$(PY) scripts/bench.py $(ARGS)

clean: ## Remove what was made, the environment included (the model stays in the user's cache)
	@rm -rf $(VENV) scripts/buf/node_modules $(CACHES)
	@find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +

lock: ## Resolve newer versions and write the lock files
	@scripts/environment.sh lock

buf: ## Install the pinned buf
	@scripts/environment.sh buf

model: environment-run ## Fetch the embedded model's weights (92 MB, once)
	@$(PY) scripts/fetch_model.py

environment-run:
	@scripts/environment.sh run

environment-dev:
	@scripts/environment.sh dev
