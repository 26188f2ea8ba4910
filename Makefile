# make demo   the posterior of the bundled example, 12 primates
# make quick  the tests to run between edits: parts that train nothing, without the slow ones, with fewer examples
# make test   all tests, before a change lands; WORKERS=n says in how many processes, which is as many as there are cores
# make check  format, lint, types
# make format mend format and lint
# make bench  how fast it is, on this machine
# make validate  whether posteriors are right, on simulated data: hours, resumes; then docs/validation.md

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
WORKERS ?= auto
CODE := src tests benchmarks examples
# The folders whose tests start no programs and train no models, and what holds the whole together.
QUICK := $(addprefix tests/, benchmarks config data display features report runs storage trees variational \
	test_architecture.py test_public_names.py test_random_streams.py test_interrupts.py)

.PHONY: demo quick test check format bench validate clean

demo: $(VENV)/.installed
	$(BIN)/phloem infer primates --preset quick --out build/demo-run --force

quick: $(VENV)/.developing
	PHLOEM_QUICK=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal -m "not slow" $(QUICK)

test: $(VENV)/.developing
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

check: $(VENV)/.developing
	$(BIN)/python -m ruff format --check $(CODE)
	$(BIN)/python -m ruff check $(CODE)
	$(BIN)/python -m mypy

format: $(VENV)/.developing
	$(BIN)/python -m ruff format $(CODE)
	$(BIN)/python -m ruff check --fix $(CODE)

bench: $(VENV)/.developing
	for script in embedding recovery reading likelihood sbn features step families density starts bootstrap summaries; do $(BIN)/python benchmarks/$$script.py || exit 1; done

validate: $(VENV)/.developing
	$(BIN)/python benchmarks/validate.py
	$(BIN)/python benchmarks/write_validation.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "phloem needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	touch $@

$(VENV)/.developing: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.installed
