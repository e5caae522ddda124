# SPDX-License-Identifier: Apache-2.0
# Every target sets up what it needs first; a second run finds it there.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/tools/bin:$(PATH)
export PYTHONPATH := $(CURDIR)

# Options of `make demo`, passed on when set: make demo TRAINERS=4 ROUNDS=3 DATA="a.txt b.jsonl"
DEMO_FLAGS = $(if $(JOB),--job $(JOB)) $(if $(STORE),--store $(STORE)) $(if $(CODEC),--codec $(CODEC)) $(if $(TRAINERS),--trainers $(TRAINERS)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
    $(foreach file,$(DATA),--data $(file)) $(NODE_FLAGS) $(ARGS)
# A chain that runs already: make demo RPC=http://127.0.0.1:8545 KEYSTORE=key.json
NODE_FLAGS = $(if $(RPC),--rpc $(RPC)) $(if $(KEYSTORE),--keystore $(KEYSTORE))

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

.PHONY: setup
setup: ## .venv and anvil (every other target does this first)
	@PYTHON="$(PYTHON)" scripts/setup.sh

.PHONY: demo
demo: setup ## A whole network on this machine trains, punishes, pays (JOB=dso, gauntlet, pipeline, encrypted)
	@python -m scripts.demo $(DEMO_FLAGS)

.PHONY: demo-redundant
demo-redundant: setup ## Strangers run tasks, the chain compares; report-redundant/ shows it
	@python -m scripts.demo_redundant $(if $(TASKS),--tasks $(TASKS)) $(if $(EXECUTORS),--executors $(EXECUTORS)) \
	    $(foreach file,$(DATA),--data $(file)) $(NODE_FLAGS) $(ARGS)

.PHONY: localnet
localnet: setup ## A local network that keeps running, with a page to join it by
	@python -m scripts.devnet $(NODE_FLAGS) $(ARGS)

.PHONY: web
web: setup ## The page of a network: make web NETWORK=http://127.0.0.1:8545
	@python -m scripts.web $(if $(NETWORK),--network $(NETWORK)) $(ARGS)

.PHONY: test
test: setup ## Every test but the full kill matrix
	@scripts/test.sh $(ARGS)

.PHONY: chaos
chaos: setup ## The full kill matrix: every role, every phase
	@pytest tests/e2e tests/attacks -m chaos $(ARGS)

.PHONY: bench
bench: setup ## Gas, hashing, codecs, merging, pipeline, privacy, page and start-up figures
	@python -m tests.measure $(ARGS)

.PHONY: lint
lint: setup ## ruff, mypy, mamushi, contract conventions, static analysis, contract sizes
	@.ci/lint

.PHONY: format
format: setup ## Rewrite Python and Vyper files in the project's style
	@ruff check --fix --quiet agents scripts tests .ci || true
	@ruff format --quiet agents scripts tests .ci
	@mamushi --quiet --line-length 100 $$(find contracts interfaces -name '*.vy*')

.PHONY: lock
lock: ## Resolve pyproject.toml again and rewrite requirements.lock
	@scripts/lock.sh

.PHONY: clean
clean: ## Remove everything made, the set-up too
	@rm -rf .venv tools .build scripts/_web/island/node_modules scripts/_web/pages/static/island .menagerie report report-redundant figures .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
