"""Imports point one way, between packages and between their rooms, and foreign packages appear in their homes only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import flinkray
from tests.support.imports import circles, imported_modules, modules_of, read_module

ROOT = Path(flinkray.__file__).resolve().parent.parent
ALLOWED = {
    "flinkray": {"flinkray"},
    "graphs": {"flinkray", "graphs"},
    "actors": {"flinkray", "graphs", "actors"},
}
# Every room, lowest first: a module imports modules of its own room and of rooms that stand before it. Imports inside
# functions and for types only count as well. A room is a package without the packages inside it, or a module at the
# top.
ROOMS = (
    # flinkray: values and vocabulary
    "flinkray.package_check",
    "flinkray.persistent_names",
    "flinkray.persistence",
    "flinkray.redaction",
    "flinkray.errors",
    "flinkray.latencies",
    "flinkray.filesystems",
    "flinkray.extras",
    "flinkray.plugins",
    "flinkray.types",
    "flinkray.batches",
    "flinkray.time",
    "flinkray.config",
    "flinkray.expressions",
    "flinkray.tables.types",
    "flinkray.tables.functions",
    "flinkray.tables.syntax",
    "flinkray.tables.syntax.parsing",
    "flinkray.tables.syntax.unparsing",
    "flinkray.tables.plans",
    "flinkray.tables.plans.rules",
    "flinkray.tables.catalog",
    "flinkray.tables.binding",
    "flinkray.state",
    "flinkray.functions",
    "flinkray.patterns",
    "flinkray.windows",
    "flinkray.tables.user_functions",
    "flinkray.rest",
    "flinkray.metrics",
    # flinkray: connectors
    "flinkray.connectors",
    "flinkray.connectors.formats",
    "flinkray.connectors.formats.changes",
    "flinkray.connectors.functions",
    "flinkray.connectors.files",
    "flinkray.connectors.files.writing",
    "flinkray.connectors.hybrid",
    "flinkray.connectors.socket",
    "flinkray.connectors.collection",
    "flinkray.connectors.sequence",
    "flinkray.connectors.datagen",
    "flinkray.connectors.collect",
    "flinkray.connectors.print",
    "flinkray.connectors.discard",
    "flinkray.connectors.feedback",
    "flinkray.connectors.spark",
    "flinkray.connectors.http",
    "flinkray.connectors.redis",
    "flinkray.connectors.nats",
    "flinkray.connectors.lake",
    "flinkray.connectors.delta",
    "flinkray.connectors.iceberg",
    "flinkray.connectors.kafka.clients",
    "flinkray.connectors.kafka.transactions",
    "flinkray.connectors.kafka",
    "flinkray.connectors.postgres",
    "flinkray.connectors.postgres.writing",
    "flinkray.connectors.postgres.changes",
    # flinkray: programs
    "flinkray.transformations",
    "flinkray.tables.lowering",
    "flinkray.tables.connectors",
    "flinkray.tables.compiled",
    "flinkray.execution",
    "flinkray.collected_rows",
    "flinkray.progress",
    "flinkray.dashboard",
    "flinkray.spark",
    "flinkray.tables.api",
    "flinkray.tables.environment",
    "flinkray.streams.settings",
    "flinkray.streams.checks",
    "flinkray.streams",
    "flinkray.cep",
    "flinkray.testing",
    "flinkray.pyflink",
    # graphs
    "graphs.persistent_names",
    "graphs",
    "graphs.passes",
    "graphs.compiler",
    # actors: what all of them stand on
    "actors.persistent_names",
    "actors.mailbox",
    "actors.storage",
    "actors.columns",
    "actors.blocks",
    "actors.logs",
    "actors.protocol",
    # actors: what the masters decide
    "actors.high_availability",
    "actors.scheduling.liveness",
    "actors.scheduling.slots",
    "actors.scheduling.failover",
    "actors.scheduling",
    "actors.state.snapshots",
    "actors.checkpoints",
    "actors.checkpoints.coordination",
    "actors.checkpoints.storage",
    "actors.checkpoints.restore",
    # actors: REST; the Dispatcher has it write down what became of a job
    "actors.rest.answers",
    "actors.rest.asking",
    "actors.rest.programs",
    "actors.rest.handlers",
    "actors.rest",
    "actors.rest.history",
    # actors: masters and workers
    "actors.dispatcher",
    "actors.resource_manager",
    "actors.task_executor",
    # actors: what operators keep and compute with
    "actors.state.keyed",
    "actors.state.hashmap",
    "actors.state.rocksdb",
    "actors.operators.contract",
    "actors.state",
    "actors.user_code",
    "actors.operators.expressions",
    "actors.operators.calc.values",
    "actors.operators.calc",
    "actors.keys",
    # actors: one job at its JobMaster
    "actors.coordinators",
    "actors.autoscaling",
    "actors.jobs",
    "actors.job_master",
    # actors: the exchange
    "actors.network",
    "actors.network.flow",
    "actors.network.producer",
    "actors.network.consumer",
    "actors.network.connections",
    # actors: operators
    "actors.operators.time",
    "actors.operators.sources",
    "actors.operators.functions",
    "actors.operators.asynchronous",
    "actors.operators.sinks",
    "actors.operators.aggregates",
    "actors.operators.windows.base",
    "actors.operators.windows.buffers",
    "actors.operators.windows.user_functions",
    "actors.operators.windows.aligned",
    "actors.operators.windows.sessions",
    "actors.operators.windows.counts",
    "actors.operators.windows.general",
    "actors.operators.windows",
    "actors.operators.joins",
    "actors.operators.patterns",
    "actors.operators.tables.rows",
    "actors.operators.tables",
    "actors.operators.tables.aggregates.states",
    "actors.operators.tables.aggregates",
    "actors.operators.tables.ranks",
    "actors.operators.tables.joins",
    "actors.operators.tables.windows",
    "actors.operators.tables.over",
    "actors.operators.tables.matches",
    "actors.operators",
    # actors: tasks, slots, hosts and those who use them
    "actors.tasks.metrics",
    "actors.tasks.chain",
    "actors.tasks.inputs",
    "actors.tasks.checkpoints",
    "actors.tasks",
    "actors.task_slot",
    "actors.hosts",
    "actors.hosts.ray.jobs",
    "actors.hosts.ray",
    "actors.hosts.ray.datasets",
    "actors.hosts.simulation",
    "actors.client.sql",
    "actors.client",
    "actors.spark",
    "actors.testing",
)
# Modules that import each other, and why. Each circle lies in one room.
CIRCLES = {
    frozenset(
        f"flinkray.streams.{name}"
        for name in (
            "all_windowed_stream",
            "column_operations",
            "connected_streams",
            "data_stream",
            "interval_join",
            "iterations",
            "joined_streams",
            "keyed_stream",
            "window_operations",
            "windowed_stream",
        )
    ): "methods of streams give streams of other kinds",
    frozenset(
        f"flinkray.pyflink.datastream.{name}"
        for name in ("data_stream", "stream_execution_environment", "windowed_stream")
    ): "methods of streams give streams of other kinds, under PyFlink's module names",
}
MOST_MODULES_IN_A_ROOM = 14
HOMES = {
    "ray": ("actors/hosts/ray/",),
    "raydp": ("actors/spark/",),
    "pyspark": ("actors/spark/",),
}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level package of every import in the file, also of those inside functions."""
    for node in read_module(path)[1]:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        else:
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            yield node.lineno, (node.module or "").split(".")[0]


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_from_actors_to_graphs_to_flinkray(package: str) -> None:
    forbidden = set(ALLOWED) - ALLOWED[package]
    wrong = [f"{p}:{line} imports {name}" for p in modules(package) for line, name in imported(p) if name in forbidden]
    assert wrong == []


