# The front door. Needs Python 3.11 or newer with venv, git and make; everything else is fetched from the lock file.

UV_VERSION := 0.13.9
VENV := .venv
READY := $(VENV)/.ready
RUN := $(VENV)/bin
WORKERS ?= 3
ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help up test faults scenario lint format openapi messages pictures clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: $(READY) ## start everything and print how to use it; Ctrl-C stops it (ARGS='--port 0 --json' and so on)
	@$(RUN)/placet up $(ARGS)

test: $(READY) ## run all tests
	@$(RUN)/pytest -q -n $(WORKERS) --dist loadfile $(ARGS)

# What grows with the form: the attacks, and the histories and patches that are held against stock git.
ATTACKS := tests/faults tests/repositories/test_merging.py tests/repositories/test_applying.py
faults: $(READY) ## attack the writer and the merges: kills, errors, races (LONG=1: the long form, hours)
	@PLACET_FAULTS=$(if $(LONG),long,short) $(RUN)/pytest -q -n $(WORKERS) --dist loadfile $(ATTACKS) $(ARGS)

scenario: $(READY) ## play the whole story on a fresh server
	@$(RUN)/placet scenario

lint: $(READY) ## check style, types and the order of imports
	@$(RUN)/ruff check && $(RUN)/ruff format --check && $(RUN)/mypy && $(RUN)/lint-imports

format: $(READY) ## put the code in shape
	@$(RUN)/ruff check --fix && $(RUN)/ruff format

openapi: $(READY) ## write the descriptions under openapi/ anew
	@$(RUN)/placet openapi

messages: $(READY) ## gather what the pages say into service/languages anew
	@$(RUN)/placet messages

pictures: $(READY) ## take the pictures under docs/pages anew (needs chromium)
	@$(RUN)/pytest -q -n 0 tests/browser/test_pictures.py --pictures

clean: ## remove the environment and caches; the data in .placet stays
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): uv.lock pyproject.toml
	@deploy/environment $(VENV) $(UV_VERSION)
	@touch $@
