# `make` prints the targets.
.DEFAULT_GOAL := help
.PHONY: help setup demo test conscience test-postgres load audit reference lint types migrations format lock upgrade clean

PYTHON ?= python3
BOOTSTRAP := $(PYTHON) -I portal/ops/bootstrap.py
BIN := .venv/bin
COMPILE := uv pip compile pyproject.toml --quiet --universal --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock"

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Set up, start the portal and one worker, print the address (DEMO_PORT=8000)
	@$(BOOTSTRAP) demo
	@$(BIN)/python -m portal.ops.demo

test: setup lint types migrations ## Set up, then run every check and every test
	@$(BIN)/python -m pytest

conscience: setup ## Run every exploit and every honest fixture through the verifier (about half an hour)
	@$(BIN)/python -m verifier selftest --jobs 2

test-postgres: setup ## Run the portal's tests on a throw-away PostgreSQL
	@$(BIN)/python -m tests.postgres -- $(BIN)/python -m pytest tests/portal

load: setup ## Measure how long 20 readers wait for the board (PostgreSQL, 120,000 runs; about 4 minutes)
	@$(BIN)/python -m tests.load

audit: setup ## Ask a public database for known faults of the pinned packages (needs a network)
	@$(BIN)/python -m portal.ops.audit

setup: ## Make .venv with everything for development
	@$(BOOTSTRAP) dev

lint: setup ## Check style with ruff
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: setup ## Check types with mypy
	@$(BIN)/mypy

migrations: setup ## Check that the migrations match the models
	@$(BIN)/python manage.py makemigrations --check --dry-run

format: setup ## Rewrite the style with ruff
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

reference: setup ## Write docs/commands.md from what kq says of itself
	@$(BIN)/python -m typer verifier.cli utils docs --name kq --title "The command kq" --output docs/commands.md

lock: ## Write the locks from pyproject.toml (needs uv)
	@$(COMPILE) $(LOCK_OPTIONS) --extra verifier --extra dev -o requirements/dev.txt
	@$(COMPILE) $(LOCK_OPTIONS) --extra verifier -c requirements/dev.txt -o requirements/demo.txt
	@$(COMPILE) $(LOCK_OPTIONS) -c requirements/dev.txt -o requirements/web.txt
	@$(COMPILE) $(LOCK_OPTIONS) --extra h200 -c requirements/web.txt -o requirements/h200.txt
	@echo pip-audit | uv pip compile - --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" $(LOCK_OPTIONS) -o requirements/audit.txt

upgrade: ## Write the locks with the newest versions that pyproject.toml allows
	@$(MAKE) --no-print-directory lock LOCK_OPTIONS=--upgrade

clean: ## Delete the environment, the demo's data and all caches
	rm -rf .venv var staticfiles .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find portal verifier tests tasks -name __pycache__ -type d -prune -exec rm -rf {} +
