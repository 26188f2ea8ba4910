# make demo   what phloem does, on a bundled example
# make test   all tests
# make check  format, lint, types
# make bench  how fast it is, on this machine

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
TRACKED := src tests benchmarks examples

.PHONY: demo test check format bench clean

demo: $(VENV)/.installed
	$(BIN)/python examples/embed_and_recover.py

test: $(VENV)/.developing
	$(BIN)/python -m pytest

check: $(VENV)/.developing
	$(BIN)/ruff format --check $(TRACKED)
	$(BIN)/ruff check $(TRACKED)
	$(BIN)/mypy

format: $(VENV)/.developing
	$(BIN)/ruff format $(TRACKED)
	$(BIN)/ruff check --fix $(TRACKED)

bench: $(VENV)/.developing
	for script in embedding recovery reading; do $(BIN)/python benchmarks/$$script.py || exit 1; done

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "phloem needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable .
	touch $@

$(VENV)/.developing: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.installed
