# Thin on purpose: each target calls a program in tools/, which says what it does.
PYTHON ?= python3
RUN = .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup setup-tests demo test test-sqlite test-postgres test-containers test-browser lint types format \
	bench verify-bank screenshots lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: ## make everything that the demo needs
	@$(PYTHON) -m tools.setup

setup-tests: ## make everything that the tests need
	@$(PYTHON) -m tools.setup --tests

demo: ## set up, start everything, print the two links (PORT=8000, HOST=127.0.0.1)
	@$(PYTHON) -m tools.setup --quiet
	@$(RUN) -m tools.demo $(if $(PORT),--port $(PORT)) $(if $(HOST),--host $(HOST))

test: ## set up, then every check and every test
	@$(PYTHON) -m tools.setup --tests --quiet
	@$(RUN) -m tools.ci

test-sqlite test-postgres test-containers test-browser lint types: ## one step of `make test`
	@$(PYTHON) -m tools.setup --tests --quiet
	@$(RUN) -m tools.ci $@

format: ## write the code in the project's style
	@$(RUN) -m ruff check --fix --quiet . ; $(RUN) -m ruff format .

bench: ## measure the runner, the way from the request to the row, and the start of the demo
	@$(PYTHON) -m tools.setup --quiet
	@$(RUN) -m tools.bench

verify-bank: ## hold every reference and wrong answer of the bank to its checks
	@$(PYTHON) -m tools.setup --quiet
	@$(RUN) -m gpu_runner.bench.verify_bank

screenshots: ## photograph the pages for the documentation
	@$(PYTHON) -m tools.setup --tests --quiet
	@RENDEZVOUS_SCREENSHOTS=docs/images $(RUN) -m pytest -q tests/browser/test_whole_interview.py

lock: ## resolve the requirements anew into requirements/lock.txt
	@$(PYTHON) -m tools.lock

clean: ## remove what was built, keep the demo's data
	rm -rf .venv .venv-sandbox node_modules static/dist var/node
