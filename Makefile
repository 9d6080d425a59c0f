# `make pipeline` runs the main job, `make test` the tests; each does all the set-up it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ARGS ?=

.PHONY: setup pipeline test test-fast lint format types check clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml
	@test -n "$(PYTHON)" || { echo "flinkray needs Python 3.11, 3.12 or 3.13: install one and call 'make PYTHON=/path/to/python3'"; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"flinkray needs Python 3.11 to 3.13, and {sys.executable} is {v[0]}.{v[1]}: call make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[spark,dev]"
	@touch $@

pipeline: setup
	$(BIN)/python examples/pipeline.py $(ARGS)

test: setup
	$(BIN)/python -m pytest $(ARGS)

# Everything that needs neither Ray nor Spark.
test-fast: setup
	$(BIN)/python -m pytest -m "not ray and not spark" $(ARGS)

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: setup
	$(BIN)/mypy

check: lint types test

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis out
