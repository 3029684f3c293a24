# Everything a fresh machine with Python ≥ 3.11 and make needs: `make demo`, `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP := $(VENV)/.installed
KILLS ?= 50
# Tests start many processes: each would compile the package and the tests anew.
unexport PYTHONDONTWRITEBYTECODE
# Scripts whose names do not end in .py.
COMMANDS := scripts/kills scripts/release-check scripts/same-answers scripts/same-speed

.PHONY: demo fast test pytest hostile kills study lint types docs docs-links oldest wheel release-check clean help

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 15

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "homefold needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)  ## Install if needed, then train and project on the embedded dataset (about 3 minutes on 2 cores)
	$(BIN)/homefold demo --out demo-output

fast: $(STAMP)  ## The tests marked fast: some of every package
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m fast

test: $(STAMP) lint  ## Install if needed, then run every check
	@$(MAKE) -j2 types pytest

pytest: $(STAMP)  ## Install if needed, then run the tests alone
	$(BIN)/python -m pytest -n 2 --dist worksteal

hostile: $(STAMP)  ## All inputs that nobody should give, with counts by verdict (about 10 minutes)
	$(BIN)/python -m pytest tests/hostile -m hostile -n 2 --dist worksteal -q

kills: $(STAMP)  ## Kill fit and bench KILLS times and at every file they write, and compare (40 minutes or more)
	$(BIN)/python scripts/kills --kills $(KILLS)

study: $(STAMP)  ## Write the tables of the study's pages from its records
	$(BIN)/python study/pages.py

lint: $(STAMP)  ## Style, and that each floor knows only the floors below
	$(BIN)/ruff check src tests benchmarks docs examples scripts study $(COMMANDS)
	$(BIN)/ruff format --check src tests benchmarks docs examples scripts study $(COMMANDS)
	$(BIN)/lint-imports

types: $(STAMP)  ## Types of the package and of the scripts
	$(BIN)/mypy
	$(BIN)/mypy scripts/killing

docs: $(STAMP)  ## Build the site into build/docs; a warning or a dead link between pages fails
	$(BIN)/python -m sphinx -q -E -W --keep-going -b html -c docs . build/docs

docs-links: $(STAMP)  ## Look whether the site's links to the outside answer (needs a network)
	$(BIN)/python -m sphinx -q -b linkcheck -c docs . build/docs-links

oldest:  ## Run the tests with the oldest supported torch, in a virtual environment of its own
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' 'torch==2.11.*' 'torchvision==0.26.*'
	.venv-oldest/bin/python -m pytest -n 2 --dist worksteal

wheel: $(STAMP)  ## Build a wheel, install it in an empty environment elsewhere and run it there
	rm -rf dist && $(BIN)/python -m build --wheel --outdir dist
	scripts/try-wheel $(PYTHON) dist/*.whl

release-check: $(STAMP)  ## Version, changelog and citation agree; the wheel works in an empty environment
	$(BIN)/python scripts/release-check
	$(MAKE) wheel

clean:  ## Remove what was built, but not the virtual environment
	rm -rf dist build demo-output .pytest_cache .mypy_cache .ruff_cache