def test_ray_and_spark_are_imported_in_their_homes_only() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for package in ALLOWED
        for path in modules(package)
        for line, name in imported(path)
        if name in HOMES and not path.relative_to(ROOT).as_posix().startswith(HOMES[name])
    ]
    assert wrong == []


def room_of(module: str) -> str:
    """The room of a module: the innermost one whose name its own begins with."""
    if module.startswith("flinkray.pyflink."):
        return "flinkray.pyflink"  # its packages are PyFlink's
    return module if module in ROOMS else module.rpartition(".")[0]


def test_every_module_is_in_a_room_and_every_room_has_one() -> None:
    rooms = {room_of(module) for module in modules_of(ROOT, *ALLOWED)}
    assert rooms - {"", *ALLOWED} == set(ROOMS) - {*ALLOWED}
    assert len(ROOMS) == len(set(ROOMS))


def test_imports_go_down_the_order_of_rooms() -> None:
    places = {room: place for place, room in enumerate(ROOMS)}
    wrong = [
        f"{module}:{line} imports {name} of {room_of(name)}, which is not below {room_of(module)}"
        for module in modules_of(ROOT, *ALLOWED)
        for line, name in imported_modules(ROOT, module)
        if {module, name}.isdisjoint({"flinkray", "actors"}) and places[room_of(name)] > places[room_of(module)]
    ]
    assert wrong == []


def test_no_modules_import_each_other_without_a_reason() -> None:
    assert set(circles(ROOT, *ALLOWED)) == set(CIRCLES)


def test_a_room_has_few_modules_side_by_side() -> None:
    crowded = {
        folder.relative_to(ROOT).as_posix(): count
        for package in ALLOWED
        for folder in {path.parent for path in modules(package)}
        if (count := sum(path.name != "__init__.py" for path in folder.glob("*.py"))) > MOST_MODULES_IN_A_ROOM
        and "pyflink" not in folder.parts
    }
    assert crowded == {}


def test_every_room_says_what_is_in_it() -> None:
    silent = [
        path.relative_to(ROOT).as_posix()
        for package in ALLOWED
        for path in modules(package)
        if not read_module(path)[0].strip()
    ]
    assert silent == []


def run_python(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def test_importing_flinkray_imports_neither_ray_nor_spark_nor_the_runtime(tmp_path: Path) -> None:
    code = "import sys, flinkray; print(sorted({'ray', 'raydp', 'pyspark', 'actors', 'graphs'} & set(sys.modules)))"
    done = run_python(code, tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("shadow", ["actors.py", "graphs/__init__.py", "graphs/other.py"])
def test_a_package_that_shadows_ours_is_named(tmp_path: Path, shadow: str) -> None:
    # A directory without __init__.py gives way to our package of that name, so it is no shadow.
    file = tmp_path / shadow
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    done = run_python("import flinkray", tmp_path)
    if shadow == "graphs/other.py":
        assert done.returncode == 0, done.stderr
    else:
        package = shadow.split("/")[0].removesuffix(".py")
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith(f"ImportError: {file.resolve()} shadows flinkray's own package {package!r}")


def test_all_is_sorted_and_complete() -> None:
    assert flinkray.__all__ == sorted(set(flinkray.__all__))
    assert [name for name in flinkray.__all__ if not hasattr(flinkray, name)] == []
    public = {name for name in vars(flinkray) if name[0].isupper()}
    assert public - set(flinkray.__all__) == set()
