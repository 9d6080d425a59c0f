"""Keeps what a release persists as test data, so that later ones are tested to read it.

    python -m tests.support.store_state 0.1.0

writes `tests/data/savepoints/0.1.0/`: snapshots of operators, savepoints and checkpoints of whole jobs, the store of a
highly available cluster, and values and programs that these hold seldom. `tests/local/test_stored_state.py` restores
what every release has left; names of operators behind the version add their snapshots to those that it has. A release
is stored with the oldest Python and the oldest packages that it supports; from below a directory whose name may be
known (/tmp/flinkray-savepoints), as JobGraphs have the paths of Python's modules and errors their tracebacks; and on a
host that is called localhost (`unshare -u`), as RocksDB writes down its name.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from flinkray.batches.pickling import dumps
from tests.support import stored_clusters, stored_jobs, stored_operators, stored_values

DATA = Path(__file__).resolve().parent.parent / "data" / "savepoints"
Files = dict[str, bytes]
_WHEN = (1980, 1, 1, 0, 0, 0)


def operators(names: Iterable[str] = stored_operators.CASES) -> Files:
    found: Files = {}
    for name in names:
        with stored_operators.CASES[name].harness() as harness:
            stored_operators.first_half(harness)
            found[name] = harness.snapshot()
    return found


def jobs() -> Files:
    found: Files = {}
    for name, job in stored_jobs.JOBS.items():
        found |= {f"{name}/{path}": content for path, content in stored_jobs.interrupted(job).items()}
    return found


def values() -> Files:
    return {name: dumps(value) for name, value in stored_values.examples().items()}


def programs() -> Files:
    return {name: dumps(stored_values.graph_of(build)) for name, build in stored_values.programs().items()}


KINDS = {
    "operators": operators,
    "jobs": jobs,
    "cluster": stored_clusters.left_in_the_middle,
    "values": values,
    "programs": programs,
}


def write(version: str) -> None:
    (DATA / version).mkdir(parents=True, exist_ok=True)
    for kind, make in KINDS.items():
        _keep(version, kind, make())


def add(version: str, names: Iterable[str]) -> None:
    _keep(version, "operators", read(version, "operators") | operators(names))


def _keep(version: str, kind: str, files: Files) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _WHEN), content, zipfile.ZIP_DEFLATED)
    (DATA / version / f"{kind}.zip").write_bytes(stream.getvalue())


def versions() -> list[str]:
    return sorted(path.name for path in DATA.iterdir())


def read(version: str, kind: str) -> Files:
    with zipfile.ZipFile(DATA / version / f"{kind}.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


if __name__ == "__main__":
    _, _version, *_names = sys.argv
    add(_version, _names) if _names else write(_version)
