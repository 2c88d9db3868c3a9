# Two commands do everything on a fresh machine with Python 3.11+: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help demo test check golden bench clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort

# One stamp for the whole set-up: a second run starts at once, a changed dependency list installs again.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Proreus needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(INSTALLED) ## set up, compare the pod policies, end with the path of an HTML report
	$(BIN)/proreus demo

test: $(INSTALLED) ## set up, run the whole test suite (slow golden runs apart)
	$(BIN)/python -m pytest -n 2 -m 'not golden' tests

golden: $(INSTALLED) ## reproduce the published figures on real traces (set PROREUS_DATA)
	$(BIN)/python -m pytest -m golden tests

check: $(INSTALLED) ## lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(INSTALLED) ## print the speed claims beside their peers
	$(BIN)/proreus bench pods

clean: ## remove what the set-up and the runs made
	rm -rf $(VENV) runs reports .pytest_cache .mypy_cache .ruff_cache .hypothesis
