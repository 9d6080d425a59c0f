# `make pipeline` runs the main job, `make test` the tests; each does all the set-up it needs.
# The first of these that runs and is a version that flinkray supports.
first_python = $(shell for each in $(1); do \
	$$each -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$each && break; \
	done)
PYTHON ?= $(call first_python,python3 python3.13 python3.12 python3.11)
OLDEST_PYTHON ?= $(call first_python,python3.11 python3.12 python3.13)
NEWEST_PYTHON ?= $(call first_python,python3.13 python3.12 python3.11)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ARGS ?=
IN_MEMORY := $(BIN)/python -m tests.support.files_in_memory
FAST := not ray and not spark and not kafka and not postgres and not redis and not nats and not s3
SEEDS ?= 50

.PHONY: setup pipeline orders test test-fast simulate recovery flink-ui page bench nexmark docs compat compat-oldest compat-newest wheel lint format types check clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml
	@test -n "$(PYTHON)" || { echo "flinkray needs Python 3.11, 3.12 or 3.13: install one, or call 'make PYTHON=/path/to/python3'"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/python -m compileall -q flinkray graphs actors  # pip compiles what it copies; each process of a job would
	@touch $@

pipeline: setup
	$(BIN)/python examples/pipeline.py $(ARGS)

# A shop's orders through Kafka and PostgreSQL, which it starts: Java, Maven and PostgreSQL's server have to be there.
orders: setup
	$(BIN)/python -m examples.orders $(ARGS)

# The fast ones on all cores; those with processes of their own one after the other. 5: none of a kind was selected.
test: setup
	$(IN_MEMORY) -m pytest -n auto --dist worksteal -m "$(FAST)" $(ARGS) || test $$? -eq 5
	$(BIN)/python -m pytest -m "ray or spark or kafka or postgres or redis or nats or s3" $(ARGS) || test $$? -eq 5

# Everything that needs neither Ray nor Spark nor servers.
test-fast: setup
	$(IN_MEMORY) -m pytest -n auto --dist worksteal -m "$(FAST)" $(ARGS)

# Whole jobs in one thread under random interleavings and faults; says how each seed that fails is replayed. Each simulation
# runs with so many seeds, dealt out to its cases; ARGS="--first-seed 50" goes on behind them.
simulate: setup
	$(IN_MEMORY) -m pytest -n auto tests/simulation --seeds $(SEEDS) --timeout 600 -q $(ARGS)

# Jobs on Ray whose processes and nodes die: what they commit, and how soon they go on.
recovery: setup
	$(BIN)/python -m pytest tests/ray/test_recovery.py --recovery -s $(ARGS)

# Flink's own dashboard, as it is, over a job of ours: every view in Chromium (Debian: chromium), with pictures of all. It is
# taken out of Flink's package, and both this and Playwright go to a directory of their own. ARGS="--target ray": on Ray.
FLINK_UI := build/flink-ui
flink-ui: setup
	test -d $(FLINK_UI)/packages || $(BIN)/python -m pip install --quiet --target $(FLINK_UI)/packages \
		"playwright>=1.50,<2" apache-flink-libraries==2.3.0
	test -d $(FLINK_UI)/web || $(BIN)/python -c "import zipfile; \
		jar = zipfile.ZipFile('$(FLINK_UI)/packages/pyflink/lib/flink-dist-2.3.0.jar'); \
		jar.extractall('$(FLINK_UI)', [name for name in jar.namelist() if name.startswith('web/')])"
	PYTHONPATH=.:$(FLINK_UI)/packages $(BIN)/python -m tests.flink_ui.drive \
		--page $(FLINK_UI)/web --pictures $(FLINK_UI)/pictures $(ARGS)

# Every view of our own page, seen by axe-core (npm) in Chromium, with pictures. ARGS="--target ray": on Ray, whose masters
# are killed meanwhile.
PAGE := build/page
page: setup
	test -d $(PAGE)/packages || $(BIN)/python -m pip install --quiet --target $(PAGE)/packages "playwright>=1.50,<2"
	test -f $(PAGE)/axe.js || (cd $(PAGE) && npm pack --silent axe-core@4.14.1 && \
		tar --extract --gzip --strip-components 1 --file axe-core-4.14.1.tgz package/axe.min.js && mv axe.min.js axe.js)
	PYTHONPATH=.:$(PAGE)/packages $(BIN)/python -m tests.page.drive --axe $(PAGE)/axe.js --pictures $(PAGE)/pictures $(ARGS)

# Against other engines on the same work, each in a virtual environment of its own under .bench/; takes hours.
bench: setup
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python -m benchmarks setup
	$(BIN)/python -m benchmarks run $(ARGS)

# Nexmark: answers beside Flink's and DuckDB's, then events a second beside Flink SQL. Needs Maven.
nexmark: setup
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python -m benchmarks setup --engines flink-sql
	$(BIN)/python -m benchmarks nexmark $(ARGS)

# The documentation as a site in build/docs; a warning is an error.
docs: setup
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet --jobs auto \
		--doctree-dir build/doctrees docs build/docs

# The oldest and the newest of all that pyproject.toml allows, each in an environment of its own under build/: the fast
# levels, a handful of jobs on Ray, and Spark, which the oldest have on Ray (RayDP), and the newest beside it (PySpark 4).
compat: compat-oldest compat-newest

compat-oldest: COMPAT := $(OLDEST_PYTHON) lowest-direct test,spark
compat-oldest: SPARK_TESTS := tests/spark/test_round_trip.py -m ray
compat-newest: COMPAT := $(NEWEST_PYTHON) highest test,spark4
compat-newest: SPARK_TESTS := tests/spark -m "not ray"
RAY_TESTS := tests/ray/test_cluster.py tests/ray/test_datasets.py tests/ray/test_transport.py
FAST_TESTS := tests/unit tests/plans tests/contract tests/local tests/simulation tests/pyflink

compat-oldest compat-newest: compat-%: setup
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	$(BIN)/uv venv --quiet --clear --python $(word 1,$(COMPAT)) build/$*
	$(BIN)/uv pip install --quiet --compile-bytecode --python build/$* --resolution $(word 2,$(COMPAT)) --editable ".[$(word 3,$(COMPAT))]"
	@$(BIN)/uv pip list --python build/$* | grep -E '^(numpy|pandas|pyarrow|pyspark|ray|raydp) '
	build/$*/bin/python -m tests.support.files_in_memory -m pytest -q -n auto --dist worksteal -m "not ray and not spark" $(FAST_TESTS) $(ARGS)
	build/$*/bin/python -m pytest -q $(RAY_TESTS) $(ARGS)
	build/$*/bin/python -m pytest -q $(SPARK_TESTS) $(ARGS)

# The wheel and the sdist as PyPI gets them; the README's first program runs with the wheel alone.
wheel: setup
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	rm -rf build/dist
	$(BIN)/uv build --quiet --out-dir build/dist
	$(BIN)/twine check --strict build/dist/*.whl build/dist/*.tar.gz
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python .ci/check_distributions.py build/dist

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: setup
	$(BIN)/mypy
	$(BIN)/python .ci/check_programs.py build/programs

check: lint types docs test

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build out
