# The two commands of the README are `make lab` and `make test`; `make help` lists the rest.

# The first Python here that is new enough; `make PYTHON=/path/to/python3 ...` names another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && exit; done; echo python3)
PORT ?= 8888
BROWSER ?=
FRESH ?=
WORKERS ?= 2
MINUTES ?= 9
OUT ?= gpu

VENV := .venv
BIN := $(VENV)/bin
# One thread a process: two torch processes at default threads fight over the cores, and stored outputs were made so.
QUIET_ENV := env -u MPLBACKEND OMP_NUM_THREADS=1 PYTHONHASHSEED=0
PYTEST := $(QUIET_ENV) $(BIN)/python -m pytest -q

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lab test test-all chromium lint types unit browser check-notebooks release-check notebooks times handout results bench gpu book page attack mutants clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# JupyterLab saves every two minutes by itself, so it opens copies, in my_notebooks/.
lab: $(VENV)/.lab  ## set up, then open JupyterLab on your copies (PORT=8888, BROWSER=none on a server, FRESH=1 renews)
	$(BIN)/dpnotes lab --port=$(PORT) $(if $(filter none,$(BROWSER)),--no-browser) $(if $(filter-out 0,$(FRESH)),--fresh)

test: chromium  ## set up, then lint, types, tests, doctests, notebooks, browser
	@$(MAKE) --no-print-directory -j2 lint types
	@$(MAKE) --no-print-directory unit check-notebooks browser

test-all: chromium $(VENV)/.triton  ## the slow suite, which `make test` leaves out, with sampled cells of stored results; the types of tests
	$(BIN)/pyright --pythonpath $(BIN)/python tests
	$(PYTEST) -n $(WORKERS) -m "slow and not gpu" --timeout=1800

chromium: $(VENV)/.dev  # what the last of the tests needs is said before the first
	@$(BIN)/python -c 'import sys; from dpnotes.cli import doctor; doctor.chromium() or sys.exit( \
		"make test drives the notebooks in chromium, which was not found: on Debian and Ubuntu, apt-get install chromium")'

lint: $(VENV)/.dev  ## ruff, no logic twice, notebooks in order
	$(BIN)/ruff check
	$(BIN)/pylint --score=n dpnotes
	$(BIN)/python -m dpnotes.notebook.write --check

types: $(VENV)/.dev  ## pyright, of all that is no test
	$(BIN)/pyright --pythonpath $(BIN)/python dpnotes benchmarks

unit: $(VENV)/.dev  ## tests and doctests
	$(PYTEST) -n $(WORKERS) -m "not slow and not browser"

check-notebooks: $(VENV)/.dev  ## every stored output against a fresh run
	$(PYTEST) -n $(WORKERS) --dist loadfile --nbval --nbval-current-env notebooks

browser: $(VENV)/.dev  ## notebooks as stored, and one that runs, in a real chromium; test-all looks at every one
	$(PYTEST) -n $(WORKERS) -m "browser and not slow" tests/test_browser.py

release-check: $(VENV)/.dev  ## every stored output against a run as another processor would: ten minutes
	$(QUIET_ENV) $(BIN)/python -m dpnotes.notebook.write --as-another-processor

notebooks: $(VENV)/.dev  ## run the notebooks twice, the second time as another processor would, and store their outputs
	$(QUIET_ENV) $(BIN)/python -m dpnotes.notebook.write

times: $(VENV)/.dev  ## on an idle machine, measure the run times that notebooks state, and write them there
	$(QUIET_ENV) $(BIN)/python -m dpnotes.notebook.write --time

handout: $(VENV)/.lab  ## for a class: handout/students without solutions, handout/instructor with them
	$(QUIET_ENV) $(BIN)/dpnotes handout handout

results: $(VENV)/.dev  ## run every experiment's quick profile whose result is not stored, or is disputed
	$(QUIET_ENV) $(BIN)/dpnotes run all --profile quick

book: $(VENV)/.dev  ## notebooks, pages and public functions as a site: build/book/index.html
	$(QUIET_ENV) $(BIN)/python -m sphinx -c docs/book -d .cache/book -q -W --keep-going -j 2 . build/book

page: $(VENV)/.dev  ## which algorithm, as one HTML file that needs nothing: build/which_algorithm.html
	mkdir -p build && $(QUIET_ENV) $(BIN)/python -m dpnotes.atlas.page build/which_algorithm.html

bench: $(VENV)/.dev  ## the speed table, against plain torch and Opacus
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[bench]'
	for script in benchmarks/[!_]*.py; do $(BIN)/python "$$script" || exit 1; done

gpu: $(VENV)/.dev  ## on a GPU: tests, benchmarks, paper results by value per minute; goes on (MINUTES=9, OUT=gpu)
	$(QUIET_ENV) $(BIN)/dpnotes gpu --minutes $(MINUTES) --out $(OUT)

attack: $(VENV)/.dev  ## code of one's own, kills -9 and audits of every door, 20 minutes; figures into docs/privacy.md
	$(QUIET_ENV) $(BIN)/python -m tests.attack all --write

mutants: $(VENV)/.dev  ## 300 changes of a line, each against the tests of its part: hours; goes on where it stopped
	$(QUIET_ENV) $(BIN)/python -m tests.attack mutants --write

clean:  ## remove the environment and every cache; results stay
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find dpnotes tests benchmarks notebooks -name __pycache__ -prune -exec rm -rf {} + \
		-o -name .ipynb_checkpoints -prune -exec rm -rf {} +

# What is missing is said in one line, before anything is made.
$(VENV)/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "dpnotes needs Python 3.11 or newer, and '$(PYTHON)' is not: install it, or say which: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "dpnotes needs Python's venv module, and '$(PYTHON)' lacks it: on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV)

$(VENV)/.lab: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing into $(VENV): a few minutes the first time."
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[lab]'
	@touch $@

# Tests of the GPU kernel need Triton, which PyTorch's CPU builds lack; it exists only for Linux.
$(VENV)/.triton: $(VENV)/.dev
	@test "$$(uname)" != Linux || $(BIN)/python -c 'import triton' 2>/dev/null || \
		$(BIN)/python -m pip install -qq --disable-pip-version-check triton==3.8.0
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing into $(VENV): a few minutes the first time."
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(VENV)/.lab $@
