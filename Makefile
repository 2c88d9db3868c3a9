# Three commands do everything on a fresh machine with Python 3.11+: `make demo`, `make test`, `make up`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base-installed
FULL := $(VENV)/.full-installed
ENGINE := $(VENV)/.engine-installed

.PHONY: help demo test again nightly up check golden bench map tables loads protos clean kube-assets test-kube
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort

# Stamps, so that a second run starts at once and a changed dependency list installs again. The demo needs
# the small base only; development adds the checkers and what training and its tests use.
$(BASE): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Proreus needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(FULL): $(BASE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,learn,sb3,serve,engine,solve,ray]'
	touch $@

$(ENGINE): $(BASE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[engine]'
	touch $@

up: $(ENGINE) ## set up, run a cluster on this machine with an API and a status page (proreus up)
	$(BIN)/proreus up

demo: $(BASE) ## set up, compare the pod policies, end with the path of an HTML report
	$(BIN)/proreus demo

# Hundreds of processes start in these: where bytecode may not be written (PYTHONDONTWRITEBYTECODE, as images of
# Python set it) each would compile all sources again, and pytest would rewrite every test at every start.
test again nightly golden test-kube: export PYTHONDONTWRITEBYTECODE =

# Work is stolen, not dealt out: the tests of a file stay together, so what they share is made once. Four workers
# for two cores: a third of the tests mostly wait, for processes that they start and kill, and others compute
# meanwhile.
test: $(FULL) ## set up, run the test suite (what is long by nature is in nightly, real traces in golden)
	$(BIN)/python -m pytest -n 4 --dist worksteal -m 'not golden and not nightly' tests

again: $(FULL) ## of the last run of the suite, those that failed, one by one; an error where none did
	$(BIN)/python -m pytest -n 0 --last-failed --last-failed-no-failures none -m 'not golden' tests

nightly: $(FULL) ## the tests that are long by nature
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$($(PYTHON) -m tests.kube.assets --path)}" $(BIN)/python -m pytest -n 2 --dist worksteal -m nightly tests

golden: $(FULL) ## reproduce the published figures on real traces (set PROREUS_DATA)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m golden tests

# The programs are kept outside the project (KUBE_ASSETS, else the user's cache), so that they are built once.
kube-assets: ## build kube-apiserver and kube-scheduler from Debian's source package (about nine minutes, once)
	$(PYTHON) -m tests.kube.assets

test-kube: $(FULL) ## the tests that need a real Kubernetes control plane: make kube-assets, or KUBEBUILDER_ASSETS
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$($(PYTHON) -m tests.kube.assets --path)}" $(BIN)/python -m pytest -n 0 -m 'not nightly' tests/kube/real

check: $(FULL) ## lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(FULL) ## print the speed claims beside their peers
	$(BIN)/proreus bench pods

map: $(BASE) ## every module with the first sentence of its docstring
	@$(BIN)/python -m tests.code_map

tables: $(BASE) ## write the tables of the docs anew from docs/results/*.json
	$(BIN)/python -m tests.docs.tables

loads: $(BASE) ## draw docs/img/drawn-loads.svg anew: twelve loads of the inference curriculum
	$(BIN)/python -m tests.docs.drawn_loads

protos: $(FULL) ## generate the gRPC message types from their .proto files
	cd src && ../$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. proreus/serving/protos/*.proto proreus/engine/runtimes/containerd/*.proto

clean: ## remove the environment and caches; runs/ and reports/ are yours and stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples -name __pycache__ -prune -exec rm -rf {} +
