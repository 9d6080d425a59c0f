"""PyFlink's programs under test: how they run here, and what of their output says something.

The expected outputs beside the tests are those of PyFlink 2.3.0 itself, brought into the same form. They are made anew
with `python -m tests.support.pyflink record PYTHON [NAME ...]`, where PYTHON has apache-flink, and Java to run it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "pyflink"
PROGRAMS = HERE / "programs"
EXPECTED = HERE / "expected"
VERSION = "2.3.0"

EXAMPLES = (
    "basic_operations",
    "event_time_timer",
    "process_json_data",
    "state_access",
    "windowing/session_with_dynamic_gap_window",
    "windowing/session_with_gap_window",
    "windowing/sliding_time_window",
    "windowing/tumbling_count_window",
    "windowing/tumbling_time_window",
    "word_count",
)
"""The programs of pyflink/examples/datastream that end."""

IN_ORDER = frozenset(
    {
        "accumulations",
        "basic_operations",
        "collecting",
        "files",
        "functions",
        "settings",
        "side_outputs",
        "timers",
        "untyped",
    }
)
"""Programs all of whose outputs have a defined order. Of the others, lines are compared without theirs: keys that fire
at the same time, the order of two inputs, and that of several subtasks are nobody's promise."""

_SPREAD = re.compile(r"^(rebalance|shuffle|rescale|forward):\d> ")
"""Programs that print with the subtask, which may be any."""
_SUBTASK = re.compile(r"^\d+> ")
_WORKER_NOISE = ("Using Any for", "No module named google", "PYFLINK_CYTHON_ENABLED")


def comparable(name: str, output: str) -> list[str]:
    """The lines of a program's output, each output of it in its own order; without what is not defined."""
    lines = [line for line in output.splitlines() if not line.startswith(_WORKER_NOISE)]
    lines = [_SUBTASK.sub("", _SPREAD.sub(r"\1> ", line)) for line in lines]
    if Path(name).stem not in IN_ORDER:
        return sorted(lines)
    return sorted(lines, key=lambda line: line.split("> ")[0] if "> " in line else "")  # stable: as they came


def expected(name: str) -> list[str]:
    return (EXPECTED / f"{Path(name).stem}.txt").read_text(encoding="utf-8").splitlines()


def output_of(program: Path) -> str:
    """What a program prints that is run in this process."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(program), run_name="__main__")
    return printed.getvalue()


def with_our_imports(source: str) -> str:
    return re.sub(r"\b(from|import) pyflink\b", r"\1 flinkray.pyflink", source)


def record(python: str, names: Sequence[str] = ()) -> None:
    """Runs programs and examples with PyFlink (by default all), and keeps what they print."""
    place = subprocess.check_output([python, "-c", "import pyflink; print(pyflink.__path__[0])"], text=True).strip()
    bin_directory = str(Path(python).parent)
    environ = os.environ | {"PATH": os.pathsep.join([bin_directory, os.environ["PATH"]]), "PYFLINK_EXECUTABLE": python}
    with tempfile.TemporaryDirectory() as directory:
        programs = [Path(place) / "examples" / "datastream" / f"{name}.py" for name in EXAMPLES]
        for ours in sorted(PROGRAMS.glob("*.py")):
            theirs = Path(directory) / ours.name
            theirs.write_text(ours.read_text(encoding="utf-8").replace("flinkray.pyflink", "pyflink"), encoding="utf-8")
            programs.append(theirs)
        for program in programs:
            if names and program.stem not in names:
                continue
            run = subprocess.run(
                [python, "-u", str(program)], env=environ, stdout=subprocess.PIPE, text=True, check=True
            )
            kept = "".join(f"{line}\n" for line in comparable(program.stem, run.stdout))
            (EXPECTED / f"{program.stem}.txt").write_text(kept, encoding="utf-8")


if __name__ == "__main__" and sys.argv[1:2] == ["record"]:
    record(sys.argv[2], sys.argv[3:])
