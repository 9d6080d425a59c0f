# `make pipeline` runs the main job, `make test` the tests; each does all the set-up it needs.
# The first of these that runs and is a version that flinkray supports.
PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11; do \
	$$each -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$each && break; \
	done)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ARGS ?=
SEEDS ?= 50

.PHONY: setup pipeline test test-fast simulate recovery bench docs lint format types check clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml
	@test -n "$(PYTHON)" || { echo "flinkray needs Python 3.11, 3.12 or 3.13: install one, or call 'make PYTHON=/path/to/python3'"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[spark,rocksdb,dev]"
	$(BIN)/python -m compileall -q flinkray graphs actors  # pip compiles what it copies; each process of a job would
	@touch $@

pipeline: setup
	$(BIN)/python examples/pipeline.py $(ARGS)

# The fast ones on all cores; those with processes of their own one after the other. 5: none of a kind was selected.
test: setup
	$(BIN)/python -m pytest -n auto -m "not ray and not spark" $(ARGS) || test $$? -eq 5
	$(BIN)/python -m pytest -m "ray or spark" $(ARGS) || test $$? -eq 5

# Everything that needs neither Ray nor Spark.
test-fast: setup
	$(BIN)/python -m pytest -n auto -m "not ray and not spark" $(ARGS)

# Whole jobs in one thread under random interleavings and faults; says how each seed that fails is replayed.
simulate: setup
	$(BIN)/python -m pytest -n auto tests/simulation --seeds $(SEEDS) --timeout 600 -q $(ARGS)

# Jobs on Ray whose processes and nodes die: what they commit, and how soon they go on.
recovery: setup
	$(BIN)/python -m pytest tests/ray/test_recovery.py --recovery -s $(ARGS)

# Against other engines on the same work, each in a virtual environment of its own under .bench/; takes hours.
bench: setup
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python -m benchmarks setup
	$(BIN)/python -m benchmarks run $(ARGS)

# The documentation as a site in build/docs; a warning is an error.
docs: setup
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet --jobs auto \
		--doctree-dir build/doctrees docs build/docs

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: setup
	$(BIN)/mypy

check: lint types docs test

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build out
